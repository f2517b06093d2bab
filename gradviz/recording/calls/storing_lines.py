"""The lines on which a program puts something into a list, dict or set, read from its source.

Python does not tell who appended to a list. But where something stays for too long, the line that put it there is the
one to change, and it names what it fills: ``self.maps.append(a)``, ``features[name].append(output)``.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

Line = tuple[str, int]

_MAX_SOURCE_LINES = 20_000
"""Of one file; what is longer was written by a program."""
_PUTTING = frozenset({"append", "appendleft", "extend", "insert", "add", "update", "setdefault", "push", "put"})
_CONTAINER = re.compile(r"(?:^|\.)([^\W\d]\w*)((?:\[[^\]]*\])+)")
"""In ``agent.saved['log_probs'][3]``: the name of what is indexed, and all keys into it."""
_KEY = re.compile(r"\[([^\]]*)\]")


class _Store(NamedTuple):
    """A statement that puts something into a container, or into one that is in there."""

    line: Line
    level: int
    """How many keys lead from the container's name to what is put there: 2 for ``saved[name].append(a)``."""
    key: str
    """The first of them, as it is written, where it is a text; empty where it is not known."""


class StoringLines:
    """Those of some files, which are read when they are first asked for."""

    def __init__(self, files: Iterable[str]) -> None:
        self._files = tuple(files)

    def into(self, path: str) -> tuple[Line, ...]:
        """Lines that put something into the innermost list on the way to a value; none where no line names it."""
        for name, written in reversed(_CONTAINER.findall(path)):
            keys = _KEY.findall(written)
            level = max((place for place, key in enumerate(keys, 1) if key.isdigit()), default=len(keys))
            stores = [each for each in self._by_name.get(name, ()) if each.level == level]
            fitting = [
                each.line for each in stores if not (each.key and keys[0].startswith("'")) or each.key == keys[0]
            ]
            if fitting:
                return tuple(dict.fromkeys(fitting))
        return ()

    @cached_property
    def _by_name(self) -> dict[str, list[_Store]]:
        found: dict[str, list[_Store]] = defaultdict(list)
        for file in self._files:
            for node, receiver, is_call in _stores(file):
                name, keys = _named(receiver)
                found[name].append(_Store((file, node.lineno), len(keys) + is_call, keys[0] if keys else ""))
        return found


def _stores(file: str) -> Iterator[tuple[ast.expr | ast.stmt, ast.expr, bool]]:
    """Calls and assignments that put something into a container, each with the expression of that, and whether it is
    a call."""
    lines = linecache.getlines(file)
    try:
        tree = ast.parse("".join(lines) if len(lines) <= _MAX_SOURCE_LINES else "")
    except (SyntaxError, ValueError, RecursionError):
        return  # A notebook's magic commands, say.
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _PUTTING:
            yield node, node.func.value, True
        elif isinstance(node, ast.Assign):
            yield from ((node, each, False) for each in node.targets if isinstance(each, ast.Subscript))
        elif isinstance(node, ast.AugAssign):
            yield node, node.target, False


def _named(receiver: ast.expr) -> tuple[str, list[str]]:
    """The name of a container, and the keys into it, empty for those that are no text: ``saved``, ``'log_probs'``.

    ``saved.setdefault(name, [])`` and ``saved.get(name)`` are keys, too.
    """
    keys: list[str] = []
    while isinstance(receiver, (ast.Subscript, ast.Call)):
        if isinstance(receiver, ast.Subscript):
            keys.append(_text(receiver.slice))
            receiver = receiver.value
        else:
            keys.append("")
            receiver = receiver.func.value if isinstance(receiver.func, ast.Attribute) else receiver.func
    name = receiver.attr if isinstance(receiver, ast.Attribute) else getattr(receiver, "id", "")
    return name, keys[::-1]


def _text(key: ast.expr) -> str:
    return repr(key.value) if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""
