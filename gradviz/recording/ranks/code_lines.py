"""Lines of the program as a report needs them: with their text, and the loop and the ``if`` around them."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from dataclasses import dataclass

from gradviz.capture.rank_end import CodeLine
from gradviz.recording.run.parsed_files import tree_of

MAX_EXITS = 3


def code_line(file: str, line: int, function: str = "") -> CodeLine:
    """What is known of a line."""
    around = _Around(line)
    tree = tree_of(file)
    if tree is not None:
        around.look_in(tree)
    return CodeLine(
        file,
        line,
        linecache.getline(file, line).strip(),
        function,
        around.loop,
        around.condition,
        linecache.getline(file, around.condition).strip() if around.condition else "",
        around.is_else,
        around.exits,
    )


@dataclass
class _Around:
    line: int
    loop: tuple[int, int] | None = None
    condition: int = 0
    is_else: bool = False
    exits: tuple[tuple[int, str], ...] = ()

    def look_in(self, tree: ast.AST) -> None:
        """Go down to the line; a function inside begins anew."""
        part: ast.AST | None = tree
        while part is not None:
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.loop, self.condition, self.is_else, self.exits = None, 0, False, ()
            elif isinstance(part, ast.For | ast.AsyncFor | ast.While) and self.loop is None:
                self.loop = part.lineno, part.end_lineno or part.lineno
                self.exits = tuple(_exits_of(part))[:MAX_EXITS]
            elif isinstance(part, ast.If) and not self._has(part.test):
                self.condition, self.is_else = part.lineno, any(map(self._has, part.orelse))
            inside = next(filter(self._has, ast.iter_child_nodes(part)), None)
            self._look_at_early_exits(part, inside)
            part = inside

    def _look_at_early_exits(self, block: ast.AST, statement: ast.AST | None) -> None:
        """What stands after ``if ...: return`` depends on that condition."""
        for name in ("body", "orelse"):
            statements = getattr(block, name, None)
            if not isinstance(statements, list) or statement not in statements:
                continue
            for before in statements[: statements.index(statement)]:
                if isinstance(before, ast.If) and isinstance(before.body[-1], ast.Return | ast.Continue | ast.Break):
                    self.condition, self.is_else = before.lineno, True

    def _has(self, part: ast.AST) -> bool:
        first, last = getattr(part, "lineno", None), getattr(part, "end_lineno", None)
        return first is not None and last is not None and first <= self.line <= last


def _exits_of(loop: ast.AST) -> Iterator[tuple[int, str]]:
    """The statements in a loop that leave it or one inside of it, or skip the rest, in order."""
    waiting = [loop]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.Break | ast.Continue | ast.Return):
            yield part.lineno, type(part).__name__.lower()
        elif not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            waiting.extend(reversed(list(ast.iter_child_nodes(part))))
