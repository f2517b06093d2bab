"""Data loaders that a program gives a name and never reads, and those that it reads in several places.

>>> tree = SourceTree(dict(enumerate('''train = DataLoader(a)
... held_out = DataLoader(b)
... for x in train:
...     step(x)
... score(model, train)
... '''.splitlines(), start=1)))
>>> [(each.name, each.line, [node.lineno for node in each.reads]) for each in named_loaders(tree, [])]
[('train', 1, [3, 5]), ('held_out', 2, [])]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from msgspec import Struct

from gradviz.analysis.rules.bases.sources.source_tree import SourceTree, called_name, is_read
from gradviz.analysis.rules.bases.unread_names import READ_ALL

_MAKES = "DataLoader"


class NamedLoader(Struct, frozen=True):
    """A variable that is given a loader once, and nothing else."""

    name: str
    line: int
    reads: tuple[ast.expr, ...]
    """Where the same file reads it."""


def named_loaders(tree: SourceTree, others: Sequence[SourceTree]) -> Iterator[NamedLoader]:
    """None of a file in which something reads all names; none whose name a string has, or that other files may take
    from this one."""
    if any(isinstance(node, ast.Name) and node.id in READ_ALL for node in tree.nodes):
        return
    for target, value in tree.assignments:
        if not isinstance(target, ast.Name) or called_name(value) != _MAKES:
            continue
        key = tree.key_of(target)
        is_taken = any(_takes(node, target.id) for each in others for node in each.nodes)
        if key is not None and tree.times_bound(key) == 1 and not is_taken and not _is_text(tree, target.id):
            reads = (node for node in tree.nodes if isinstance(node, ast.Name) and tree.key_of(node) == key)
            yield NamedLoader(target.id, target.lineno, tuple(node for node in reads if is_read(node)))


def _takes(node: ast.AST, name: str) -> bool:
    """``from data import name``, or ``data.name``."""
    return name == (node.name if isinstance(node, ast.alias) else getattr(node, "attr", ""))


def _is_text(tree: SourceTree, name: str) -> bool:
    return any(isinstance(node, ast.Constant) and node.value == name for node in tree.nodes)
