"""Which computations a backward used, and which graphs were built or kept for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import callers
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Location, location_of_line
from gradviz.capture.capture import Capture
from gradviz.graph.call_log import Call
from gradviz.graph.model import CallSite
from gradviz.graph.query.own_line import is_tracer
from gradviz.graph.traversal import scopes_around


class IdleRun(Struct, frozen=True):
    """A module call with gradients on, of which no backward used anything."""

    path: str
    location: Location | None
    """The line that called it."""
    nodes: int
    leaves: frozenset[int]
    """The leaves that require grad and that it used, as numbers of the log."""


class GraphUses:
    """The calls that the backward calls of one run went through. Each call of the log is visited once."""

    def __init__(self, capture: Capture, flow: Dataflow) -> None:
        self._flow = flow
        self._calls = flow.log.calls
        self._outcome = capture.outcome
        backwards = flow.rows_of_kind("backward")
        self._backwards = [row for row in backwards if flow.is_by_program(self._calls[row])]
        self.is_complete = (
            bool(self._backwards)
            and not flow.log.dropped
            and capture.backward_calls <= len(self._backwards)
            and all(any(use.place.startswith("root") for use in self._calls[row].inputs) for row in self._backwards)
        )
        """False if the log lacks calls, calls ran on another thread, or backward began at a ``GradientEdge``, of which
        the log has no maker: then nothing can be called idle."""

    @cached_property
    def idle_runs(self) -> tuple[IdleRun, ...]:
        """Outermost module calls whose results no backward used. If the program was stopped, later uses are unknown."""
        used, _ = self._uses
        last = self._backwards[-1] if self._backwards else 0
        runs: dict[int, list[int]] = {}
        busy: set[int] = set()
        for row, call in enumerate(self._calls):
            if call.scope is None or not call.node_count or not self._flow.is_by_program(call):
                continue
            # torch makes the node of a custom function where gradients are off, too, and drops it at once.
            if self._is_traced(call) or (call.outputs and not any(use.has_grad_fn for use in call.outputs)):
                continue
            outermost = self._outermost(call.scope)
            runs.setdefault(outermost, []).append(row)
            if row in used or (row > last and self._outcome != "finished"):
                busy.add(outermost)
        shared = {line for scope in busy for row in runs.get(scope, ())[:1] for line in callers(self._flow, row)}
        return tuple(self._idle_run(scope, rows, shared) for scope, rows in runs.items() if scope not in busy)

    @property
    def retained_needlessly(self) -> tuple[int, ...]:
        """Backward calls with ``retain_graph=True`` whose graph no later one goes through."""
        _, shared = self._uses
        asked = [row for row in self._backwards if _retains(self._calls[row])]
        if self._outcome != "finished":
            asked = [row for row in asked if row != self._backwards[-1]]
        return tuple(row for row in asked if row not in shared)

    @property
    def retained_for_others(self) -> tuple[int, ...]:
        """Backward calls with ``retain_graph=True`` whose graph a later one needs."""
        _, shared = self._uses
        return tuple(row for row in sorted(shared) if _retains(self._calls[row]))

    def nodes_made(self) -> int:
        """The number of nodes that all module calls made."""
        return sum(call.node_count for call in self._calls if call.scope is not None)

    @cached_property
    def _uses(self) -> tuple[dict[int, int], set[int]]:
        """For each call that a backward goes through, the last one that does; and the backwards that share calls with a
        later one."""
        used: dict[int, int] = {}
        shared: set[int] = set()
        for backward in reversed(self._backwards):
            waiting = list(self._makers(backward, "root"))
            while waiting:
                row = waiting.pop()
                if row not in used:
                    used[row] = backward
                    waiting += self._makers(row)
                elif used[row] != backward:
                    shared.add(backward)
        return used, shared

    def _makers(self, row: int, start: str = "") -> Iterator[int]:
        for use in self._calls[row].inputs:
            if use.has_grad_fn and use.place.startswith(start):
                maker = self._flow.newest_producer(use.tensor, row)
                if maker is not None:
                    yield maker

    def _is_traced(self, call: Call) -> bool:
        """Whether torch made the call to write down what a model does: its result is not meant for a backward."""
        sites, site = self._flow.log.call_sites, call.call_site
        while site is not None:
            if sites[site].is_library and is_tracer(sites[site].file, sites[site].function):
                return True
            site = sites[site].caller
        return False

    def _idle_run(self, scope: int, rows: list[int], shared: set[CallSite]) -> IdleRun:
        nodes = sum(self._calls[row].node_count for row in rows)
        leaves = (use.tensor for row in rows for use in self._calls[row].inputs if use.is_live_leaf)
        return IdleRun(self._flow.log.scopes[scope].path, self._calling_line(rows, shared), nodes, frozenset(leaves))

    def _calling_line(self, rows: list[int], shared: set[CallSite]) -> Location | None:
        """The innermost of the user's own lines outside ``forward`` that all of these calls share.

        Not a line that training goes through as well, if an outer one is only of these calls.
        """
        chains = [list(callers(self._flow, row))[::-1] for row in (rows[0], rows[-1])]
        common = [one for one, other in zip(*chains, strict=False) if one == other]
        while len(common) > 1 and common[-1].function.rpartition(".")[2] == "forward":
            common.pop()
        training = {(line.file, line.line) for line in shared}
        own = [line for line in common if (line.file, line.line) not in training]
        common = own or common
        return location_of_line(common[-1]) if common else None

    def _outermost(self, scope: int) -> int:
        return list(scopes_around(self._flow.log.scopes, scope))[-1]


def _retains(call: Call) -> bool:
    return bool(call.scalars.get("retain_graph")) and not call.scalars.get("create_graph")
