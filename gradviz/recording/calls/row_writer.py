"""Adds rows to the call log: from which stack, under which modes, and inside which other call a call was made."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import CodeType, FrameType

import torch

from gradviz.graph.call_log import CallKind
from gradviz.recording.calls.rows import Row, Rows
from gradviz.recording.calls.tensor_uses import TensorUses
from gradviz.recording.fingerprints.fingerprint_meter import FingerprintMeter
from gradviz.recording.forward.grad_mode_watch import GradModeWatch
from gradviz.recording.run.recording_failures import Defects
from gradviz.recording.torch_access.modes import is_any_autocast_enabled
from gradviz.recording.torch_access.tensor_facts import FactsTable
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION

OpenFrame = tuple[int, CodeType, int | None]
"""A frame: its address, which keeps nothing alive; its code; and the instruction at which it stays."""

Locate = Callable[[FrameType | None], tuple[int, int]]
"""Returns the stack and the module scope of a frame of the program."""


class CallWriter:
    """The log of the thread that made it; other threads and forked processes must not use it."""

    def __init__(self, facts: FactsTable, where: Locate, fingerprints: FingerprintMeter | None = None) -> None:
        self.rows = Rows()
        self.uses = TensorUses(facts, fingerprints)
        self.grad_mode = GradModeWatch()
        self.backward_calls = 0
        self.misses_calls = False
        """Whether calls were left out since the last backward."""
        self._defects = Defects()
        self._locate = where
        self._thread = threading.get_ident()
        self._process = os.getpid()
        self._open: list[tuple[Row, OpenFrame | None]] = []
        """Rows whose call is running; with its frame if only the frame shows when the call is over."""

    def is_elsewhere(self) -> bool:
        """True on threads and in processes that are not recorded."""
        return threading.get_ident() != self._thread or os.getpid() != self._process

    def is_inside(self, *kinds: CallKind) -> bool:
        """True while a call of one of these kinds runs."""
        return any(row.kind in kinds for row, _ in self._open)

    def close_frame(self, frame_id: int) -> None:
        """A frame begins to run: a call whose frame had the same id is over."""
        for row, known in self._open[::-1]:
            if known is not None and known[0] == frame_id:
                self.close(row)

    def shield(self) -> AbstractContextManager[None]:
        """A failure of gradviz inside is counted and disclosed at the end; the program and its tracers see nothing."""
        return self._defects.caught()

    def new_row(self, function: str, kind: CallKind, frame: FrameType | None) -> Row:
        """Add a row for something that is not a torch function."""
        row = self.locate(Row(function, kind), frame)
        self.add(row)
        return row

    def add(self, row: Row) -> None:
        """Add a row at the end of the log."""
        if self.rows.is_full:
            self.rows.drop_some(self.uses.tensors.living())
        self.rows.add(row)

    def locate(self, row: Row, frame: FrameType | None) -> Row:
        """Note from where and under which modes the call is made."""
        with DISABLE_TORCH_FUNCTION():
            self._note_modes(row, frame)
            row.stack, row.scope = self._locate(frame)
            row.inside = self._enclosing(frame)
        return row

    def _note_modes(self, row: Row, frame: FrameType | None) -> None:
        if torch.is_inference_mode_enabled():
            row.grad_mode = "inference"
        elif not torch.is_grad_enabled():
            row.grad_mode = "no_grad"
        if row.grad_mode != "enabled":
            row.grad_mode_location = self.grad_mode.location(frame, is_inference=row.grad_mode == "inference")
        row.is_autocast = is_any_autocast_enabled()

    def _enclosing(self, frame: FrameType | None) -> Row | None:
        """The innermost running call that has a row; custom functions that have returned are removed."""
        while self._open:
            row, known = self._open[-1]
            if known is None or _is_on_stack(known, frame):
                return row
            row.is_open = False
            self._open.pop()
        return None

    def open(self, row: Row, frame: FrameType | None = None, at: int | None = None) -> None:
        """Rows that follow are inside this one; with `frame`, as long as it runs, or is at the instruction `at`."""
        row.is_open = True
        self._open.append((row, None if frame is None else (id(frame), frame.f_code, at)))

    def close(self, row: Row) -> None:
        """The call is over, and so is everything that began inside it."""
        while any(other is row for other, _ in self._open):
            self._open.pop()[0].is_open = False

    def disclosures(self) -> list[str]:
        """What is missing in the log, in sentences."""
        sentences = self._defects.sentences("{} calls could not be logged")
        if self.uses.values.too_large:
            sentences.append(f"the values of {self.uses.values.too_large:,} tensors were not read: they are too large")
        if self.rows.dropped:
            needed = self.rows.dropped_needed
            in_use = f"{needed:,} of them had made something that" if needed else "nothing that they had made"
            sentences.append(f"{self.rows.dropped:,} calls of earlier steps were forgotten; {in_use} was still in use")
        return sentences


def _is_on_stack(known: OpenFrame, frame: FrameType | None) -> bool:
    while frame is not None:
        # Another frame may get the address later, but it seldom runs the same code.
        if id(frame) == known[0] and frame.f_code is known[1]:
            return known[2] is None or frame.f_lasti == known[2]
        frame = frame.f_back
    return False
