"""Loops over batches that end in their first round, whatever happens in it.

>>> tree = SourceTree(dict(enumerate('''def fit(loader):
...     total = 0.0
...     for x, y in loader:
...         total += step(x, y)
...         return total / len(loader)
... '''.splitlines(), start=1)))
>>> [(each.line, each.word, each.sums) for each in loops_left_at_once(tree)]
[(5, 'return', ('total',))]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.rules.bases.sources.source_tree import LOOPS, SourceTree, last_line, last_name
from gradviz.analysis.rules.bases.unread_names import FUNCTIONS


class LoopLeft(Struct, frozen=True):
    """A ``for`` whose last statement ends it, where nothing in it goes on to the next round."""

    line: int
    word: str
    """``return`` or ``break``."""
    loop: ast.For
    over: str
    """What it goes through, as source."""
    sums: tuple[str, ...]
    """The variables that its rounds add up, if it returns them."""


def loops_left_at_once(tree: SourceTree) -> Iterator[LoopLeft]:
    for node in tree.nodes:
        last = node.body[-1] if isinstance(node, ast.For) else None
        if not isinstance(node, ast.For) or not isinstance(last, (ast.Return, ast.Break)) or _goes_on(node):
            continue
        added = {last_name(each.target): None for each in _own_nodes(node) if isinstance(each, ast.AugAssign)}
        value = last.value if isinstance(last, ast.Return) else None
        read = {last_name(each) for each in (ast.walk(value) if value is not None else ())}
        sums = tuple(name for name in added if name in read)
        word = "break" if isinstance(last, ast.Break) else "return"
        yield LoopLeft(last.lineno, word, node, ast.unparse(node.iter), sums)


def lines_of(loop: ast.For) -> tuple[int, int]:
    """The first and the last line of what a loop repeats."""
    return loop.body[0].lineno, last_line(loop.body[-1])


def _goes_on(loop: ast.For) -> bool:
    return any(isinstance(each, ast.Continue) for each in _own_nodes(loop))


def _own_nodes(loop: ast.For) -> Iterator[ast.AST]:
    """The nodes of a loop that no loop or function inside of it has for itself."""
    waiting: list[ast.AST] = list(loop.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (*LOOPS, *FUNCTIONS, ast.Lambda, ast.ClassDef)):
            waiting += ast.iter_child_nodes(node)
