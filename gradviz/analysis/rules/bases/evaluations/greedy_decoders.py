"""Source that takes the blanks and the repeats out of a path of classes, as greedy decoding for CTC does.

>>> source = ["path = [p for p in path if p != 0]", "text = [k for k, _ in groupby(path)]"]
>>> [(each.removed, each.merged) for each in blanks_removed_first(SourceTree(dict(enumerate(source, 1))))]
[(1, 2)]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.sources.source_tree import SourceTree, called_name, names_in

_MERGES = frozenset({"groupby", "unique_consecutive"})


class MergedWithoutBlanks(Struct, frozen=True):
    """Repeats that are merged where no blank lies between them any more."""

    removed: int
    """The line that takes out the blanks."""
    merged: int
    """The line that merges the repeats."""
    is_loop: bool = False
    """Whether one loop does both."""


def blanks_removed_first(tree: SourceTree) -> Iterator[MergedWithoutBlanks]:
    """In the order of the lines."""
    removed = {
        target.id: value.lineno
        for target, value in tree.assignments
        if isinstance(target, ast.Name) and _takes_one_class_out(value)
    }
    found = set[MergedWithoutBlanks]()
    for node in tree.nodes:
        for name, line in removed.items():
            if _merges(node, name) and line < getattr(node, "lineno", 0) and _are_of_one_function(tree, node, line):
                found.add(MergedWithoutBlanks(line, getattr(node, "lineno", 0)))
        given = node.args[:1] if isinstance(node, ast.Call) and called_name(node) in _MERGES else []
        found |= {MergedWithoutBlanks(each.lineno, each.lineno) for each in given if _takes_one_class_out(each)}
        if isinstance(node, ast.For) and _compares_with_last_kept(node):
            found.add(MergedWithoutBlanks(node.lineno, node.lineno, is_loop=True))
    yield from sorted(found, key=lambda each: (each.merged, each.removed))


def _are_of_one_function(tree: SourceTree, node: ast.AST, line: int) -> bool:
    other = tree.statement_at(line)
    return other is not None and tree.scope(other) is tree.scope(node)


def _takes_one_class_out(value: ast.expr) -> bool:
    """``[p for p in path if p != blank]``, or ``path[path != blank]``."""
    match value:
        case ast.ListComp(elt=ast.Name(id=kept), generators=[ast.comprehension(target=ast.Name(id=name), ifs=[test])]):
            return kept == name and _is_unequal(test, name)
        case ast.Subscript(value=ast.Name(id=name), slice=test):
            return _is_unequal(test, name)
    return False


def _is_unequal(test: ast.expr, name: str) -> bool:
    """``name != blank``."""
    match test:
        case ast.Compare(
            left=ast.Name(id=left), ops=[ast.NotEq()], comparators=[ast.Name() | ast.Constant() | ast.Attribute()]
        ):
            return left == name
    return False


def _merges(node: ast.AST, name: str) -> bool:
    """Whether a call or a comprehension keeps one of several equal neighbours of a list."""
    if isinstance(node, ast.Call) and called_name(node) in _MERGES:
        return bool(node.args) and isinstance(node.args[0], ast.Name) and node.args[0].id == name
    if not isinstance(node, ast.ListComp) or name not in names_in(node):
        return False
    tests = [test for generator in node.generators for test in generator.ifs]
    has_unequal = any(
        isinstance(each, ast.Compare) and isinstance(each.ops[0], ast.NotEq)
        for test in tests
        for each in ast.walk(test)
    )
    return has_unequal and any(_is_neighbour(each, name) for each in ast.walk(node))


def _is_neighbour(node: ast.AST, name: str) -> bool:
    """``path[i - 1]``, ``path[1:]`` or ``path[:-1]``."""
    match node:
        case ast.Subscript(
            value=ast.Name(id=own), slice=ast.BinOp(op=ast.Sub(), right=ast.Constant(value=1)) | ast.Slice()
        ):
            return own == name
    return False


def _compares_with_last_kept(loop: ast.For) -> bool:
    """``for p in path: if p != blank and p != last: kept.append(p); last = p``: what was kept last stands in the place
    of what came last."""
    match loop:
        case ast.For(
            target=ast.Name(id=name), body=[ast.If(test=ast.BoolOp(op=ast.And(), values=values), body=body, orelse=[])]
        ):
            pass
        case _:
            return False
    compared = [each for value in values for each in ast.walk(value) if isinstance(each, ast.Compare)]
    others = [
        each.comparators[0] for each in compared if _is_name(each.left, name) and isinstance(each.ops[0], ast.NotEq)
    ]
    kept, last = set(_lists_that_get(body, name)), set(_variables_set_to(body, name))
    stands_for_last = [
        (isinstance(each, ast.Subscript) and ast.unparse(each.value) in kept) or ast.unparse(each) in last
        for each in others
    ]
    return len(others) > 1 and bool(kept) and sum(stands_for_last) == 1


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _lists_that_get(body: list[ast.stmt], name: str) -> Iterator[str]:
    """The lists to which statements append a variable."""
    for node in ast.walk(ast.Module(body, [])):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=kept), attr="append"), args=[ast.Name(id=given)]):
                if given == name:
                    yield kept


def _variables_set_to(body: list[ast.stmt], name: str) -> Iterator[str]:
    """The variables to which statements assign another one."""
    for statement in body:
        if isinstance(statement, ast.Assign) and _is_name(statement.value, name):
            yield from (target.id for target in statement.targets if isinstance(target, ast.Name))
