"""Counters that a program reads in a loop and never counts.

>>> tree = SourceTree(dict(enumerate('''step, seen, start = 0, 0, 0
... for x in data:
...     seen += 1
...     rate = 0.1 * min(1, step / 100)
...     if seen % 10 == 0: print(step, start / 2)
... class Own:
...     def __init__(self):
...         self.t = 0
...     def step(self, mean):
...         return mean / (1 - 0.9 ** self.t)
... '''.splitlines(), start=1)))
>>> [(each.name, each.line, each.read) for each in still_counters(tree)]
[('step', 1, 4), ('self.t', 8, 10)]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.sources.source_tree import Key, Loop, SourceTree, called_name, is_read


class StillCounter(Struct, frozen=True):
    """One variable."""

    name: str
    value: int
    line: int
    """Where it gets its only value."""
    read: int
    """The first line that computes with it."""
    loops: tuple[Loop, ...]
    """The loops around that line; none for an attribute, which a method reads."""


_COUNTERS = frozenset({
    "step", "global_step", "step_count", "steps_done", "iteration", "iter_count", "epoch", "count", "counter",
    "num_updates", "n_updates", "update_count", "updates_done",
})  # fmt: skip
_LETTERS = frozenset({"t", "k", "it"})
"""They are other things, too: only where they begin at 0, and are an exponent or divided with a remainder."""
_FIRST = (0, 1)


def still_counters(tree: SourceTree) -> Iterator[StillCounter]:
    """In the order in which they are read."""
    lines = {tree.key_of(target): target.lineno for target, _ in tree.assignments}
    told = set[Key]()
    for node in tree.nodes:
        if not isinstance(node, (ast.Name, ast.Attribute)) or not is_read(node):
            continue
        key, value = tree.key_of(node), tree.number(node)
        if key is None or key in told or value not in _FIRST or not _is_counter(tree, node, value):
            continue
        is_own = isinstance(node, ast.Attribute)
        loops = () if is_own else tuple(tree.loops_around(node))
        if not loops and not is_own:
            continue
        told.add(key)
        yield StillCounter(key.name, value, lines[key], node.lineno, loops)


def _is_counter(tree: SourceTree, node: ast.Name | ast.Attribute, value: int) -> bool:
    """Whether a name is that of a counter which nothing else sets, and is computed with or compared, or goes into a
    call that shows nothing."""
    name = (node.id if isinstance(node, ast.Name) else node.attr).strip("_")
    if isinstance(node, ast.Attribute) and node.attr in tree.foreign:
        return False
    parent = tree.parent(node)
    if name in _LETTERS:
        is_counted = isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Mod, ast.Pow))
        return is_counted and value == 0
    is_shown = any(isinstance(each, ast.JoinedStr) or called_name(each) in _SHOW for each in tree.around(node))
    return name in _COUNTERS and not is_shown and isinstance(parent, (ast.BinOp, ast.Compare, ast.Call))


_SHOW = frozenset({"print", "log", "info", "debug", "add_scalar", "append", "set_postfix", "write", "save", "format"})
