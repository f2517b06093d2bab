"""Notes where gradients are cut off in code that runs uncompiled inside a compiled function.

``detach()``, ``.item()`` and ``no_grad`` make no node, and no function mode may be active there. Python's profile
function tells that they are called, and on which tensor. What that tensor was computed from is in its graph, which is
walked a few times for each line.
"""

from __future__ import annotations

from types import FrameType
from typing import Any

import torch

from gradviz.recording.backward.gradients.gradient_watch import measuring
from gradviz.recording.calls.rows import Row
from gradviz.recording.compiled.noted_cuts import NotedCut
from gradviz.recording.forward.module_tree import parameters_inside
from gradviz.recording.forward_watch import ForwardWatch
from gradviz.recording.run.file_kinds import is_gradviz_code, is_library_file
from gradviz.recording.torch_access.nodes import LEAF_SEQUENCE_NR
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION, grad_fn_of, requires_grad_of
from gradviz.recording.walk.graph_walker import walk

EXITS = frozenset({"item", "tolist", "numpy"})
"""Methods that make a tensor something that is no tensor."""
_WITHOUT_DERIVATIVE = frozenset(
    {"argmax", "argmin", "argsort", "bool", "byte", "char", "eq", "ge", "gt", "int", "le", "long", "lt", "ne", "short"}
)
"""Methods of which no gradient comes back."""
CUTTING = EXITS | _WITHOUT_DERIVATIVE | {"detach", "detach_"}
SWITCH = "_set_grad_enabled"
"""The function of torch that every switch of gradients calls."""


class UncompiledCuts:
    """The cuts of one recording."""

    def __init__(self, watch: ForwardWatch) -> None:
        self._watch = watch
        self._off: NotedCut | None = None
        """The line that has switched gradients off."""

    def note(self, name: str, tensor: Any, frame: FrameType) -> None:
        """A method in `CUTTING`, or the attribute ``data``, was called in `frame`."""
        if not isinstance(tensor, torch.Tensor):
            return
        with DISABLE_TORCH_FUNCTION():
            if name in EXITS:
                self._log(name, tensor, frame)
            if not torch.is_grad_enabled() or not requires_grad_of(tensor):
                return
            cut = self._cut_at(f"torch.Tensor.{name}", frame)
            if cut.is_open:
                cut.add(_leaves_behind(tensor))

    def note_switch(self, frame: FrameType) -> None:
        """Gradients were switched on or off."""
        if torch.is_grad_enabled():
            self._off = None
        elif self._off is None:
            self._off = self._cut_at("torch.no_grad", frame, is_grad_off=True)

    def note_module(self, module: torch.nn.Module) -> None:
        """A module is about to run."""
        if self._off is not None and self._off.is_open:
            self._off.add(filter(requires_grad_of, parameters_inside(module)))

    def end(self) -> None:
        """The compiled function has returned, or is left for a while."""
        self._off = None

    def _log(self, name: str, tensor: torch.Tensor, frame: FrameType) -> None:
        """Add a row to the log of calls: what leaves as a number is used for something."""
        calls, outer = self._watch.calls, self._watch.compiled_row
        if calls is None or outer is None or calls.writer.is_elsewhere():
            return
        row = calls.writer.locate(Row(f"torch.Tensor.{name}", "operation"), frame)
        row.inside = outer.inside
        with measuring():
            row.inputs = [calls.writer.uses.use(tensor, "0", row, is_input=True)]
        calls.writer.add(row)

    def _cut_at(self, function: str, frame: FrameType, *, is_grad_off: bool = False) -> NotedCut:
        own = _own_frame(frame)
        return self._watch.noted_cuts.at(function, own.f_code.co_filename, own.f_lineno, is_grad_off=is_grad_off)


def _leaves_behind(tensor: torch.Tensor) -> list[torch.Tensor]:
    made_by = grad_fn_of(tensor)
    if made_by is None:
        return [tensor]
    walked = walk([made_by])
    numbered = zip(walked.wrappers, walked.sequence_nrs, strict=True)
    return [wrapper.variable for wrapper, number in numbered if number == LEAF_SEQUENCE_NR]


def _own_frame(frame: FrameType) -> FrameType:
    """The innermost frame of the program's own code; of a library, if there is none."""
    here: FrameType | None = frame
    while here is not None and (is_library_file(here.f_code.co_filename) or is_gradviz_code(here.f_code)):
        here = here.f_back
    return frame if here is None else here
