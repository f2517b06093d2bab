"""Ratios of counts that a loop computes for each batch, and of which a program takes the mean: precision, recall, F1.

>>> tree = SourceTree(dict(enumerate('''recalls, right = [], 0
... for x, y in loader:
...     p = model(x) > 0
...     hits = (p & y).sum().item()
...     recalls.append(hits / y.sum().item())
...     right += (p == y).sum().item() / len(y)
... print(sum(recalls) / len(recalls), right / len(loader))
... '''.splitlines(), start=1)))
>>> [(each.name, each.added, each.averaged, each.is_by_hand) for each in ratios_over_batches(tree)]
[('recalls', 5, 7, True)]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.sources.source_tree import COMPREHENSIONS, Key, SourceTree, called_name

_METRICS = frozenset({
    "f1_score", "fbeta_score", "precision_score", "recall_score", "roc_auc_score", "average_precision_score",
    "matthews_corrcoef", "cohen_kappa_score", "balanced_accuracy_score", "jaccard_score", "r2_score",
    "binary_f1_score", "multiclass_f1_score", "binary_precision", "multiclass_precision", "binary_recall",
    "multiclass_recall", "binary_auroc", "multiclass_auroc", "auroc", "binary_average_precision",
    "precision_recall_fscore_support",
})  # fmt: skip
"""Functions of scikit-learn, torchmetrics and torcheval whose result for all samples is no mean of those for parts."""
_COUNTS = frozenset({"sum", "count_nonzero"})
_BOTH_TRUE = frozenset({"logical_and", "bitwise_and", "mul", "multiply", "minimum"})
_COLLECT = frozenset({"append", "update", "add"})
_DIVIDE = frozenset({"div", "divide", "true_divide"})
_MEANS = frozenset({"mean", "fmean", "average", "nanmean"})
_DEEP = 4
_MAX_EXPRESSIONS = 40


class RatioOverBatches(Struct, frozen=True):
    """The mean of a ratio over the rounds of a loop."""

    name: str
    """The variable in which the ratios are collected."""
    added: int
    averaged: int
    """The lines that add one of them, and that divide by how many there are."""
    over: ast.expr
    """What the loop goes over."""
    first: int
    last: int
    """The lines of each round."""
    metric: str
    """What is computed, if a library's function does; else ""."""

    @property
    def is_by_hand(self) -> bool:
        return not self.metric


def ratios_over_batches(tree: SourceTree) -> Iterator[RatioOverBatches]:
    """Those of each loop, in the order of the source."""
    for node in tree.nodes:
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            yield from _in_comprehension(tree, node)
        target, value = _collected(node)
        key = None if target is None else _key(tree, target)
        loop = next(tree.loops_around(node), None) if key is not None else None
        if target is None or value is None or key is None or not isinstance(loop, ast.For):
            continue
        found = _ratio_in(tree, value)
        averaged = None if found is None else _line_of_mean(tree, key, loop) or _line_of_meter(tree, node, key)
        if found is not None and averaged is not None:
            last = loop.end_lineno or loop.lineno
            name = ast.unparse(target)
            yield RatioOverBatches(name, value.lineno, averaged, loop.iter, loop.body[0].lineno, last, found)


def _in_comprehension(tree: SourceTree, node: ast.ListComp | ast.GeneratorExp) -> Iterator[RatioOverBatches]:
    """The mean of ``[f1(model(x), y) for x, y in loader]``."""
    around = tree.parent(node)
    found = _ratio_in(tree, node.elt) if called_name(around or node) in _MEANS else None
    if found is not None:
        last = node.end_lineno or node.lineno
        yield RatioOverBatches(
            "a list", node.elt.lineno, node.lineno, node.generators[0].iter, node.lineno, last, found
        )


def _key(tree: SourceTree, target: ast.expr) -> Key | None:
    """The variable that holds a sum, perhaps among others: ``sums["f1"]``."""
    return tree.key_of(target.value if isinstance(target, ast.Subscript) else target)


def _collected(node: ast.AST) -> tuple[ast.expr | None, ast.expr | None]:
    """The variable and what is added to it: ``total += value``, ``total = total + value``, ``each.append(value)``."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        return node.target, node.value
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add):
        target = node.targets[0]
        sides = [node.value.left, node.value.right]
        others = [each for each in sides if ast.unparse(each) != ast.unparse(target)]
        return (target, others[0]) if len(others) == 1 else (None, None)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _COLLECT and node.args:
        return node.func.value, node.args[0]
    return None, None


def _line_of_mean(tree: SourceTree, key: Key, loop: ast.For) -> int | None:
    """The line behind a loop that divides a variable, or takes its mean."""
    for node in tree.nodes:
        if getattr(node, "lineno", 0) <= (loop.end_lineno or 0):
            continue
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _divides(tree, node, key):
            return node.lineno
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div) and tree.key_of(node.target) == key:
            return node.lineno
        if isinstance(node, ast.Call) and called_name(node) in _MEANS and _reads(tree, node, key):
            return node.lineno
    return None


def _divides(tree: SourceTree, node: ast.BinOp, key: Key) -> bool:
    """Whether a variable is divided, or each value of it in a comprehension."""
    around = (each for each in tree.around(node) if isinstance(each, COMPREHENSIONS))
    over = [generator.iter for each in around for generator in each.generators]
    return any(_reads(tree, each, key) for each in (node.left, *over))


def _line_of_meter(tree: SourceTree, node: ast.AST, key: Key) -> int | None:
    """The line in the class of an object that collects values which divides their sum."""
    if not isinstance(node, ast.Call) or called_name(node) == "append":
        return None
    made = {called_name(value) for value in tree.values_of(key)}
    for kind in tree.nodes:
        if isinstance(kind, ast.ClassDef) and kind.name in made:
            parts = (each for each in ast.walk(kind) if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div))
            own = (each for each in parts if ast.unparse(each.left).startswith("self."))
            return next((each.lineno for each in own if ast.unparse(each.right).startswith("self.")), None)
    return None


def _reads(tree: SourceTree, value: ast.AST, key: Key) -> bool:
    return any(tree.key_of(each) == key for each in ast.walk(value))


def _behind(tree: SourceTree, node: ast.AST) -> Iterator[ast.expr]:
    """What a variable is given, or what a function of the program returns."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        key = tree.key_of(node)
        for target, value in tree.assignments if key is not None else ():
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            if any(tree.key_of(each) == key for each in parts):
                yield value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        for function in tree.nodes:
            if isinstance(function, ast.FunctionDef) and function.name == node.func.id:
                returned = (each for each in ast.walk(function) if isinstance(each, ast.Return))
                yield from (each.value for each in returned if each.value is not None)


def _expressions(tree: SourceTree, value: ast.AST) -> list[ast.AST]:
    """An expression, with what its variables are given and its functions return; each once, and not too many."""
    found, seen = [(value, 0)], {value}
    for each, deep in found:
        for node in ast.walk(each) if deep < _DEEP else ():
            new = [other for other in _behind(tree, node) if other not in seen]
            seen.update(new)
            found += [(other, deep + 1) for other in new][: max(0, _MAX_EXPRESSIONS - len(found))]
    return [each for each, _ in found]


def _ratio_in(tree: SourceTree, value: ast.expr) -> str | None:
    """The function of a library that computes a ratio of counts for an expression; "" where it does so itself."""
    for node in (node for each in _expressions(tree, value) for node in ast.walk(each)):
        is_metric = called_name(node) in _METRICS and isinstance(node, ast.Call) and len(node.args) > 1
        if is_metric and not any(True for _ in _behind(tree, node)):
            return called_name(node)
        sides = _divided(node)
        if sides is not None and _counts(tree, sides[0], of_both=True) and _counts(tree, sides[1]):
            return ""
    return None


def _divided(node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return node.left, node.right
    if isinstance(node, ast.Call) and called_name(node) in _DIVIDE:
        sides = [*([node.func.value] if isinstance(node.func, ast.Attribute) else []), *node.args][-2:]
        return (sides[0], sides[1]) if len(sides) > 1 else None
    return None


def _counts(tree: SourceTree, value: ast.expr, *, of_both: bool = False) -> bool:
    """Whether an expression counts samples, or those for which two things are true."""
    nodes = (node for each in _expressions(tree, value) for node in ast.walk(each))
    return any(called_name(node) in _COUNTS and (not of_both or _has_both(tree, node)) for node in nodes)


def _has_both(tree: SourceTree, value: ast.AST) -> bool:
    return any(
        called_name(node) in _BOTH_TRUE or (isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.Mult)))
        for each in _expressions(tree, value)
        for node in ast.walk(each)
    )
