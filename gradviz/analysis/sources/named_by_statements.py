"""Which names a statement binds, and which it reads.

>>> tree = SourceTree(dict(enumerate('''for old in self.kept:
...     out.grad[0], ratio = None, old / 2
...     if ratio > limit:
...         loss = 3
...     kept.append(loss, 2 * out)
... '''.splitlines(), start=1)))
>>> [(sorted(set(bound_by(each))), sorted(read_by(each))) for each in map(tree.statement_at, (1, 2, 3))]
[(['old'], ['kept', 'self']), (['out', 'ratio'], ['grad', 'old', 'out']), ([], ['limit', 'ratio'])]
>>> sorted(read_for(tree, tree.statement_at(3)))
['grad', 'kept', 'limit', 'old', 'out', 'ratio', 'self']
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.sources.source_tree import SourceTree

MAX_ROUNDS = 20
_NAMES = (ast.Name, ast.Attribute)


def bound_by(statement: ast.AST) -> Iterator[str]:
    """The names that a statement binds, or of whose objects it sets an element or an attribute."""
    for part in _parts(statement):
        for node in ast.walk(part):
            if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
                yield from root_of(node)


def read_by(node: ast.AST, *, whole: bool = False) -> set[str]:
    """The variables and attributes that a statement reads; of a loop or a branch, those in its first line."""
    nodes = [each for part in ([node] if whole else _parts(node)) for each in ast.walk(part)]
    changed = node.target if isinstance(node, ast.AugAssign) else None
    names = (each for each in nodes if isinstance(each, _NAMES) and (isinstance(each.ctx, ast.Load) or each is changed))
    return {each.id if isinstance(each, ast.Name) else each.attr for each in names}


def root_of(node: ast.AST) -> Iterator[str]:
    """The variable from which an attribute or an element is taken; nothing for what has no name."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id


def read_for(tree: SourceTree, statement: ast.stmt) -> set[str]:
    """What a statement reads, and what the variables of the same function that it reads are computed from."""
    scope = tree.scope(statement)
    inside = [each for each in ast.walk(scope) if isinstance(each, ast.stmt) and tree.scope(each) is scope]
    statements = [(_variables_of(each), read_by(each)) for each in inside]
    names = read_by(statement)
    for _ in range(MAX_ROUNDS):
        further = set[str]().union(*(named for bound, named in statements if not bound.isdisjoint(names)))
        if further <= names:
            break
        names |= further
    return names


def _variables_of(statement: ast.stmt) -> set[str]:
    nodes = (each for part in _parts(statement) for each in ast.walk(part) if isinstance(each, ast.Name))
    return {each.id for each in nodes if not isinstance(each.ctx, ast.Load)}


def _parts(statement: ast.AST) -> list[ast.AST]:
    """The parts of a statement that are no statements themselves."""
    return [each for each in ast.iter_child_nodes(statement) if not isinstance(each, (ast.stmt, ast.excepthandler))]
