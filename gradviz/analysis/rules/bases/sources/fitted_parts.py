"""Scalers and encoders that a program fits to several parts of one split.

>>> tree = SourceTree(dict(enumerate('''a, b, y, z = train_test_split(data, wanted)
... c, d = data[:80], data[80:]
... a = scaler.fit_transform(a)
... b = scaler.fit_transform(b)
... y, z = Encoder().fit_transform(y), Encoder().fit_transform(z.values)
... c, d = other.fit_transform(c), other.transform(d)
... '''.splitlines(), start=1)))
>>> [(each.name, each.other, each.line, each.first_line) for each in fitted_twice(tree)]
[('b', 'a', 4, 3), ('z', 'y', 5, 5)]
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.rules.bases.sources.loops.named_parts import parts_of_splits
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import SourceTree, called_name, parameters_of

_PAIR = 2
_WITHOUT_GRADIENTS = frozenset({"no_grad", "inference_mode"})
_JOINS = frozenset({"concatenate", "vstack", "hstack", "column_stack", "cat", "concat", "stack"})
_TURNED = frozenset({"T", "mT"})
_VIEWS = frozenset({"TSNE", "MDS", "SpectralEmbedding"})
"""Classes of scikit-learn that have no ``transform()``: they only draw what they are fitted to."""


class FittedTwice(Struct, frozen=True):
    """Two calls of ``fit_transform()``, of one object or of two of one class, or of a function of the program that
    standardizes what it is given, with parts of one split."""

    name: str
    line: int
    other: str
    first_line: int
    function: str = "fit_transform"


def fitted_twice(tree: SourceTree) -> Iterator[FittedTwice]:
    """The second of each two such calls, where nothing is fitted in a loop."""
    part_of = {each.target.id: (each.of_data, each.place % _PAIR) for each in parts_of_splits(tree)}
    passed = _transformed(tree)
    one_way = {node.name for node in tree.nodes if isinstance(node, ast.ClassDef) and not _has_transform(node)} | _VIEWS
    fitted: dict[tuple[str, str], list[tuple[str, int, int, ast.Call]]] = defaultdict(list)
    own = {node.name for node in tree.nodes if isinstance(node, FUNCTIONS) and _standardizes(tree, node)}
    calls = (node for node in tree.nodes if isinstance(node, ast.Call) and called_name(node) in {"fit_transform", *own})
    for call in sorted(calls, key=lambda each: (each.lineno, each.col_offset)):
        name = _root(call.args[0]) if call.args else None
        function = called_name(call)
        if name not in part_of or any(tree.loops_around(call)):
            continue
        split, side = part_of[name]
        if function in own:
            if _is_computed(tree, split):
                continue
            fitter = function
        elif isinstance(call.func, ast.Attribute):
            fitter = _fitted_object(call.func.value)
            if (fitter, name) in passed or _class_of(tree, call.func.value) in one_way:
                continue
        else:
            continue
        before = fitted[fitter, split]
        other = next((each for each in before if each[2] != side), None)
        if other is not None and not (function in own and _meet(tree, call, other[3])):
            yield FittedTwice(name, call.lineno, other[0], other[1], function)
        before.append((name, call.lineno, side, call))


def _is_computed(tree: SourceTree, data: str) -> bool:
    """Whether a model has computed what is split: a block without gradients does, or a result is taken off its graph.
    Two views are often computed together."""
    for target, value in tree.assignments:
        if ast.unparse(target) != data:
            continue
        blocks = (item.context_expr for each in tree.around(value) if isinstance(each, ast.With) for item in each.items)
        if any(called_name(each) in _WITHOUT_GRADIENTS for each in blocks):
            return True
        if any(called_name(each) == "detach" for each in ast.walk(value)):
            return True
    return False


def _meet(tree: SourceTree, one: ast.Call, other: ast.Call) -> bool:
    """Whether the program computes with two results together, or joins them to one table: then they are no part for
    training and part for a score."""
    for node in tree.nodes:
        sides: list[ast.expr] = []
        if isinstance(node, ast.BinOp):
            sides = [node.left, node.right]
        elif called_name(node) in _JOINS and isinstance(node, ast.Call) and node.args:
            first = node.args[0]
            sides = first.elts if isinstance(first, (ast.List, ast.Tuple)) else node.args
        for place, side in enumerate(sides):
            rest = sides[:place] + sides[place + 1 :]
            if _has_result(tree, side, one) and any(_has_result(tree, each, other) for each in rest):
                return True
    return False


def _has_result(tree: SourceTree, node: ast.expr, call: ast.Call) -> bool:
    """Whether an expression has a call in it, or the variable that its result is given to."""
    held = next((target for target, value in tree.assignments if value is call), None)
    key = None if held is None else tree.key_of(held)
    return any(each is call or (key is not None and tree.key_of(each) == key) for each in ast.walk(node))


def _standardizes(tree: SourceTree, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function returns its only argument less the mean of it by column, divided by something."""
    names = parameters_of(function)
    if len(names) != 1 or isinstance(tree.parent(function), ast.ClassDef):
        return False
    means = [node for node in ast.walk(function) if _is_mean_by_column(node, names[0])]
    held = [target for target, value in tree.assignments if value in means]
    known = {each.id for each in held if isinstance(each, ast.Name)}
    for node in ast.walk(function):
        match node:
            case ast.BinOp(left=ast.BinOp(left=ast.Name(id=name), op=ast.Sub(), right=mean), op=ast.Div()):
                if name == names[0] and (mean in means or getattr(mean, "id", "") in known):
                    return True
    return False


def _is_mean_by_column(node: ast.AST, name: str) -> bool:
    """``x.mean(0)``, ``np.mean(x, axis=0)``"""
    if called_name(node) != "mean" or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    axes = [*node.args, *(each.value for each in node.keywords if each.arg in ("axis", "dim"))]
    is_by_column = any(isinstance(each, ast.Constant) and each.value == 0 for each in axes)
    return is_by_column and any(getattr(each, "id", "") == name for each in (node.func.value, *node.args))


def _fitted_object(node: ast.expr) -> str:
    """A variable, or the class of an object that is made on the spot."""
    return ast.unparse(node.func if isinstance(node, ast.Call) else node)


def _class_of(tree: SourceTree, node: ast.expr) -> str:
    """The class of which an object is, if the program makes it on the spot or gives it to a variable."""
    if isinstance(node, ast.Call):
        return called_name(node)
    key = tree.key_of(node)
    made = [called_name(value) for value in tree.values_of(key)]
    return made[-1] if made else ""


def _has_transform(node: ast.ClassDef) -> bool:
    """Whether a class can be used on other data than those that it was fitted to; a base class may have the method."""
    return bool(node.bases) or any(isinstance(each, FUNCTIONS) and each.name == "transform" for each in node.body)


def _transformed(tree: SourceTree) -> set[tuple[str, str | None]]:
    """Objects, with the data that a program passes to their ``transform()``: in a cross-fitting, each part is fitted to
    in its turn, and held out in another one."""
    calls = (node for node in tree.nodes if isinstance(node, ast.Call) and called_name(node) == "transform")
    return {
        (_fitted_object(call.func.value), _root(call.args[0]))
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.args
    }


def _root(node: ast.expr) -> str | None:
    """``x`` of ``x[["a", "b"]]`` and ``x.values``, which are the same rows; not of ``x.T``, whose rows are others."""
    while isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr not in _TURNED):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
