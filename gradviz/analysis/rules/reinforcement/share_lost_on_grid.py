"""GV781."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import TensorUse


class ShareLostOnGrid(Rule):
    """A value is split between the grid points below and above it, and one that lies on a point goes to neither.

    What it finds
    -------------
    Two ``scatter_add``, ``index_add`` or assignments: one at ``x.floor()`` with the weight ``x.ceil() - x``, one at
    ``x.ceil()`` with the weight ``x - x.floor()``, where some x are whole numbers. For these both weights are 0. So it
    is in the projection of a categorical Q-network (C51) and in values that are written as two neighbouring classes.

    Why it matters
    --------------
    The probability of such a value is in no class: the target does not add up to 1, or is zero. Rewards of the last
    step lie on grid points most often, and are not learned.

    Example
    -------
    model = torch.nn.Linear(4, 11)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        place = torch.cat([torch.rand(6) * 10, torch.tensor([3.0, 7.0])])[:, None]
        low, high = place.floor().long(), place.ceil().long()
        target = torch.zeros(8, 11)
        target.scatter_add_(1, low, high - place)
        target.scatter_add_(1, high, place - low)
        loss = -(target * torch.log_softmax(model(torch.randn(8, 4)), 1)).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 11)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        place = torch.cat([torch.rand(6) * 10, torch.tensor([3.0, 7.0])])[:, None]
        low, high = place.floor().long(), place.ceil().long()
        target = torch.zeros(8, 11)
        target.scatter_add_(1, low, high - place + (low == high))
        target.scatter_add_(1, high, place - low)
        loss = -(target * torch.log_softmax(model(torch.randn(8, 4)), 1)).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV781"
    name = "share_lost_on_grid"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        halves: dict[tuple[int, bool], _Half] = {}
        lost: dict[int | None, list[tuple[_Half, _Half]]] = defaultdict(list)
        for row, call in enumerate(flow.log.calls):
            half = _half(flow, row) if plain_name(call.function).strip("_") in _WRITE and call.inputs else None
            if half is None or not flow.has_step_after(row):
                continue
            halves[half.place, half.is_below] = half
            other = halves.get((half.place, not half.is_below))
            if other is not None and min(half.zeros, other.zeros) > 0:
                lost[call.call_site].append((half, other))
        for pairs in lost.values():
            yield self._finding(flow, pairs)

    def _finding(self, flow: Dataflow, pairs: list[tuple[_Half, _Half]]) -> Finding:
        below, above = sorted(pairs[-1], key=lambda half: not half.is_below)
        location, other = two_lines(flow, below.row, above.row)
        count = sum(min(half.zeros, other_half.zeros) for half, other_half in pairs)
        made = location_of_call(flow, flow.newest_producer(below.place, below.row) or below.row)
        return self.finding(
            f"{count:,} values that are split between the points below and above them go to neither: what is computed"
            f"{at_line(made)} is a whole number there, both points are the same, and both weights are 0",
            symptom="grad_wrong",
            why="for a whole number x.ceil() - x and x - x.floor() are 0, so that no class gets its share",
            fix="add what is lost to one of them: (high - x + (low == high)); or let high be low + 1",
            location=location,
            symptom_location=other,
            evidence={"values": count, "calls": len(pairs)},
        )


class _Half(Struct, frozen=True):
    """A write of the share of one of the two neighbours."""

    row: int
    place: int
    """The tensor that was rounded."""
    is_below: bool
    """Whether it is the share of the point below, which is as large as the distance from the point above."""
    zeros: int
    """How many of these shares are 0."""


_WRITE = frozenset({"scatter_add", "index_add", "index_put", "setitem"})
_CAST = frozenset({"long", "float", "to", "int", "type", "double", "clamp", "view", "reshape", "unsqueeze", "flatten"})
_BOTH = 2
_MAX_CALLS = 6


def _half(flow: Dataflow, row: int) -> _Half | None:
    """The distance from a rounded value that a call writes somewhere, perhaps multiplied by something."""
    source = flow.log.calls[row].inputs[-1]
    made = flow.makers_above(source.tensor, row, _MAX_CALLS, lambda call: call.inputs if _passes(call.function) else ())
    for number, call in made:
        if plain_name(call.function) == "sub" and len(call.inputs) == _BOTH and call.outputs:
            first, second = call.inputs
            values = call.outputs[0].values
            for rounded, place, is_below in ((first, second, True), (second, first, False)):
                name = "ceil" if is_below else "floor"
                if values is not None and _rounds(flow, rounded, number, place.tensor) == name:
                    return _Half(row, place.tensor, is_below, values.zeros)
    return None


def _passes(function: str) -> bool:
    return plain_name(function) == "mul" or plain_name(function) in _CAST


def _rounds(flow: Dataflow, use: TensorUse, row: int, place: int) -> str | None:
    """``floor`` or ``ceil``, if the tensor is that of `place`, perhaps in another dtype."""
    for _, call in flow.makers(use.tensor, row, _MAX_CALLS):
        name = plain_name(call.function)
        if name in ("floor", "ceil"):
            return name if call.inputs and call.inputs[0].tensor == place else None
        if name not in _CAST:
            return None
    return None
