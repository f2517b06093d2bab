"""The parts of data that a program gives names: its loaders, and what a split or two slices leave; and who reads them.

>>> tree = SourceTree(dict(enumerate('''train = DataLoader(a)
... held_out = DataLoader(b)
... fit_x, test_x = x[:80], x[80:]
... for batch in train:
...     step(batch)
... score(model, train)
... '''.splitlines(), start=1)))
>>> [[(each.name, [node.lineno for node in each.reads]) for each in group] for group in named_parts(tree, [])]
[[('train', [4, 6]), ('held_out', [])], [('fit_x', []), ('test_x', [])]]
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct

from gradviz.analysis.sources.parsed_lines import READ_ALL
from gradviz.analysis.sources.source_tree import SourceTree, called_name, is_read

_LOADER = "DataLoader"
_SPLITS = frozenset({"train_test_split", "random_split"})


class NamedPart(Struct, frozen=True):
    """A variable that is given a part of the data once, and nothing else."""

    name: str
    line: int
    reads: tuple[ast.expr, ...]
    """Where the same file reads it."""


def named_parts(tree: SourceTree, others: Sequence[SourceTree]) -> list[list[NamedPart]]:
    """The loaders of a file, and the parts of each split, in the order of their names.

    None of a file in which something reads all names; none whose name a string has, or that other files may take from
    this one.
    """
    if any(isinstance(node, ast.Name) and node.id in READ_ALL for node in tree.nodes):
        return []
    groups: dict[str, list[NamedPart]] = defaultdict(list)
    for of_data, target in _targets(tree):
        if target.id.startswith("_"):
            continue  # So Python calls what is not needed.
        key = tree.key_of(target)
        is_taken = any(_takes(node, target.id) for each in others for node in each.nodes)
        if key is not None and tree.times_bound(key) == 1 and not is_taken and not _is_text(tree, target.id):
            reads = (node for node in tree.nodes if isinstance(node, ast.Name) and tree.key_of(node) == key)
            groups[of_data].append(NamedPart(target.id, target.lineno, tuple(each for each in reads if is_read(each))))
    return list(groups.values())


def _targets(tree: SourceTree) -> Iterator[tuple[str, ast.Name]]:
    """The names of parts, each with what it is a part of."""
    loaders = (target for target, value in tree.assignments if called_name(value) == _LOADER)
    yield from ((_LOADER, target) for target in loaders if isinstance(target, ast.Name))
    yield from ((each.of_data, each.target) for each in parts_of_splits(tree))


class SplitPart(Struct, frozen=True):
    """A variable that gets one part of a split."""

    of_data: str
    """What is split, as source, or the line that does it; the same for all parts."""
    target: ast.Name
    place: int
    """Which of the results it is; of two slices, 0 for the first part of the data."""


def parts_of_splits(tree: SourceTree) -> Iterator[SplitPart]:
    """``a, b = train_test_split(x)``, and ``x[:n]`` and ``x[n:]``."""
    for target, value in tree.assignments:
        if isinstance(target, ast.Name) and isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice):
            part = value.slice
            if part.step is None and (part.lower is None) != (part.upper is None):
                yield SplitPart(ast.unparse(value.value), target, int(part.upper is None))
        elif isinstance(target, ast.Tuple) and called_name(value) in _SPLITS:
            names = ((place, each) for place, each in enumerate(target.elts) if isinstance(each, ast.Name))
            yield from (SplitPart(f"line {target.lineno}", each, place) for place, each in names)


def _takes(node: ast.AST, name: str) -> bool:
    """``from data import name``, or ``data.name``."""
    return name == (node.name if isinstance(node, ast.alias) else getattr(node, "attr", ""))


def _is_text(tree: SourceTree, name: str) -> bool:
    return any(isinstance(node, ast.Constant) and node.value == name for node in tree.nodes)
