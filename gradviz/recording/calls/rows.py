"""The rows of the call log while the program runs, and which of them are kept.

A run of hours makes millions of calls. Kept are the beginning, where models and optimizers are made; the newest steps;
calls that change parameters and optimizers; and the calls that computed tensors which are still alive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Any

import torch

from gradviz.collector import count_as_old
from gradviz.graph.call_log import CallKind, GradMode, Padding, RandomDraw, ValueFacts
from gradviz.graph.model import Scalar
from gradviz.recording.calls.known_tensors import KnownTensor
from gradviz.recording.forward.forward_log import NO_SCOPE
from gradviz.recording.forward.grad_mode_watch import Location
from gradviz.recording.forward.user_functions import Callback
from gradviz.recording.run.line_attribution import NO_STACK

MAX_ROWS = 100_000
_OLD_AFTER = 2_000
"""So many rows, each with about ten objects, are kept from Python's garbage collector at once."""
_LASTING: frozenset[CallKind] = frozenset({"add_param_group", "register_parameter", "register_module", "make_module"})


class RowUse:
    """A tensor in a row; see `gradviz.graph.call_log.TensorUse`."""

    __slots__ = ("fingerprint", "is_leaf", "known", "position", "requires_grad", "values", "version")

    def __init__(self, known: KnownTensor, position: str, version: int | None, values: ValueFacts | None) -> None:
        self.known = known
        self.position = position
        self.version = version
        self.requires_grad, self.is_leaf = known.status
        self.values = values
        self.fingerprint: int | None = None
        """Its number in the meter."""


class Row:
    """One call; see `gradviz.graph.call_log.Call`."""

    __slots__ = (
        "called",
        "checkpoint_location",
        "checksums",
        "definition",
        "draw",
        "function",
        "grad_mode",
        "grad_mode_location",
        "has_inner_rows",
        "has_values",
        "inner_nr",
        "inputs",
        "inside",
        "is_autocast",
        "is_moment",
        "is_open",
        "is_opened",
        "kind",
        "misses_calls",
        "name",
        "node_count",
        "number",
        "optimizer",
        "outputs",
        "padding",
        "raised",
        "reads_values",
        "redrawn_location",
        "result",
        "results",
        "scalars",
        "scope",
        "sequence_nr",
        "stack",
    )

    def __init__(self, function: str, kind: CallKind = "operation") -> None:
        self.function = function
        self.kind = kind
        self.stack = NO_STACK
        self.scope = NO_SCOPE
        self.inputs: list[RowUse] = []
        self.outputs: list[RowUse] = []
        self.scalars: dict[str, Scalar] = {}
        self.result: Scalar = None
        self.results: tuple[float | int | bool, ...] = ()
        self.sequence_nr: int | None = None
        self.node_count = 0
        self.inner_nr = 0
        self.is_opened = False
        self.has_inner_rows = False
        """For compiled code: whether calls inside it follow, at least of a part."""
        self.has_values = False
        """For compiled code: whether the values inside it were read."""
        self.inside: Row | None = None
        self.grad_mode: GradMode = "enabled"
        self.grad_mode_location: Location | None = None
        self.checkpoint_location: Location | None = None
        self.redrawn_location: Location | None = None
        self.is_autocast = False
        self.is_open = False
        self.is_moment = False
        """Whether it was noted what was alive after it; see `kept_alive`."""
        self.reads_values = True
        self.misses_calls = False
        """For a backward: whether calls were left out since the one before."""
        self.raised: str | None = None
        self.optimizer: Any = None
        self.name: str | None = None
        self.definition: Callback | None = None
        self.draw: RandomDraw | None = None
        self.called: Any = None
        """The custom function, until its arguments are known."""
        self.checksums: dict[str, torch.Tensor] = {}
        """By position of an integer input; each is one number on its device."""
        self.padding: dict[str, Padding] = {}
        self.number = -1
        """Its index, set when the log is built."""


class Rows:
    """The rows that are kept, in the order in which their calls began."""

    def __init__(self, max_rows: int = MAX_ROWS) -> None:
        self._rows: list[Row] = []
        self._max_rows = max_rows
        self.added = 0
        """All rows ever, also those that were dropped."""
        self.dropped = 0
        self.dropped_at: int | None = None
        self._dropped_behind: int | None = None
        """The stack of the step behind which rows are dropped."""
        self.dropped_needed = 0
        """Dropped rows that computed something that was still alive."""

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: Row) -> Row:
        """Add a row at the end."""
        self._rows.append(row)
        self.added += 1
        if self.added % _OLD_AFTER == 0:
            count_as_old()
        return row

    def last(self, count: int) -> list[Row]:
        """The last rows, the oldest first."""
        return self._rows[len(self._rows) - count :] if count else []

    def scopes(self) -> set[int]:
        """The module calls in which they ran."""
        return {row.scope for row in list(self._rows)} - {NO_SCOPE}

    @property
    def newest(self) -> Row | None:
        """The last row."""
        return self._rows[-1] if self._rows else None

    @property
    def is_full(self) -> bool:
        """True if some must be dropped before more are added."""
        return len(self._rows) >= self._max_rows

    def drop_some(self, living: Iterable[KnownTensor]) -> None:
        """Drop the oldest whole steps after the beginning, but no row that computed a tensor in `living`.

        What is kept goes on behind the same call of ``step()`` as it broke off: a ``zero_grad()`` at the top of a step
        that is kept would seem to be missing otherwise.
        """
        half = len(self._rows) - self._max_rows // 2
        if self.dropped_at is None:
            first = self._max_rows // 4
            steps = (each for each in _behind_steps(self._rows, first) if each[0] <= half)
            self.dropped_at, self._dropped_behind = next(steps, (first, None))
        head = self.dropped_at
        ends = list(_behind_steps(self._rows, half))
        tail = next((end for end, stack in ends if stack == self._dropped_behind), ends[0][0] if ends else half)
        middle = self._rows[head:tail]
        needed = _rows_behind(self._rows, living)
        kept = [
            row
            for row in middle
            if row.kind in _LASTING or row.is_moment or "requires_grad" in row.function or id(row) in needed
        ]
        if len(kept) > self._max_rows // 8:
            lost, kept = kept[: -self._max_rows // 8], kept[-self._max_rows // 8 :]
            moments = [row for row in lost if row.is_moment]
            kept = [*moments, *kept]
            self.dropped_needed += len(lost) - len(moments)
        self.dropped += len(middle) - len(kept)
        self._rows[head:tail] = kept
        for row in middle:
            row.number = -1  # It may have one of a log that was built before.


def _behind_steps(rows: list[Row], start: int) -> Iterator[tuple[int, int]]:
    """From `start` on, each index behind a ``step()`` of an optimizer, with the stack of that call."""
    step = rows[start - 1] if start and rows[start - 1].kind == "step" else None
    for index in range(start, len(rows)):
        row = rows[index]
        if row.inside is None:
            if step is not None:
                yield index, step.stack
            step = row if row.kind == "step" else None


def _rows_behind(rows: list[Row], living: Iterable[KnownTensor]) -> set[int]:
    """Ids of the rows that computed living tensors. Goes from newest to oldest, so each row is read once.

    Rows that only changed a tensor's values are not among them: every step does so with parameters and averages. Of
    buffers, such as masks, only those are that were made before the training: others may be averages of all steps.
    """
    early = {id(row) for row in takewhile(lambda row: row.kind != "step", rows)}
    wanted = {
        id(known) for known in living if _is_computed(known) or (known.role == "buffer" and id(known.producer) in early)
    }
    found: set[int] = set()
    for row in reversed(rows):
        if any(id(use.known) in wanted and (row.node_count or use.known.producer is row) for use in row.outputs):
            found.add(id(row))
            wanted.update(id(use.known) for use in row.inputs if _is_computed(use.known))
            if row.inside is not None:
                found.add(id(row.inside))
    return found


def _is_computed(known: KnownTensor) -> bool:
    """False for parameters, buffers and other leaves that require grad."""
    return known.role == "tensor" and known.status != (True, True)


def written_from_outside(rows: Iterable[Row]) -> Iterator[KnownTensor]:
    """Tensors that these calls changed in place, in memory that none of them had made."""
    made: set[int] = set()
    for row in rows:
        foreign = {id(use.known.storage) for use in row.inputs} - made
        for use in row.outputs:
            if id(use.known.storage) not in foreign:
                made.add(id(use.known.storage))
            elif use.version and any(other.known is use.known and other.version != use.version for other in row.inputs):
                yield use.known
