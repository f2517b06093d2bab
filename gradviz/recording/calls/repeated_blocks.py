"""Leaves calls under ``torch.no_grad()`` out of the log where a block has run often already.

An agent that acts makes more torch calls than its training, and those of one action are those of the next. They need no
gradient; what a finding may need of them are the ways in which their results reach a loss, which the first runs of a
block show, and one in sixteen of the later ones. Likewise of the times between two backward calls, one in sixteen is
logged with all of its blocks, so that a finding sees whole steps. In place, nothing is changed unseen: calls that may
write are always logged, and so is everything in a block that writes into parameters, buffers or gradients.
"""

from __future__ import annotations

from collections import Counter

import torch

from gradviz.recording.calls.known_tensors import KnownTensor
from gradviz.recording.calls.row_writer import CallWriter
from gradviz.recording.calls.rows import written_from_outside
from gradviz.recording.forward.grad_mode_watch import Location

ALWAYS_LOGGED = 64
"""Runs of a block."""
ONE_IN = 16
MOST_OF_A_STEP = 32
"""Runs of a block between two backward calls that are logged because others of that step are."""


class RepeatedBlocks:
    """Gets every switch of gradients, before it is made; `is_left_out` tells about the calls that follow."""

    def __init__(self, writer: CallWriter) -> None:
        self._writer = writer
        self._runs: Counter[Location] = Counter()
        self._runs_of_step: Counter[Location] = Counter()
        """Since the last backward."""
        self._step = 0
        self._always_logged: set[Location] = set()
        self._running: tuple[Location, int] | None = None
        """The block that runs logged, and how many rows there were at its beginning."""
        self.is_left_out = False
        """Whether gradients are off in a block whose calls are left out now."""
        self.left_out = 0
        """Runs of blocks that were left out."""

    def switch(self, location: Location | None, *, on: bool) -> None:
        """Gradients are about to be switched by the block at this line."""
        if on:
            self._end()
        elif location is not None and torch.is_grad_enabled() and not self._writer.is_inside("step"):
            self._begin(location)

    def _begin(self, location: Location) -> None:
        self._count(location)
        if location in self._always_logged or self._is_sample(location):
            self._running = location, self._writer.rows.added
        else:
            self.is_left_out = self._writer.misses_calls = True
            self.left_out += 1

    def _count(self, location: Location) -> None:
        if self._step != self._writer.backward_calls:
            self._step = self._writer.backward_calls
            self._runs_of_step.clear()
        self._runs[location] += 1
        self._runs_of_step[location] += 1

    def _is_sample(self, location: Location) -> bool:
        number = self._runs[location]
        is_of_whole_step = self._step > 0 and self._step % ONE_IN == 0
        is_of_whole_step &= self._runs_of_step[location] <= MOST_OF_A_STEP
        return number <= ALWAYS_LOGGED or number % ONE_IN == 0 or is_of_whole_step

    def _end(self) -> None:
        self.is_left_out = False
        running, self._running = self._running, None
        if running is not None and running[0] not in self._always_logged:
            location, before = running
            rows = self._writer.rows.last(self._writer.rows.added - before)
            if any(row.kind != "operation" for row in rows) or any(map(_is_trained, written_from_outside(rows))):
                self._always_logged.add(location)

    def disclosures(self) -> list[str]:
        """What is missing in the log, in sentences."""
        if not self.left_out:
            return []
        return [
            f"the torch calls in {self.left_out:,} of {self._runs.total():,} runs of blocks under torch.no_grad(): "
            "earlier and later runs of the same blocks were looked at, and so were all calls that change something "
            "in place"
        ]


def _is_trained(known: KnownTensor) -> bool:
    """Whether it belongs to a model, is a gradient, or shares memory with a parameter."""
    is_own = known.role == "tensor" and not known.requires_grad and known.gradient_of is None
    return not is_own or (known.storage is not None and known.storage.parameter is not None)
