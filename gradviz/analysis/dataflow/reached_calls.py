"""Which calls a backward goes through, and which tensors of an earlier step it uses.

A backward that fails, or that takes longer with every step, most often goes through calls that the user thinks are
finished: those of the step before. So the calls are split at a boundary, an earlier backward or an optimizer step. If
one line ran before it and after it, and the gradient goes through both, then a value was *carried over*.
"""

from __future__ import annotations

from functools import cached_property

from gradviz.analysis.dataflow.call_words import callers
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import TensorUse


class ReachedCalls:
    """The calls that a backward goes through, starting from tensors as a call received them."""

    def __init__(self, flow: Dataflow, tensors: tuple[int, ...], before: int) -> None:
        self._flow = flow
        self._tensors = tensors
        self._before = before

    @cached_property
    def rows(self) -> tuple[int, ...]:
        """In the order in which they were made."""
        return tuple(sorted(self.members))

    @cached_property
    def members(self) -> frozenset[int]:
        """The same as a set."""
        calls, newest = self._flow.log.calls, self._flow.newest_producer
        waiting = [row for tensor in self._tensors if (row := newest(tensor, self._before)) is not None]
        seen = set(waiting)
        while waiting:
            row = waiting.pop()
            for use in calls[row].inputs:
                above = newest(use.tensor, row) if use.has_grad_fn else None
                if above is not None and above not in seen:
                    seen.add(above)
                    waiting.append(above)
        return frozenset(row for row in seen if any(use.requires_grad for use in calls[row].outputs))

    @cached_property
    def leaves(self) -> tuple[int, ...]:
        """The leaves that get a gradient."""
        calls = self._flow.log.calls
        uses = (use for row in self.rows for use in calls[row].inputs)
        return tuple(sorted({use.tensor for use in uses if use.is_live_leaf}))

    def above(self, row: int) -> ReachedCalls:
        """One of the calls, and those above it."""
        return ReachedCalls(self._flow, tuple(use.tensor for use in self._flow.log.calls[row].outputs), row + 1)

    # -- over a boundary -----------------------------------------------------------------------------------------

    def after(self, boundary: int) -> tuple[int, ...]:
        """The calls that were made after another call."""
        return tuple(row for row in self.rows if row > boundary)

    def crossing(self, boundary: int) -> tuple[tuple[int, TensorUse], ...]:
        """Uses of tensors from before the boundary by calls after it, and by the backward itself, oldest first."""
        calls = self._flow.log.calls
        found: list[tuple[int, TensorUse]] = []
        for row in (*self.after(boundary), *self._last_user):
            for use in calls[row].inputs:
                maker = self._flow.newest_producer(use.tensor, row) if use.has_grad_fn else None
                if maker is not None and maker <= boundary:
                    found.append((row, use))
        return tuple(found)

    def end_of_round(self, boundary: int) -> int:
        """The last call in the same iteration of the loop as `boundary`, judged by the line numbers of calls after it.

        A running average that is updated after ``backward()`` belongs to that iteration, not to the next one.
        """
        lines = {(line.file, line.function): line.line for line in callers(self._flow, boundary)}
        last = boundary
        for row in self.after(boundary):
            here = next((line for line in callers(self._flow, row) if (line.file, line.function) in lines), None)
            if here is None or here.line <= lines[here.file, here.function]:
                break
            last = row
        return last

    @property
    def _last_user(self) -> tuple[int, ...]:
        return (self._before,) if self._before < len(self._flow.log.calls) else ()

    def repeats_over(self, boundary: int) -> bool:
        """Whether one line, called from the same lines, ran before the boundary and again after it."""
        calls = self._flow.log.calls
        before = {calls[row].call_site for row in self.rows if row < boundary}
        return any(calls[row].call_site in before for row in self.after(boundary))


def reached_by(flow: Dataflow, backward: int) -> ReachedCalls:
    """The calls that one call of ``backward`` or ``grad`` goes through."""
    return ReachedCalls(flow, tuple(use.tensor for use in flow.log.calls[backward].roots), backward)
