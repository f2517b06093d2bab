"""Learning rates of groups of parameters that a program computes, with the groups.

>>> tree = SourceTree({1: "groups = [{'params': p, 'lr': rate * (i // 4)} for i, p in named]", 2: "x = {'lr': 1}"})
>>> list(lines_of_computed_rates(tree))
[1]
>>> tree = SourceTree({1: "scale = decay ** depth", 2: "groups.append({'params': p, 'lr': rate * scale})"})
>>> list(lines_of_powers(tree))
[1]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.rules.bases.sources.rates.numbers_of_batches import what_it_is_made_of
from gradviz.analysis.sources.source_tree import SourceTree, called_name

_PLAIN = (ast.Constant, ast.Name, ast.Attribute)


def lines_of_computed_rates(tree: SourceTree) -> Iterator[int]:
    """The lines that compute the learning rate of a group, and do not only name it."""
    yield from (value.lineno for value in _rates(tree) if not isinstance(value, _PLAIN))


def lines_of_powers(tree: SourceTree) -> Iterator[int]:
    """The lines with the powers that learning rates of groups are computed with: ``rate * decay ** depth``."""
    for value in _rates(tree):
        for part in what_it_is_made_of(tree, value):
            powers = (node for node in ast.walk(part) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow))
            yield from (node.lineno for node in powers)


def _rates(tree: SourceTree) -> Iterator[ast.expr]:
    for node in tree.nodes:
        if isinstance(node, ast.Dict):
            entries = zip(node.keys, node.values, strict=True)
            yield from (value for key, value in entries if isinstance(key, ast.Constant) and key.value == "lr")
        elif isinstance(node, ast.Call) and called_name(node) == "dict":
            yield from (each.value for each in node.keywords if each.arg == "lr")
