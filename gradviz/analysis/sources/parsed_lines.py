"""Lines of a source as a tree, also where only some of them are known, and the function around a line.

>>> lines = dict(enumerate(["    return x", "def f(y):", "    for each in y:", "        g(each)", "h = 3"], start=1))
>>> function_around(lines, 4)
range(2, 5)
>>> module, left_out = parsed(list(lines.values()))
>>> [type(each).__name__ for each in module.body], left_out
(['FunctionDef', 'Assign'], 1)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
READ_ALL = frozenset({"locals", "vars", "eval", "exec"})
"""Functions that may read every variable."""
_DEFINES = re.compile(r"\s*(async\s+)?def\s")
_MAX_TRIMMED = 30
_MAX_LINES = 2_000


def function_around(lines: Mapping[int, str], line: int) -> range | None:
    """The lines of the innermost function around a line; without one, all that are known around it."""
    if line not in lines:
        return None
    first, least = line, indent_of(lines[line])
    while least and first - 1 in lines and line - first < _MAX_LINES:
        first -= 1
        text = lines[first]
        if text.strip() and indent_of(text) < least:
            least = indent_of(text)
            if _DEFINES.match(text):
                return range(first, _end(lines, line, least) + 1)
    while first - 1 in lines and line - first < _MAX_LINES:
        first -= 1
    return range(first, _end(lines, line, -1) + 1)


def _end(lines: Mapping[int, str], line: int, indent: int) -> int:
    """The last line that is known and further in than a function."""
    while line + 1 in lines and (not lines[line + 1].strip() or indent_of(lines[line + 1]) > indent):
        line += 1
    return line


def indent_of(text: str) -> int:
    return len(text) - len(text.lstrip())


def parsed(texts: list[str]) -> tuple[ast.Module, int] | None:
    """The parsed lines; those before the first whole statement are left out, and counted."""
    for trimmed in range(min(len(texts), _MAX_TRIMMED)):
        kept = texts[trimmed:]
        common = min((indent_of(text) for text in kept if text.strip()), default=0)
        try:
            return ast.parse("\n".join(text[common:] for text in kept)), trimmed
        except (SyntaxError, ValueError):
            continue
    return None
