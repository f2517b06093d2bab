"""Variables that each round of a loop overwrites, and that only what follows the loop reads.

>>> tree = SourceTree(dict(enumerate('''def score(batches):
...     for x, y in batches:
...         out = net(x)
...         right = (out.argmax(1) == y).sum().item()
...     return right / 100
... '''.splitlines(), start=1)))
>>> [(each.name, each.line, each.read) for each in overwritten_in_loops(tree)]
[('right', 4, 5)]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.sources.source_tree import SourceTree, called_name, is_read, last_line


class Overwritten(Struct, frozen=True):
    """A variable that a loop gives a value in each round."""

    name: str
    line: int
    last_line: int
    """Where the assignment ends."""
    loop: tuple[int, int]
    """The lines that it repeats."""
    read: int
    """The first line below the loop that reads it."""


def overwritten_in_loops(tree: SourceTree) -> Iterator[Overwritten]:
    """Only what the loop always assigns, at one place, and what no other loop around it reads."""
    for loop in tree.nodes:
        if not isinstance(loop, ast.For):
            continue
        end = last_line(loop.body[-1])
        for statement in loop.body:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            if not isinstance(target, ast.Name) or len(getattr(statement, "targets", ())) != 1:
                continue
            if any(_remembers(tree, each) for each in ast.walk(statement)):
                continue  # What it returns may be of all rounds so far.
            read = _first_read_below(tree, target, loop, end)
            if read is not None:
                lines = loop.body[0].lineno, end
                yield Overwritten(target.id, statement.lineno, last_line(statement), lines, read)


def _remembers(tree: SourceTree, node: ast.AST) -> bool:
    """Whether a call runs a function or a method of the program that adds to what it has kept."""
    name = called_name(node)
    functions = (each for each in tree.nodes if name and isinstance(each, ast.FunctionDef) and each.name == name)
    return any(_adds(each) for function in functions for each in ast.walk(function))


def _adds(node: ast.AST) -> bool:
    """``self.total += x``, ``self.scores[0] += x``, ``self.scores.append(x)``; or of a variable of the module."""
    if isinstance(node, ast.AugAssign):
        return not isinstance(node.target, ast.Name)
    if called_name(node) in _ADD and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return isinstance(node.func.value, ast.Attribute)
    return isinstance(node, (ast.Global, ast.Nonlocal))


_ADD = frozenset({"append", "extend", "add", "update"})


def _first_read_below(tree: SourceTree, target: ast.Name, loop: ast.For, end: int) -> int | None:
    """None if the loop itself reads the variable or gives it two values, or if nothing reads it next to the loop."""
    key = tree.key_of(target)
    names = [node for node in tree.nodes if isinstance(node, ast.Name) and node.id == target.id]
    same = [node for node in names if tree.key_of(node) == key]
    inside = [node for node in same if loop.lineno <= node.lineno <= end]
    if inside != [target]:
        return None
    below = sorted((node for node in same if node.lineno > end), key=lambda each: (each.lineno, each.col_offset))
    return below[0].lineno if below and is_read(below[0]) else None
