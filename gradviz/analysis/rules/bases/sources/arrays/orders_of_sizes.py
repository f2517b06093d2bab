"""Sizes by which a program divides in one order and multiplies in another one.

>>> tree = SourceTree(dict(enumerate('''target = torch.stack([x1 / W, y1 / H, x2 / W, y2 / H], dim=1)
... sizes = np.array([H, W, H, W])
... print(model(x).numpy() * sizes)
... '''.splitlines(), start=1)))
>>> list(restored_in_other_order(tree))
[OtherOrder(restored=3, divided=1, wrong=('H', 'W', 'H', 'W'), right=('W', 'H', 'W', 'H'))]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.rules.bases.boxes.flipped_alone import is_turned
from gradviz.analysis.rules.bases.sources.arrays.resolved_values import source_of
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import SourceTree, called_name

_COUNT = 4
_MAX_NAMES = 4
_ARRAYS = frozenset({"array", "asarray", "tensor", "as_tensor", "FloatTensor"})
_JOINS = frozenset({"stack", "array", "tensor", "column_stack"})
_Sizes = tuple[str, ...]


class OtherOrder(Struct, frozen=True):
    """The line that multiplies, the line that divides, and the sizes of both."""

    restored: int
    divided: int
    wrong: _Sizes
    right: _Sizes


def restored_in_other_order(tree: SourceTree) -> Iterator[OtherOrder]:
    """Where a file divides in one order only, and multiplies in one other order only."""
    divided, restored = dict(_divisions(tree)), dict(_products(tree))
    if len(divided) != 1 or len(restored) != 1:
        return
    ((right, line),), ((wrong, at),) = divided.items(), restored.items()
    if right != wrong and sorted(right) == sorted(wrong):
        yield OtherOrder(at, line, wrong, right)


def _divisions(tree: SourceTree) -> Iterator[tuple[_Sizes, int]]:
    for node in tree.nodes:
        match node:
            case ast.Call(args=[ast.List(elts=parts), *_]) if called_name(node) in _JOINS and len(parts) == _COUNT:
                divisors = [
                    each.right for each in parts if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div)
                ]
                sizes = _as_sizes(divisors)
            case ast.BinOp(op=ast.Div(), right=right):
                sizes = _of_array(tree, right)
            case _:
                continue
        if sizes:
            yield sizes, getattr(node, "lineno", 0)


def _products(tree: SourceTree) -> Iterator[tuple[_Sizes, int]]:
    for node in tree.nodes:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
            continue
        for factor, other in ((node.left, node.right), (node.right, node.left)):
            sizes = _of_array(tree, factor)
            if sizes and not _is_put_together(tree, other):
                yield sizes, node.lineno


def _is_put_together(tree: SourceTree, node: ast.expr) -> bool:
    """Whether four values were given an order on the way: ``boxes[:, [1, 0, 3, 2]]``, ``pairs[..., ::-1]``, or columns
    that are stacked."""
    for _ in range(_MAX_NAMES):
        source = source_of(tree, node)
        if source is None:
            return False
        own = [each for each in tree.nodes if isinstance(each, FUNCTIONS) and each.name == called_name(source)]
        if any(_gives_an_order(part) for each in (source, *own) for part in ast.walk(each)):
            return True
        if not isinstance(source, (ast.Subscript, ast.Attribute)):
            return False
        node = source.value
    return False


def _gives_an_order(node: ast.AST) -> bool:
    """``[1, 0, 3, 2]``, ``[y1, x1, y2, x2]`` and ``::-1``."""
    return is_turned(node) or (isinstance(node, (ast.List, ast.Tuple)) and len(node.elts) == _COUNT)


def _of_array(tree: SourceTree, node: ast.expr) -> _Sizes:
    """``("w", "h", "w", "h")`` of ``np.array([w, h, w, h])``, also by its name."""
    key = tree.key_of(node)
    given = tree.values_of(key)
    made = given[0] if key is not None and len(given) == 1 and tree.times_bound(key) == 1 else node
    if called_name(made) not in _ARRAYS or not isinstance(made, ast.Call) or not made.args:
        return ()
    first = made.args[0]
    return _as_sizes(first.elts) if isinstance(first, (ast.List, ast.Tuple)) else ()


def _as_sizes(parts: list[ast.expr]) -> _Sizes:
    """The text of four sizes, two of which occur twice, in turns."""
    texts = tuple(ast.unparse(each) for each in parts)
    return texts if len(texts) == _COUNT and texts[:2] == texts[2:] and texts[0] != texts[1] else ()
