"""Finds the line that made a node: reads Python stacks while the program runs, and makes call sites of them later.

A stack is read at every operation, so this must be fast: whether a code object is skipped is decided once, nothing is
formatted, and the part above a running module call is read once per call.
"""

from __future__ import annotations

import linecache
import re
import sys
from bisect import bisect_right
from collections.abc import Iterable
from functools import cache
from itertools import dropwhile
from types import CodeType, FrameType

from msgspec.structs import replace

from gradviz.graph.model import CallSite
from gradviz.graph.query.own_line import is_tracer
from gradviz.recording.run.file_kinds import is_gradviz_code, is_library_file, is_torch_file
from gradviz.recording.run.traced_stacks import TracedFrame, TracedLines, TracedModule, TracedStack, is_made_by_fx
from gradviz.recording.run.user_traceback import BOUNDARY
from gradviz.recording.torch_access.frames import module_call_code

_KEEP, _SKIP, _MODULE_CALL, _END = range(4)
NO_STACK = -1


class CallFrame:
    """A running module call, with the stack above it once that has been read."""

    __slots__ = ("frame_id", "has_paused_mode", "module_id", "pending", "scope", "stack_above")

    def __init__(self, scope: int, module_id: int, frame_id: int) -> None:
        self.scope = scope
        self.module_id = module_id
        self.frame_id = frame_id
        self.has_paused_mode = False
        self.pending: object = None
        """While the mode is paused: the row of the call that stands for all that the module calls."""
        self.stack_above: int | None = None


class StackTable:
    """Every distinct stack, as the frames from the inside out, and the id of the stack above."""

    def __init__(self) -> None:
        self._ids: dict[tuple[int, ...], int] = {}
        self._stacks: list[tuple[int, ...]] = []
        self._codes: dict[int, CodeType | TracedStack] = {}
        """Keeps the code objects alive whose ids are keys."""
        self._verdicts: dict[int, int] = {}
        self._lines: dict[int, tuple[list[int], list[int | None]]] = {}
        """Where the instructions of each line begin, and the lines."""
        self._traced: dict[int, TracedLines] = {}
        """For code that was made from a traced graph."""
        self._traced_stacks: dict[tuple[TracedFrame, ...], TracedStack] = {}
        self.module_call_code = module_call_code()

    def current(self, frame: FrameType | None, running_calls: list[CallFrame], first_offset: int | None = None) -> int:
        """Id of the stack from `frame` upwards; `running_calls` are the module calls that it is in.

        Args:
            first_offset: the instruction that ran in `frame`, if that is no longer where the frame is.
        """
        verdicts = self._verdicts
        pending: list[tuple[list[int], CallFrame]] = []
        segment: list[int] = []
        depth = len(running_calls)
        above = NO_STACK
        while frame is not None:
            code = frame.f_code
            code_id = id(code)
            verdict = verdicts.get(code_id)
            if verdict is None:
                verdict = self._classify(frame)
            if verdict == _KEEP:
                segment.append(code_id)
                segment.append(frame.f_lasti if first_offset is None else first_offset)
            elif verdict == _MODULE_CALL:
                if depth:
                    depth -= 1
                    call = running_calls[depth]
                    if call.stack_above is not None:
                        above = call.stack_above
                        pending.append((segment, call))
                        segment = []
                        break
                    pending.append((segment, call))
                    segment = []
            elif verdict == _END:
                self._drop(running_calls, depth)
                break
            first_offset = None
            frame = frame.f_back
        else:
            # The top was reached without meeting these calls: a `BaseException` ended them.
            self._drop(running_calls, depth)
        if segment or not pending:
            above = self._intern(segment, above)
        for inner_segment, call in reversed(pending):
            call.stack_above = above
            above = self._intern(inner_segment, above)
        return above

    def below(self, stack: int, traced: tuple[TracedFrame, ...]) -> int:
        """Id of a stack with frames below another one that torch noted as text, the outermost first."""
        if not traced:
            return stack
        known = self._traced_stacks.setdefault(traced, TracedStack(traced[-1].file, traced))
        self._codes[id(known)] = known
        return self._intern([id(known), 0], stack)

    def _drop(self, running_calls: list[CallFrame], count: int) -> None:
        """Forget the outermost calls, unless it is not known in which frames modules are called."""
        if self.module_call_code is not None:
            del running_calls[:count]

    def _intern(self, segment: list[int], above: int) -> int:
        if not segment:
            return above
        segment.append(above)
        key = tuple(segment)
        known = self._ids.get(key)
        if known is None:
            known = self._ids[key] = len(self._stacks)
            self._stacks.append(key)
        return known

    def _classify(self, frame: FrameType) -> int:
        code = frame.f_code
        self._codes[id(code)] = code
        file = code.co_filename
        if code is self.module_call_code:
            verdict = _MODULE_CALL
        elif is_gradviz_code(code):
            # Above the function that runs the user's program there is only gradviz.
            verdict = _END if code is BOUNDARY else _SKIP
        elif file.startswith("<frozen ") or (is_torch_file(file) and not is_tracer(file, code.co_name)):
            verdict = _SKIP
        else:
            verdict = _KEEP
            if is_made_by_fx(file):
                self._traced[id(code)] = TracedLines(frame)
        self._verdicts[id(code)] = verdict
        return verdict

    def frames(self, stack: int) -> Iterable[tuple[CodeType | TracedStack, int]]:
        """Code and instruction offset of each frame of a stack, innermost first."""
        while stack != NO_STACK:
            key = self._stacks[stack]
            for index in range(0, len(key) - 1, 2):
                yield self._codes[key[index]], key[index + 1]
            stack = key[-1]

    def traced_modules(self, stack: int) -> tuple[TracedModule, ...]:
        """The module calls that were traced at the innermost frame of a stack, the outermost first."""
        for code, offset in self.frames(stack) if self._traced else ():
            if id(code) not in self._traced or isinstance(code, TracedStack):
                break
            return self._traced[id(code)].modules_at(self.line_of(code, offset))
        return ()

    def line_of(self, code: CodeType, offset: int) -> int:
        """The line of an instruction of one of these frames."""
        known = self._lines.get(id(code))
        if known is None:
            ranges = list(code.co_lines())
            known = self._lines[id(code)] = [begin for begin, _, _ in ranges], [line for _, _, line in ranges]
        starts, lines = known
        # The ranges follow one another without a gap.
        return lines[bisect_right(starts, offset) - 1] or code.co_firstlineno

    def sites_of(self, code: CodeType | TracedStack, offset: int) -> list[CallSite]:
        """Where an instruction of one of these frames stands, without its caller.

        One site; for code that was made from a traced graph the stack of what was traced there, the outermost first,
        which is empty where only torch's own modules ran.
        """
        if isinstance(code, TracedStack):
            return [_site(frame) for frame in code.frames if not is_torch_file(frame.file)]
        line = self.line_of(code, offset)
        traced = self._traced[id(code)].at(line) if id(code) in self._traced else ()
        if traced:
            return [_site(frame) for frame in traced if not is_torch_file(frame.file)]
        return [CallSite(code.co_filename, line, function_name(code), None, is_library_file(code.co_filename))]


def _site(frame: TracedFrame) -> CallSite:
    return CallSite(frame.file, frame.line, frame.function, None, is_library_file(frame.file))


class CallSiteTable:
    """The call sites of one graph or call log, made from stacks when they are needed."""

    def __init__(self, stacks: StackTable) -> None:
        self._stacks = stacks
        self._sites: list[CallSite] = []
        self._ids: dict[tuple[int, int, int | None], int | None] = {}
        self._by_stack: dict[int, int | None] = {NO_STACK: None}

    def site_of(self, stack: int) -> int | None:
        """Index of the innermost call site of a stack."""
        if stack not in self._by_stack:
            caller: int | None = None
            for code, offset in _from_the_program_on(reversed(list(self._stacks.frames(stack)))):
                key = (id(code), offset, caller)
                if key not in self._ids:
                    for site in self._stacks.sites_of(code, offset):
                        self._sites.append(replace(site, caller=caller))
                        caller = len(self._sites) - 1
                    self._ids[key] = caller
                caller = self._ids[key]
            self._by_stack[stack] = caller
        return self._by_stack[stack]

    def traced_modules(self, stack: int) -> tuple[TracedModule, ...]:
        """As `StackTable.traced_modules`."""
        return self._stacks.traced_modules(stack)

    @property
    def sites(self) -> tuple[CallSite, ...]:
        """All call sites; a caller comes before the calls that it made."""
        return tuple(self._sites)


def _from_the_program_on(
    frames: Iterable[tuple[CodeType | TracedStack, int]],
) -> list[tuple[CodeType | TracedStack, int]]:
    """Frames, outermost first, without what launched the program: a notebook's server, a test runner, a thread."""
    every = list(frames)
    return list(dropwhile(lambda frame: is_library_file(frame[0].co_filename), every)) or every


def function_name(code: CodeType) -> str:
    """``Net.forward``; without the source, Python 3.10 only knows ``forward``."""
    known = getattr(code, "co_qualname", None)
    return known or _name_by_indentation(code.co_filename, code.co_firstlineno, code.co_name)


@cache
def _name_by_indentation(file: str, first_line: int, name: str) -> str:
    """The name after those of the classes and functions around it. The source is not parsed: that could warn again."""
    lines = linecache.getlines(file)[:first_line]
    if not lines or name == "<module>":
        return name
    indentation = _indentation(lines[-1])
    for line in reversed(lines):
        text = line.lstrip()
        if not text or text[0] in ")]}#" or _indentation(line) >= indentation:
            continue
        indentation = _indentation(line)
        if found := _HEAD.match(text):
            name = f"{found['name']}.{'' if found['kind'] == 'class' else '<locals>.'}{name}"
    return name


_HEAD = re.compile(r"(?:async\s+)?(?P<kind>class|def)\s+(?P<name>\w+)")


def _indentation(line: str) -> int:
    line = line.expandtabs()
    return len(line) - len(line.lstrip())


def calling_frame(depth: int = 1) -> FrameType:
    """The frame `depth` levels above the caller of this function."""
    return sys._getframe(depth + 1)
