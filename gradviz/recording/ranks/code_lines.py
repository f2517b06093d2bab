"""Lines of the program as a report needs them: with their text, and the loop and the ``if`` around them."""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass
from functools import cache

from gradviz.capture.rank_end import CodeLine

MAX_SOURCE = 1_000_000
"""Characters; of a longer file only the text of lines is read."""


def code_line(file: str, line: int, function: str = "") -> CodeLine:
    """What is known of a line."""
    around = _Around(line)
    tree = _tree(file)
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
    )


@dataclass
class _Around:
    line: int
    loop: tuple[int, int] | None = None
    condition: int = 0
    is_else: bool = False

    def look_in(self, tree: ast.AST) -> None:
        """Go down to the line; a function inside begins anew."""
        part: ast.AST | None = tree
        while part is not None:
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.loop, self.condition, self.is_else = None, 0, False
            elif isinstance(part, ast.For | ast.AsyncFor | ast.While) and self.loop is None:
                self.loop = part.lineno, part.end_lineno or part.lineno
            elif isinstance(part, ast.If) and not self._has(part.test):
                self.condition, self.is_else = part.lineno, any(map(self._has, part.orelse))
            part = next(filter(self._has, ast.iter_child_nodes(part)), None)

    def _has(self, part: ast.AST) -> bool:
        first, last = getattr(part, "lineno", None), getattr(part, "end_lineno", None)
        return first is not None and last is not None and first <= self.line <= last


@cache
def _tree(file: str) -> ast.Module | None:
    source = "".join(linecache.getlines(file))
    if not source or len(source) > MAX_SOURCE:
        return None
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None  # not what runs: it was changed since
