"""Learning rates that a program computes with groups of parameters, or writes as 0.

>>> tree = SourceTree({1: "groups = [{'params': p, 'lr': rate * (i // 4)} for i, p in named]", 2: "x = {'lr': 1}"})
>>> list(lines_of_computed_rates(tree))
[1]
>>> tree = SourceTree({1: "scale = decay ** depth", 2: "groups.append({'params': p, 'lr': rate * scale})"})
>>> list(lines_of_powers(tree))
[1]
>>> tree = SourceTree({1: "optimizer = Sharp(net.parameters(), SGD, lr=0.0, momentum=0.9)", 2: "lr: float = 0.1"})
>>> list(lines_of_zero_rates(tree))
[1]
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gradviz.analysis.rules.bases.sources.rates.numbers_of_batches import what_it_is_made_of
from gradviz.analysis.sources.source_tree import SourceTree, called_name, last_name

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


def lines_of_zero_rates(tree: SourceTree) -> Iterator[int]:
    """The lines that write a learning rate of 0 as a number: an argument, a setting, an entry of a dict."""
    for node in tree.nodes:
        if isinstance(node, ast.Call):
            named = [(each.arg or "", each.value) for each in node.keywords]
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            named = [(last_name(node.target), node.value)]
        elif isinstance(node, ast.Assign):
            named = [(last_name(target), node.value) for target in node.targets]
        elif isinstance(node, ast.Dict):
            keys = (key.value if isinstance(key, ast.Constant) else None for key in node.keys)
            named = [(str(key), value) for key, value in zip(keys, node.values, strict=True)]
        else:
            continue
        for name, value in named:
            number = value.value if isinstance(value, ast.Constant) else None
            if type(number) in (int, float) and number == 0 and _IS_RATE.search(name):
                yield value.lineno


_IS_RATE = re.compile(r"^(?!.*(min|end|final|last|floor|warm)).*(^|_)(lr|learning_rate|step_size)(_|$)")
"""Not the one at which a schedule begins or ends."""


def _rates(tree: SourceTree) -> Iterator[ast.expr]:
    for node in tree.nodes:
        if isinstance(node, ast.Dict):
            entries = zip(node.keys, node.values, strict=True)
            yield from (value for key, value in entries if isinstance(key, ast.Constant) and key.value == "lr")
        elif isinstance(node, ast.Call) and called_name(node) == "dict":
            yield from (each.value for each in node.keywords if each.arg == "lr")
