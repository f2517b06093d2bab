"""Tensors that ``autograd.grad`` refused because what it starts from was computed from them before they required grad.

The walk goes from the root upwards over the calls that made it, along values that a gradient could come back through:
not through integers, and not past another leaf. Paths without a ``detach()`` or a block under ``no_grad`` come first.
"""

from __future__ import annotations

from heapq import heappop, heappush

from msgspec import Struct

from gradviz.analysis.cuts.cut_paths import alive_above
from gradviz.analysis.dataflow.cuts import TAKES_ONLY_THE_SHAPE, is_detach, is_exit
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call


class EarlyRead(Struct, frozen=True):
    """A call that took a tensor too early, on the way to the root of a refused backward call."""

    call: int
    tensor: int
    switched: int
    """The call that made the tensor require grad, later; the first that took it so, if that is not known."""
    is_switch: bool
    """Whether it is known."""
    cut: int | None
    """A call on the way that would have cut the gradient off in any case; None if there is none."""
    kept: int
    """What was computed from it before, and used after, it required grad."""


def early_reads(flow: Dataflow, backward: int) -> tuple[EarlyRead, ...]:
    """The calls that took what a refused ``autograd.grad()`` asks for while it did not require grad; of each tensor
    those without a cut, if there are any, and the first call first."""
    call = flow.log.calls[backward]
    if "not have been used in the graph" not in (call.raised or ""):
        return ()
    roots = [use.tensor for use in call.roots]
    alive = alive_above(flow, ((root, backward) for root in roots))
    asked = dict.fromkeys(use.tensor for use in call.asked if use.is_live_leaf and use.tensor not in alive)
    switched = {tensor: row for tensor in asked if (row := _switched_at(flow, tensor, backward)) is not None}
    found = _Walk(flow, switched).run(roots, backward) if switched else []
    without_cut = {read.tensor for read in found if read.cut is None}
    kept = (read for read in found if read.cut is None or read.tensor not in without_cut)
    order = {tensor: place for place, tensor in enumerate(asked)}
    return tuple(sorted(kept, key=lambda read: (order[read.tensor], read.call)))


def _switched_at(flow: Dataflow, tensor: int, before: int) -> int | None:
    """The newest call that made a leaf require grad that did not before, or else took it so."""
    calls = flow.log.calls
    newest: int | None = None
    for row in reversed([row for row in flow.users(tensor) if row <= before]):
        is_live = all(use.requires_grad for use in calls[row].inputs if use.tensor == tensor)
        if not is_live:
            return row if _is_switch(calls[row]) else newest
        newest = row
    return None


def _is_switch(call: Call) -> bool:
    return call.raised is None and call.function.endswith(_SWITCHES)


_SWITCHES = (".requires_grad_", ".requires_grad.__set__")
_COMPUTE = frozenset({"operation", "custom", "compiled", "backward"})


def _cuts(call: Call) -> bool:
    return call.grad_mode != "enabled" or is_detach(call)


class _Walk:
    def __init__(self, flow: Dataflow, switched: dict[int, int]) -> None:
        self._flow = flow
        self._switched = switched
        self._waiting: list[tuple[bool, int, int]] = []
        self._below: dict[tuple[int, int], tuple[int, int] | None] = {}
        """By call and result: the call that took the result on the way to the root, with its own result."""
        self._cut: dict[tuple[int, int], int | None] = {}
        self._known: dict[int, int] = {}

    def run(self, roots: list[int], backward: int) -> list[EarlyRead]:
        for root in roots:
            self._go_above(root, backward, None)
        found: list[EarlyRead] = []
        while self._waiting:
            _, row, given = heappop(self._waiting)
            call = self._flow.lists.single(-row, given)
            for use in call.inputs if self._passes_on(-row, call, given) else ():
                late = self._switched.get(use.tensor)
                if late is not None and not use.requires_grad:
                    if -row < late:
                        found.append(self._read(-row, given, use.tensor, late))
                elif not use.is_live_leaf:
                    self._go_above(use.tensor, -row, (-row, given))
        return found

    def _go_above(self, tensor: int, before: int, below: tuple[int, int] | None) -> None:
        if not self._flow.log.tensors[tensor].facts.is_differentiable:
            return
        for maker in self._flow.further_producers(tensor, before, self._known):
            cut = None if below is None else self._cut[below]
            # The cut that is nearest to the tensor that was asked for.
            self._cut[maker, tensor] = maker if _cuts(self._flow.log.calls[maker]) else cut
            self._below[maker, tensor] = below
            heappush(self._waiting, (self._cut[maker, tensor] is not None, -maker, tensor))

    def _passes_on(self, row: int, call: Call, given: int) -> bool:
        """Whether a gradient of the result would come back to the inputs, were it not for `_cuts`."""
        if call.kind not in _COMPUTE or call.function in TAKES_ONLY_THE_SHAPE or is_exit(call):
            return False
        use = next((use for use in call.outputs if use.tensor == given), None)
        is_live = use is not None and use.requires_grad
        takes_live = any(use.requires_grad for use in call.inputs)
        return is_live or not takes_live or _cuts(self._flow.log.calls[row])

    def _read(self, row: int, given: int, tensor: int, late: int) -> EarlyRead:
        kept, at = given, self._below[row, given]
        while at is not None and at[0] < late:
            kept, at = at[1], self._below[at]
        return EarlyRead(row, tensor, late, _is_switch(self._flow.log.calls[late]), self._cut[row, given], kept)
