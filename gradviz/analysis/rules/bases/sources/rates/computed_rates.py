"""Learning rates of groups of parameters that a program computes, with the groups.

>>> tree = SourceTree({1: "groups = [{'params': p, 'lr': rate * (i // 4)} for i, p in named]", 2: "x = {'lr': 1}"})
>>> list(lines_of_computed_rates(tree))
[1]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.rules.bases.sources.source_tree import SourceTree, called_name

_PLAIN = (ast.Constant, ast.Name, ast.Attribute)


def lines_of_computed_rates(tree: SourceTree) -> Iterator[int]:
    """The lines that compute the learning rate of a group, and do not only name it."""
    for node in tree.nodes:
        if isinstance(node, ast.Dict):
            entries = zip(node.keys, node.values, strict=True)
            values = [value for key, value in entries if isinstance(key, ast.Constant) and key.value == "lr"]
        elif isinstance(node, ast.Call) and called_name(node) == "dict":
            values = [each.value for each in node.keywords if each.arg == "lr"]
        else:
            continue
        yield from (value.lineno for value in values if not isinstance(value, _PLAIN))
