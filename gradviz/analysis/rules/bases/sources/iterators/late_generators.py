"""Generator expressions under ``no_grad()`` that run when the block has ended, as nothing asked them before.

>>> lines = '''def targets(model, views):
...     with torch.no_grad():
...         found = (model(view) for view in views)
...         mean = sum(model(view) for view in views)
...         late = map(model, views)
...         return list(late), found
... '''.splitlines()
>>> [(each.lines, each.block) for each in late_generators(SourceTree(dict(enumerate(lines, start=1))))]
[(range(3, 4), 2)]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import SourceTree, called_name, is_read, last_line

_WITHOUT_GRADIENTS = frozenset({"no_grad", "inference_mode"})
_LAZY = frozenset({"map", "filter"})


class LateGenerator(Struct, frozen=True):
    """One of them."""

    lines: range
    """Those of the expression."""
    block: int
    """The line of the ``with``."""


def late_generators(tree: SourceTree) -> Iterator[LateGenerator]:
    """Those that a variable holds which only lines behind the block read, or that a function returns."""
    for block in tree.nodes:
        if isinstance(block, (ast.With, ast.AsyncWith)) and any(map(_is_without_gradients, block.items)):
            for node in ast.walk(block):
                if isinstance(node, ast.Assign) and _is_lazy(node.value) and _is_read_later(tree, node, block):
                    yield LateGenerator(range(node.value.lineno, last_line(node.value) + 1), block.lineno)
            for part in filter(_is_lazy, _returned(block)):
                yield LateGenerator(range(part.lineno, last_line(part) + 1), block.lineno)


def _returned(block: ast.AST) -> Iterator[ast.expr]:
    """What a block returns, also as one of several."""
    for node in ast.walk(block):
        if isinstance(node, ast.Return) and node.value is not None:
            yield from node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]


def _is_without_gradients(item: ast.withitem) -> bool:
    return called_name(item.context_expr) in _WITHOUT_GRADIENTS


def _is_lazy(value: ast.expr) -> bool:
    is_call = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in _LAZY
    return is_call or isinstance(value, ast.GeneratorExp)


def _is_read_later(tree: SourceTree, made: ast.Assign, block: ast.With | ast.AsyncWith) -> bool:
    """Whether its variable is given one value, and nothing in the block goes through it."""
    (target, *more) = made.targets
    key = tree.key_of(target)
    if more or key is None or tree.times_bound(key) != 1:
        return False
    function = next((each for each in tree.around(made) if isinstance(each, FUNCTIONS)), tree.module)
    reads = [node for node in ast.walk(function) if isinstance(node, ast.Name) and is_read(node)]
    lines = [node.lineno for node in reads if tree.key_of(node) == key]
    inside = [line for line in lines if block.lineno <= line <= last_line(block)]
    returns = {part.lineno for part in _returned(block) if tree.key_of(part) == key}
    return bool(lines) and all(line in returns for line in inside)
