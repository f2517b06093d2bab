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

from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import LOOPS, SourceTree, called_name, last_line, last_name


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
    goes_on: bool
    """Whether it goes through an iterator that has a name, or never ends: the next time, other batches come."""


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
        yield LoopLeft(last.lineno, word, node, ast.unparse(node.iter), sums, _gives_others(tree, node.iter))


def _gives_others(tree: SourceTree, over: ast.expr) -> bool:
    key = tree.key_of(over)
    values = tree.values_of(key)
    if values:
        are_iterators = all(called_name(each) in _ITERATORS or _yields(tree, each) for each in values)
        return are_iterators and not any(_is_made_anew(tree, each, over) for each in values)
    return called_name(over) in _ENDLESS or _yields(tree, over, endlessly=True)


def _is_made_anew(tree: SourceTree, value: ast.expr, over: ast.expr) -> bool:
    """Whether an iterator is made each time before a loop goes through it: in the same loop, or the same function."""
    around, loops = set(tree.loops_around(value)), list(tree.loops_around(over))
    return not around.isdisjoint(loops) or (not loops and tree.scope(value) is tree.scope(over))


_ENDLESS = frozenset({"cycle", "count", "repeat"})
_ITERATORS = _ENDLESS | {"iter", "islice", "chain"}


def _yields(tree: SourceTree, value: ast.expr, *, endlessly: bool = False) -> bool:
    """Whether an expression calls a generator of the program."""
    functions = (each for each in tree.nodes if isinstance(each, ast.FunctionDef) and each.name == called_name(value))
    for inside in (list(ast.walk(each)) for each in functions):
        if any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in inside):
            return not endlessly or any(isinstance(each, ast.While) for each in inside)
    return False


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
