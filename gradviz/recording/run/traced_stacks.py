"""Reads the stack that torch writes, as text, into each node of a traced graph.

`torch.fx` makes Python code of such a graph, in which each node is a line. `TracedLines` tells which lines of the
program it stands for: `torch.export` notes that.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, NamedTuple

_FRAME = re.compile(r'^\s*File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)
_MADE_BY_FX = "<eval_with_key>"
_RESULT = re.compile(r"\s*(\w+)(?:\s*:.*?)? = ")


class TracedFrame(NamedTuple):
    """One line of the stack."""

    file: str
    line: int
    function: str


class TracedStack(NamedTuple):
    """Frames that torch noted as text, in the place of one frame that has code."""

    co_filename: str
    """The file of the innermost."""
    frames: tuple[TracedFrame, ...]
    """The outermost first."""


def frames_of(node: Any) -> Iterator[TracedFrame]:
    """The frames in which a node (`torch.fx.Node`) was made, the outermost first; none if torch noted none."""
    for frame in _FRAME.finditer(node.meta.get("stack_trace") or ""):
        yield TracedFrame(frame["file"], int(frame["line"]), frame["function"])


def is_made_by_fx(file: str) -> bool:
    """Whether code with this file name was made from a traced graph."""
    return file.startswith(_MADE_BY_FX)


class TracedModule(NamedTuple):
    """A module call that was traced."""

    key: str
    """Different for each call."""
    path: str
    class_name: str


class TracedLines:
    """What was traced in each line of the code in a frame, where it was made from a traced graph."""

    def __init__(self, frame: FrameType) -> None:
        graph = getattr(frame.f_locals.get("self"), "graph", None)
        nodes = getattr(graph, "nodes", ())
        self._by_name = {str(node.name): tuple(frames_of(node)) for node in nodes}
        self._modules = {str(node.name): tuple(exported_modules(node)) for node in nodes}
        self._file = frame.f_code.co_filename

    def at(self, line: int) -> tuple[TracedFrame, ...]:
        """The outermost first; empty if torch noted none."""
        return self._by_name.get(self._result(line), ())

    def modules_at(self, line: int) -> tuple[TracedModule, ...]:
        """The module calls that torch.export noted there, without the whole model; the outermost first."""
        return self._modules.get(self._result(line), ())

    def _result(self, line: int) -> str:
        result = _RESULT.match(linecache.getline(self._file, line))
        return result[1] if result is not None else ""


def is_exported(stack: Sequence[tuple[Any, ...]]) -> bool:
    """Whether torch.export noted these module calls: only it begins with the whole model, whose path is empty."""
    return bool(stack) and stack[0][1] == ""


def exported_modules(node: Any) -> Iterator[TracedModule]:
    """What torch.export noted; where `torch.fx` traced, modules inside are called as ever."""
    stack = [(str(key), *entry) for key, entry in (node.meta.get("nn_module_stack") or {}).items()]
    if is_exported(stack):
        for key, path, kind, *_ in stack[1:]:
            class_name = kind.__name__ if isinstance(kind, type) else str(kind).rpartition(".")[2]
            yield TracedModule(key, str(path).partition("@")[0], class_name)
