"""Finds where gradients were switched off: a ``with`` line, a decorator, or a call of ``set_grad_enabled(False)``.

A function mode sees every switch; a later call only shows that gradients are off. `inference_mode`, and what was
switched off before the recording began, are not seen: for these, the ``with`` statements and decorators around the
running lines are read.
"""

from __future__ import annotations

import ast
import contextlib
import linecache
from collections.abc import Iterator
from enum import Enum, auto
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any, NamedTuple

from gradviz.recording.frame_variables import local_variables
from gradviz.recording.run.file_kinds import is_gradviz_code, is_torch_file
from gradviz.recording.run.line_attribution import function_name
from gradviz.recording.run.parsed_files import nodes_of
from gradviz.recording.run.user_traceback import BOUNDARY

_WORDS = ("no_grad", "inference_mode", "set_grad_enabled")
_DECORATED = frozenset({"ctx_factory", "func"})
"""Variables of the frame in which torch runs a decorated function; that frame's name differs between releases."""
_MAX_SWITCHES = 1_000


class Location(NamedTuple):
    """A line that switched gradients off."""

    file: str
    line: int
    function: str


class GradModeWatch:
    """Gets every switch on the recorded thread."""

    def __init__(self) -> None:
        self._switches: list[Location | None] = []
        self._lines: dict[tuple[int, int], int | None] = {}
        self._kinds: dict[int, _CodeKind] = {}
        self._codes: list[CodeType] = []
        """Keeps the code objects alive whose ids are keys: to hash one, Python looks through all of its instructions.
        """
        self._withs: dict[str, list[tuple[int, int, int]]] = {}
        self._decorators: dict[str, list[tuple[int, int, int]]] = {}

    def note(self, args: tuple[Any, ...], frame: FrameType | None) -> None:
        """torch's code in `frame` is switching gradients on or off."""
        leaves = False
        location: Location | None = None
        while frame is not None and is_torch_file(frame.f_code.co_filename):
            leaves = leaves or frame.f_code.co_name == "__exit__"
            location = location or _decorator_line(frame)
            frame = frame.f_back
        while frame is not None and frame.f_code.co_filename == contextlib.__file__:  # inside an ExitStack
            frame = frame.f_back
        if leaves:
            if self._switches:
                self._switches.pop()
            return
        if not args or args[0]:
            location = None
        elif location is None and frame is not None:
            location = Location(frame.f_code.co_filename, frame.f_lineno, function_name(frame.f_code))
        # `with set_grad_enabled(False)` switches both when it is made and when it is entered.
        if not self._switches or self._switches[-1] != location or location is None:
            self._switches.append(location)
        del self._switches[: -_MAX_SWITCHES or None]

    @property
    def newest(self) -> Location | None:
        """The newest line that switched gradients off and has not switched them on again."""
        return self._switches[-1] if self._switches else None

    def location(self, frame: FrameType | None, *, is_inference: bool) -> Location | None:
        """The line that switched gradients off for a call from `frame`."""
        if not is_inference and self._switches and self._switches[-1] is not None:
            return self._switches[-1]
        return next(self._around(frame), None)

    def _around(self, frame: FrameType | None) -> Iterator[Location]:
        # Above the function that runs a script there is only gradviz, and what called it: nothing of the script.
        while frame is not None and (code := frame.f_code) is not BOUNDARY:
            kind = self._kinds.get(id(code)) or self._new_kind(code)
            decorated = _decorator_line(frame) if kind is _CodeKind.RUNS_DECORATED else None
            if decorated is not None:
                yield decorated
            elif kind is _CodeKind.OF_PROGRAM:
                key = id(code), frame.f_lineno
                if key not in self._lines:
                    self._lines[key] = self.with_around(code.co_filename, frame.f_lineno)
                if (line := self._lines[key]) is not None:
                    yield Location(code.co_filename, line, function_name(code))
            frame = frame.f_back

    def _new_kind(self, code: CodeType) -> _CodeKind:
        self._codes.append(code)
        kind = self._kinds[id(code)] = _kind_of(code)
        return kind

    def with_around(self, file: str, line: int) -> int | None:
        """The line of the innermost ``with`` around a line that switches gradients off."""
        return _enclosing(self._withs_of(file), line)

    def decorator_around(self, file: str, line: int) -> int | None:
        """The same for the decorator of a function around a line."""
        if file not in self._decorators:
            self._decorators[file] = _decorators_in(file)
        return _enclosing(self._decorators[file], line)

    def _withs_of(self, file: str) -> list[tuple[int, int, int]]:
        if file not in self._withs:
            self._withs[file] = _withs_in(file)
        return self._withs[file]


class _CodeKind(Enum):
    """What the code of a frame says about where gradients were switched off."""

    RUNS_DECORATED = auto()
    OF_PROGRAM = auto()
    OTHER = auto()


def _kind_of(code: CodeType) -> _CodeKind:
    if is_torch_file(code.co_filename):
        return _CodeKind.RUNS_DECORATED if _DECORATED.issubset(code.co_freevars) else _CodeKind.OTHER
    return _CodeKind.OTHER if is_gradviz_code(code) else _CodeKind.OF_PROGRAM


def _decorator_line(frame: FrameType) -> Location | None:
    """The line of the decorator, if torch runs a decorated function in this frame."""
    if _kind_of(frame.f_code) is not _CodeKind.RUNS_DECORATED:
        return None
    code = _code_of(local_variables(frame).get("func"))
    return None if code is None or is_torch_file(code.co_filename) else _decorator_above(code)


@lru_cache
def _decorator_above(code: CodeType) -> Location:
    first = code.co_firstlineno
    for line in range(first, first + 20):
        text = linecache.getline(code.co_filename, line).strip()
        if text.startswith("@") and any(word in text for word in _WORDS):
            return Location(code.co_filename, line, function_name(code))
        if text.startswith(("def ", "async def ", "class ")):
            break
    return Location(code.co_filename, first, function_name(code))


def _code_of(function: Any) -> CodeType | None:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _enclosing(withs: list[tuple[int, int, int]], line: int) -> int | None:
    """Line of the innermost ``with`` around `line`."""
    best: int | None = None
    for first, last, where in withs:
        if first <= line <= last and (best is None or where > best):
            best = where
    return best


def _withs_in(file: str) -> list[tuple[int, int, int]]:
    """First and last line of every ``with`` that switches gradients off, and the line of its expression."""
    return [
        (node.lineno, node.end_lineno or node.lineno, item.context_expr.lineno)
        for node in _nodes_of(file)
        if isinstance(node, (ast.With, ast.AsyncWith))
        for item in node.items
        if any(word in ast.unparse(item.context_expr) for word in _WORDS)
    ]


def _decorators_in(file: str) -> list[tuple[int, int, int]]:
    """First and last line of every function with a decorator that switches gradients off, and the decorator's line."""
    return [
        (node.lineno, node.end_lineno or node.lineno, decorator.lineno)
        for node in _nodes_of(file)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for decorator in node.decorator_list
        if any(word in ast.unparse(decorator) for word in _WORDS)
    ]


def _nodes_of(file: str) -> tuple[ast.AST, ...]:
    """None of a file that has none of the words: most files of libraries are never parsed."""
    has_words = any(word in line for line in linecache.getlines(file) for word in _WORDS)
    return (nodes_of(file) if has_words else None) or ()
