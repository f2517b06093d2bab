"""Logs the torch calls of one run of a traced graph, as the call log has those of uncompiled code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

import torch
from msgspec.structs import replace

from gradviz.graph.model import TensorFacts
from gradviz.recording.backward.gradients.gradient_watch import measuring
from gradviz.recording.calls.call_arguments import tensors_inside
from gradviz.recording.calls.call_recorder import CallRecorder
from gradviz.recording.calls.known_tensors import KnownTensor
from gradviz.recording.calls.rows import Row
from gradviz.recording.compiled.traced_nodes import TracedNode
from gradviz.recording.forward.forward_log import NO_SCOPE
from gradviz.recording.forward.grad_mode_watch import GradModeWatch, Location
from gradviz.recording.run.file_kinds import is_torch_file
from gradviz.recording.run.line_attribution import NO_STACK
from gradviz.recording.run.traced_stacks import TracedFrame, frames_of
from gradviz.recording.torch_access.nodes import peek_sequence_nr
from gradviz.recording.torch_access.tensor_facts import FactsTable


class LoggedCall(NamedTuple):
    """A torch call of the run."""

    row: Row
    """Without stack and scope; sequence numbers are those of the thread that ran it."""
    traced: TracedNode
    """The node of the traced graph that it belongs to."""
    frames: tuple[TracedFrame, ...]
    """The lines of the program, the outermost first."""


class RunLog:
    """A listener of a function mode, on the thread that makes it."""

    def __init__(self) -> None:
        self.node: TracedNode | None = None
        """The node of the traced graph that runs now."""
        self.calls: list[LoggedCall] = []
        self._recorder = CallRecorder(_FactsOfPlain(), lambda _: (NO_STACK, NO_SCOPE))
        self._recorder.writer.grad_mode = _TracedSwitches(self)

    @property
    def is_complete(self) -> bool:
        """Whether every call could be logged."""
        return not self._recorder.writer.disclosures()

    def known(self, tensor: torch.Tensor) -> KnownTensor | None:
        """The tensor as the rows have it; None if no call took or returned it."""
        return self._recorder.writer.uses.tensors.find(tensor)

    def begin(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Any:
        """A torch function is about to run."""
        return self._recorder.begin(function, args, kwargs, frame)

    def end(self, pending: Any, result: Any, before: int, after: int) -> None:
        """It has returned."""
        row = self._recorder.end(pending, result, before, after)
        if row is not None:
            self._take_newest(row)

    def fail(self, pending: Any, error: BaseException) -> None:
        """It raised, and so does the whole run."""

    def _take_newest(self, row: Row) -> None:
        if self._recorder.writer.rows.newest is row and self.node is not None:
            self.calls.append(LoggedCall(row, self.node, own_frames(self.node)))

    @contextmanager
    def custom_function(self, args: Any, kwargs: Any) -> Iterator[Callable[[Any], None]]:
        """While entered, a custom function runs; what is yielded takes its result."""
        writer = self._recorder.writer
        name = custom_function_name(self.node) if self.node is not None else None
        row = writer.locate(Row(f"{name or 'Function'}.apply", "custom"), None)
        with measuring():
            row.inputs = writer.uses.of_arguments(row, args, kwargs)
        before = peek_sequence_nr()

        def take(result: Any) -> None:
            made = peek_sequence_nr() - before
            if made:
                row.sequence_nr, row.node_count = before, made
            with measuring():
                row.outputs = [writer.uses.given(each, at, row) for at, each in tensors_inside(result, "return")]
            writer.add(row)
            self._take_newest(row)

        yield take


def own_frames(node: TracedNode) -> tuple[TracedFrame, ...]:
    """The lines in which a node was traced, without those of torch; the outermost first."""
    return tuple(frame for frame in frames_of(node) if not is_torch_file(frame.file))


def custom_function_name(traced: TracedNode) -> str | None:
    """The class of a custom function, from the line that applied it: Dynamo keeps nothing else."""
    names = re.findall(r"(\w+)\.apply\(", traced.meta.get("stack_trace") or "")
    return names[-1] if names else None


class _FactsOfPlain(FactsTable):
    """Facts of fake tensors, as those of the tensors that they stand for."""

    def of_tensor(self, tensor: torch.Tensor) -> TensorFacts:
        return replace(super().of_tensor(tensor), type_name="Tensor")


class _TracedSwitches(GradModeWatch):
    """Knows the lines that switch gradients off from the traced graph."""

    def __init__(self, log: RunLog) -> None:
        super().__init__()
        self._log = log

    def note(self, args: tuple[Any, ...], frame: FrameType | None) -> None:
        """Dynamo tells no line for a switch itself."""

    def location(self, frame: FrameType | None, *, is_inference: bool) -> Location | None:
        frames = own_frames(self._log.node) if self._log.node is not None else ()
        for each in reversed(frames):
            line = self.with_around(each.file, each.line) or self.decorator_around(each.file, each.line)
            if line is not None:
                return Location(each.file, line, each.function)
        return None
