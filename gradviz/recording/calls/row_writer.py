"""Writes the rows of the call log: where a call was made, under which modes, and inside of which other one."""

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
from gradviz.recording.forward.grad_mode_watch import GradModeWatch
from gradviz.recording.run.recording_failures import Defects
from gradviz.recording.torch_access.modes import is_any_autocast_enabled
from gradviz.recording.torch_access.tensor_facts import FactsTable
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION

OpenFrame = tuple[int, CodeType, int | None]
"""A frame by its address, which keeps nothing alive, and its code; with the instruction at which it stays."""

Where = Callable[[FrameType | None], tuple[int, int]]
"""Stack and module scope of a frame of the program."""


class CallWriter:
    """The log of the thread that made it; other threads, and forked processes, must leave it alone."""

    def __init__(self, facts: FactsTable, where: Where) -> None:
        self.rows = Rows()
        self.uses = TensorUses(facts)
        self.grad_mode = GradModeWatch()
        self._defects = Defects()
        self._where = where
        self._thread = threading.get_ident()
        self._process = os.getpid()
        self._open: list[tuple[Row, OpenFrame | None]] = []
        """Rows whose call is running, with its frame where only that tells when it is over."""

    def is_elsewhere(self) -> bool:
        """True on threads and in processes that are not recorded."""
        return threading.get_ident() != self._thread or os.getpid() != self._process

    def is_inside(self, *kinds: CallKind) -> bool:
        """True while a call of one of these kinds runs."""
        return any(row.kind in kinds for row, _ in self._open)

    def close_frame(self, frame_id: int) -> None:
        """A frame begins to run; whatever ran in one that had the same id is over."""
        for row, known in self._open[::-1]:
            if known is not None and known[0] == frame_id:
                self.close(row)

    def shield(self) -> AbstractContextManager[None]:
        """A failure of ours inside is counted, and disclosed at the end; the program and its tracers see nothing."""
        return self._defects.caught()

    def new_row(self, function: str, kind: CallKind, frame: FrameType | None) -> Row:
        """A row for something other than a torch function, at the end of the log."""
        row = self.place(Row(function, kind), frame)
        self.add(row)
        return row

    def add(self, row: Row) -> None:
        """Write a row at the end of the log."""
        if self.rows.is_full:
            self.rows.drop_some(self.uses.tensors.living())
        self.rows.add(row)

    def place(self, row: Row, frame: FrameType | None) -> Row:
        """Note where and under which modes the call is made."""
        with DISABLE_TORCH_FUNCTION():
            self._note_modes(row, frame)
            row.stack, row.scope = self._where(frame)
            row.inside = self._enclosing(frame)
        return row

    def _note_modes(self, row: Row, frame: FrameType | None) -> None:
        if torch.is_inference_mode_enabled():
            row.grad_mode = "inference"
        elif not torch.is_grad_enabled():
            row.grad_mode = "no_grad"
        if row.grad_mode != "enabled":
            row.grad_mode_place = self.grad_mode.place(frame, is_inference=row.grad_mode == "inference")
        row.is_autocast = is_any_autocast_enabled()

    def _enclosing(self, frame: FrameType | None) -> Row | None:
        """The innermost running call that has a row; custom functions that are over are forgotten."""
        while self._open:
            row, known = self._open[-1]
            if known is None or _is_on_stack(known, frame):
                return row
            row.is_open = False
            self._open.pop()
        return None

    def open(self, row: Row, frame: FrameType | None = None, at: int | None = None) -> None:
        """What follows happens inside of it; with a frame, as long as that runs, or is at that instruction."""
        row.is_open = True
        self._open.append((row, None if frame is None else (id(frame), frame.f_code, at)))

    def close(self, row: Row) -> None:
        """It is over, and whatever began inside of it."""
        while any(other is row for other, _ in self._open):
            self._open.pop()[0].is_open = False

    def disclosures(self) -> list[str]:
        """What is missing in the log, in sentences."""
        told = self._defects.sentences("{} calls could not be logged")
        if self.uses.values.too_large:
            told.append(f"the values of {self.uses.values.too_large:,} tensors were not looked at: they are too large")
        if self.rows.dropped:
            told.append(
                f"{self.rows.dropped:,} calls of earlier steps were forgotten; of {self.rows.dropped_needed:,} of them "
                "something was still in use"
            )
        return told


def _is_on_stack(known: OpenFrame, frame: FrameType | None) -> bool:
    while frame is not None:
        # A frame that is over leaves its address to others, but those seldom run the same code.
        if id(frame) == known[0] and frame.f_code is known[1]:
            return known[2] is None or frame.f_lasti == known[2]
        frame = frame.f_back
    return False
