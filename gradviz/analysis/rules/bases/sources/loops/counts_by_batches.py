"""Counts of right samples that a loop over batches adds up, and that are divided by the number of batches.

>>> tree = SourceTree(dict(enumerate('''for x, y in loader:
...     right += (model(x) == y).sum().item()
...     loss += loss_of(x, y).item()
... print(100 * right / len(loader), loss / len(loader))
... '''.splitlines(), start=1)))
>>> [(each.name, each.compared, each.divided) for each in counts_by_batches(tree)]
[('right', 2, 4)]
>>> tree = SourceTree(dict(enumerate('''for x, y in loader:
...     right += (model(x) == y).sum().item()
...     batches += 1
... print(right / batches)
... '''.splitlines(), start=1)))
>>> [(each.name, each.batches) for each in counts_by_batches(tree)]
[('right', 'batches')]
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.sources.source_tree import Key, SourceTree, called_name, last_name

_COUNTS = frozenset({"sum", "count_nonzero"})
_WRAPS = frozenset({"enumerate", "tqdm", "trange", "list", "iter"})
_EQUALS = frozenset({"eq"})
_BATCHES = frozenset({"DataLoader", "split", "chunk", "array_split", "range"})
_LOADERS = re.compile(r"load|batch|(^|_)(dl|it|iter)($|_)", re.IGNORECASE)
_BOTH = 2
_MAX_STEPS = 4
"""Assignments from what a loop takes to what is compared."""
_SHARES = frozenset({"mean", "accuracy_score", "div", "true_divide", "divide", "div_"})


class CountByBatches(Struct, frozen=True):
    """A number of samples, divided by a number of batches."""

    name: str
    compared: int
    """The line that compares the samples of a batch."""
    divided: int
    batches: str
    """The number of batches, as source."""


def counts_by_batches(tree: SourceTree) -> Iterator[CountByBatches]:
    """Those of each loop, in the order of the lines that add up."""
    for node in tree.nodes:
        loop = next(tree.loops_around(node), None) if isinstance(node, ast.AugAssign) else None
        if not isinstance(node, ast.AugAssign) or not isinstance(node.op, ast.Add) or not isinstance(loop, ast.For):
            continue
        key, compared = tree.key_of(node.target), _line_that_compares(tree, node.value, loop)
        if key is not None and compared is not None:
            counters = _counters(tree, loop) if _gives_batches(tree, _iterated(loop.iter)) else ()
            for batches in (f"len({ast.unparse(_iterated(loop.iter))})", *counters):
                yield from _divided(tree, key, compared, batches)


def _gives_batches(tree: SourceTree, iterated: ast.expr) -> bool:
    """Whether a loop goes over a loader, or over parts of data: a counter of users or sentences counts no batches."""
    key = tree.key_of(iterated)
    given = tree.values_of(key)
    parts = [part for each in (iterated, *given) for part in ast.walk(each)]
    return any(called_name(each) in _BATCHES or _LOADERS.search(last_name(each)) for each in parts)


def _counters(tree: SourceTree, loop: ast.For) -> Iterator[str]:
    """The variables that count the turns of a loop: ``batches += 1``, and ``i + 1`` with `enumerate`."""
    for node in loop.body:
        match node:
            case ast.AugAssign(target=target, op=ast.Add(), value=ast.Constant(value=1)):
                key = tree.key_of(target)
                counted = [each for each in tree.nodes if isinstance(each, ast.AugAssign)]
                if key is not None and sum(tree.key_of(each.target) == key for each in counted) == 1:
                    yield ast.unparse(target)
    match loop:
        case ast.For(
            target=ast.Tuple(elts=[ast.Name(id=number), *_]),
            iter=ast.Call(func=ast.Name(id="enumerate"), args=[_], keywords=[]),
        ):
            yield f"{number} + 1"


def _divided(tree: SourceTree, key: Key, compared: int, batches: str) -> Iterator[CountByBatches]:
    for node in tree.nodes:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div) or ast.unparse(node.right) != batches:
            continue
        if tree.key_of(_without_factor(node.left)) == key and not _is_divided_again(tree, node):
            yield CountByBatches(ast.unparse(_without_factor(node.left)), compared, node.lineno, batches)


def _is_divided_again(tree: SourceTree, share: ast.expr) -> bool:
    """Whether the rest of an expression divides by something else, too; or something divides the variable that holds
    the result."""
    node, around = share, tree.parent(share)
    while isinstance(around, ast.BinOp) and isinstance(around.op, (ast.Div, ast.Mult)):
        if isinstance(around.op, ast.Div) and around.left is node:
            return True
        node, around = around, tree.parent(around)
    held = {tree.key_of(target) for target, value in tree.assignments if value is node} - {None}
    dividends = (each.left for each in tree.nodes if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div))
    return any(tree.key_of(_without_factor(each)) in held for each in dividends)


def _compared(node: ast.AST) -> list[ast.expr]:
    """The two sides of ``prediction == label`` and ``prediction.eq(label)``."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq):
        return [node.left, node.comparators[0]]
    if isinstance(node, ast.Call) and called_name(node) in _EQUALS:
        beside = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return [*beside, *node.args][-_BOTH:]
    return []


def _is_of_batch(tree: SourceTree, side: ast.expr, loop: ast.For) -> bool:
    """Whether a side of a comparison comes from what a loop takes: where only the models change, labels do not."""
    taken = {key for node in ast.walk(loop.target) if (key := tree.key_of(node)) is not None}
    inside = [
        (bound, value)
        for target, value in tree.assignments
        if loop in tree.loops_around(target)
        for node in ast.walk(target)
        if (bound := tree.key_of(node)) is not None
    ]
    for _ in range(_MAX_STEPS):
        taken |= {bound for bound, value in inside if _reads(tree, value, taken)}
    return _reads(tree, side, taken)


def _reads(tree: SourceTree, value: ast.expr, keys: set[Key]) -> bool:
    return any(tree.key_of(node) in keys for node in ast.walk(value))


def _iterated(node: ast.expr) -> ast.expr:
    """What a loop goes over, without what only counts or shows it."""
    while isinstance(node, ast.Call) and called_name(node) in _WRAPS and node.args:
        node = node.args[0]
    return node


def _without_factor(node: ast.expr) -> ast.expr:
    """The variable in ``100 * right`` and ``float(right)``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        sides = [each for each in (node.left, node.right) if not isinstance(each, ast.Constant)]
        return _without_factor(sides[0]) if len(sides) == 1 else node
    if isinstance(node, ast.Call) and called_name(node) in ("float", "int", "item"):
        return node.args[0] if node.args else node.func.value if isinstance(node.func, ast.Attribute) else node
    return node


def _line_that_compares(tree: SourceTree, value: ast.expr, loop: ast.For) -> int | None:
    """The line of a comparison whose hits a value counts, perhaps by way of variables of the loop."""
    waiting, seen, counts, compared = [value], set[Key](), False, None
    while waiting:
        for node in ast.walk(waiting.pop()):
            if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.FloorDiv)):
                return None
            if isinstance(node, ast.Call) and called_name(node) in _SHARES:
                return None
            counts |= isinstance(node, ast.Call) and called_name(node) in _COUNTS
            sides = _compared(node)
            if sides and all(_is_of_batch(tree, side, loop) for side in sides):
                compared = sides[-1].lineno
            key = tree.key_of(node) if isinstance(node, ast.Name) and compared is None else None
            if key is not None and key not in seen:
                seen.add(key)
                given = ((target, each) for target, each in tree.assignments if tree.key_of(target) == key)
                waiting += [each for target, each in given if loop in tree.loops_around(target)]
    return compared if counts else None
