"""Errors of standardized values that a function brings back to units as if they were values.

>>> tree = SourceTree(dict(enumerate('''scaler = StandardScaler().fit(table)
... error = F.l1_loss(model(x), y).item()
... print(scaler.inverse_transform([[error]]), scaler.inverse_transform(model(x)))
... '''.splitlines(), start=1)))
>>> [(each.error, each.restored) for each in restored_errors(tree)]
[(2, 3)]
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.rules.bases.sources.arrays.resolved_values import LIBRARIES, is_of_library, source_of
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import SourceTree, called_name

_RESTORES = re.compile(r"inverse_transform|de_?normali[sz]e|un_?normali[sz]e|un_?scale|de_?standardi[sz]e|inverse$")
_SCALERS = frozenset({"StandardScaler", "MinMaxScaler", "RobustScaler"})
_ERRORS = frozenset({
    "l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss", "mean_absolute_error", "mean_squared_error",
    "root_mean_squared_error", "L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss",
})  # fmt: skip
_SIZES = frozenset({"abs", "absolute", "square", "fabs"})
_MEANS = frozenset({"mean", "average", "median", "sqrt"})
_DEVIATIONS = re.compile(r"std|sigma|scale|(^|[._])sd($|_)", re.IGNORECASE)
_PLACES = re.compile(r"mean|(^|[._])mu($|_)|average", re.IGNORECASE)
_MAX_DEPTH = 4


class RestoredError(Struct, frozen=True):
    """The line that computes an error, and the line that restores it."""

    error: int
    restored: int
    text: str


def restored_errors(tree: SourceTree) -> Iterator[RestoredError]:
    """In the order of the source."""
    for node in tree.nodes:
        given = _restored(tree, node)
        if given is not None and _is_error(tree, given):
            source = source_of(tree, given)
            line = given.lineno if source is None else source.lineno
            yield RestoredError(line, getattr(node, "lineno", line), ast.unparse(node))


def _restored(tree: SourceTree, node: ast.AST) -> ast.expr | None:
    """What a call, or a product and a sum, restore with a mean."""
    match node:
        case ast.Call(args=[given, *_]) if _RESTORES.search(called_name(node)) and _adds_mean(tree, node):
            while isinstance(given, (ast.List, ast.Tuple)) and len(given.elts) == 1:
                given = given.elts[0]
            return given
        case ast.BinOp(left=ast.BinOp(left=one, op=ast.Mult(), right=other), op=ast.Add(), right=mean):
            is_mean = _PLACES.search(ast.unparse(mean)) and _DEVIATIONS.search(ast.unparse(other))
            if is_mean and _of_what(mean, _PLACES) == _of_what(other, _DEVIATIONS):
                return one
    return None


def _of_what(node: ast.expr, kind: re.Pattern[str]) -> str:
    """``y`` of ``y_mean``, ``y_std``, ``y.mean()`` and ``np.std(y)``: what a mean and a deviation are those of."""
    while isinstance(node, ast.Call) and kind.search(called_name(node)):
        node = node.args[0] if node.args and _is_function(node) else getattr(node.func, "value", node.func)
    match node:
        case ast.Subscript(value=held):
            return _of_what(held, kind)
        case ast.Attribute(value=held, attr=name) if kind.search(name):
            return f"{ast.unparse(held)}.{kind.sub('', name).strip('_')}"
        case ast.Name(id=name) if kind.search(name):
            return kind.sub("", name).strip("_")
    return ast.unparse(node)


def _adds_mean(tree: SourceTree, call: ast.Call) -> bool:
    """Whether a function of the program returns a sum, or a scaler of scikit-learn restores."""
    own = [each for each in tree.nodes if isinstance(each, FUNCTIONS) and each.name == called_name(call)]
    if own:
        returned = [each.value for function in own for each in ast.walk(function) if isinstance(each, ast.Return)]
        return bool(returned) and all(isinstance(each, ast.BinOp) and isinstance(each.op, ast.Add) for each in returned)
    key = tree.key_of(call.func.value) if isinstance(call.func, ast.Attribute) else None
    made = tree.values_of(key)
    return any(called_name(part) in _SCALERS for value in made for part in ast.walk(value))


def _is_error(tree: SourceTree, node: ast.expr, depth: int = 0) -> bool:
    """Whether a value is an error, or the mean of errors."""
    source = source_of(tree, node)
    if source is None or depth > _MAX_DEPTH:
        return False
    name = called_name(source)
    if not isinstance(source, ast.Call):
        return False
    if name in _MEANS:
        inner = source.args[0] if source.args and _is_function(source) else getattr(source.func, "value", None)
        return inner is not None and (_is_size(tree, inner) or _is_error(tree, inner, depth + 1))
    key = tree.key_of(source.func)
    made = tree.values_of(key)
    return name in _ERRORS or any(called_name(each) in _ERRORS for each in made)


def _is_function(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) or is_of_library(call, LIBRARIES | {"math"})


def _is_size(tree: SourceTree, node: ast.expr) -> bool:
    """``abs(a - b)``, ``(a - b) ** 2``, ``(a - b).abs()``."""
    source = source_of(tree, node)
    match source:
        case ast.BinOp(left=inner, op=ast.Pow()):
            difference = source_of(tree, inner)
        case ast.Call(args=given, func=function) if called_name(source) in _SIZES:
            inner = given[0] if given else getattr(function, "value", source)
            difference = source_of(tree, inner)
        case _:
            return False
    return isinstance(difference, ast.BinOp) and isinstance(difference.op, ast.Sub)
