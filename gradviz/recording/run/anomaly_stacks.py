"""Hides the recorder's frames from anomaly mode, which keeps the stack of every node and prints it when one fails.

`torch.jit.trace` reads the stack as well, to name values after the variables of the frame that computed them. Its
reader is not replaced: while a program is recorded, values of a traced graph may have other names than without.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from types import FrameType

from gradviz.recording.run.file_kinds import is_gradviz_code, is_hook_detour
from gradviz.recording.run.user_traceback import BOUNDARY, direct_call_in
from gradviz.recording.torch_access.capabilities import works
from gradviz.recording.torch_access.modes import keeps_node_metadata
from gradviz.recording.torch_access.patches import Replacement

_DISPATCHER = "handle_torch_function"


class AnomalyStacks:
    """Replaces torch's function that formats stacks, between `start` and `stop`."""

    def __init__(self) -> None:
        self._stacks = Replacement("torch.fx.traceback.format_stack")

    def start(self) -> None:
        """Replace it, if this torch has it."""
        if works("stacks of anomaly mode"):
            self._stacks.put(_stack_formatter)

    def stop(self) -> None:
        """Put it back; safe to call twice."""
        self._stacks.take_back()


def frames_of_program(frame: FrameType | None) -> Iterator[tuple[FrameType, int]]:
    """`frame` and those above it with their lines, as they would be without a recorder."""
    is_in_detour = False
    while frame is not None:
        code, line = frame.f_code, frame.f_lineno
        if is_gradviz_code(code):
            if code is BOUNDARY:
                return
            above = frame.f_back
            if code.co_name == "__torch_function__" and above is not None and above.f_code.co_name == _DISPATCHER:
                # A torch function written in Python calls itself again through the mode.
                frame = above.f_back
        elif is_hook_detour(code):
            is_in_detour = True
        else:
            direct = direct_call_in(code) if is_in_detour else None
            is_in_detour = False
            yield frame, direct[1] if direct is not None else line
        frame = frame.f_back if frame is not None else None


def _stack_formatter(original: Callable[[], list[str]]) -> Callable[[], list[str]]:
    def format_stack() -> list[str]:
        if keeps_node_metadata():
            return original()  # which does not look at frames then
        stack = traceback.StackSummary.extract(frames_of_program(sys._getframe(1)))
        stack.reverse()
        return traceback.format_list(stack)

    return format_stack
