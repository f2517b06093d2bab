"""Leaves what data loaders compute out of the log, once the log has shown what it is.

Of image data, transforms make up most of a program's torch calls: thousands for each batch, and those for one batch are
those for the next. So the mode is off while a loader makes a batch, apart from the first ones and one in sixteen.

A loader of a data set is logged for good where what it does may matter: if it made autograd nodes, or if it changed
memory in place that existed before, as a data set that scales its own images at each access does.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

from gradviz.graph.number_words import counted
from gradviz.recording.calls.row_writer import CallWriter
from gradviz.recording.calls.rows import written_from_outside
from gradviz.recording.torch_access.capabilities import works
from gradviz.recording.torch_access.nodes import peek_sequence_nr
from gradviz.recording.torch_access.patches import Replacement

ALWAYS_LOGGED = 8
"""Batches of a data set."""
ONE_IN = 16


class DataLoading:
    """Watches loaders between `start` and `stop`.

    Args:
        pause: stops the logging of calls on this thread; False if it was not on.
        resume: undoes that.
    """

    def __init__(self, writer: CallWriter, pause: Callable[[], bool], resume: Callable[[], None]) -> None:
        self._writer = writer
        self._pause = pause
        self._resume = resume
        self._replacement = Replacement("torch.utils.data.dataloader._BaseDataLoaderIter.__next__")
        self._batches: Counter[int] = Counter()
        """By ``id()`` of the data set."""
        self._never_left_out: set[int] = set()
        self._alive: dict[int, weakref.ref[Any]] = {}
        """The data sets that can be watched: another one may get the ``id()`` of one that is gone."""
        self._total = 0
        self.left_out = 0
        """Batches of which no call is in the log."""

    def start(self) -> None:
        """Replace the method that makes a batch."""
        if works("batches of loaders"):
            self._replacement.put(self._watched)

    def stop(self) -> None:
        """Put it back; safe to call twice."""
        self._replacement.take_back()
        self._alive.clear()

    def _watched(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def next_batch(iterator: Any) -> Any:
            if self._writer.is_elsewhere():
                return original(iterator)
            data = self._number_of(getattr(iterator, "_dataset", None))
            if self._is_left_out(data) and self._pause():
                return self._unlogged(original, iterator, data)
            rows, nodes = self._writer.rows.added, peek_sequence_nr()
            batch = original(iterator)
            self._count(data)
            new = self._writer.rows.last(self._writer.rows.added - rows)
            if peek_sequence_nr() != nodes or any(True for _ in written_from_outside(new)):
                self._never_left_out.add(data)
            return batch

        return next_batch

    def _number_of(self, data_set: Any) -> int:
        number = id(data_set)
        if number not in self._alive:
            try:
                self._alive[number] = weakref.ref(data_set, lambda _: self._forget(number))
            except TypeError:  # A list has no weak references.
                return number
        return number

    def _forget(self, number: int) -> None:
        self._alive.pop(number, None)
        self._batches.pop(number, None)
        self._never_left_out.discard(number)

    def _count(self, data: int) -> None:
        self._batches[data] += 1
        self._total += 1

    def _is_left_out(self, data: int) -> bool:
        number = self._batches[data] + 1
        return number > ALWAYS_LOGGED and number % ONE_IN != 0 and data not in self._never_left_out

    def _unlogged(self, original: Callable[[Any], Any], iterator: Any, data: int) -> Any:
        nodes = peek_sequence_nr()
        try:
            batch = original(iterator)
        finally:
            if self._replacement.is_in_force:  # another thread may have ended the recording
                self._resume()
        self._count(data)
        self.left_out += 1
        if peek_sequence_nr() != nodes:
            self._never_left_out.add(data)
        return batch

    def disclosures(self) -> list[str]:
        """What is missing in the log, in sentences."""
        if not self.left_out:
            return []
        return [
            f"the torch calls with which DataLoaders made {counted(self.left_out, 'batch', 'batches')} of "
            f"{self._total:,}: those for the others made no graph and changed no data in place"
        ]
