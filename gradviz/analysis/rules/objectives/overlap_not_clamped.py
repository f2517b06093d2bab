"""GV651."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.boxes.overlaps import PARTS_OF_BOXES, ends_of_overlap, is_reach_less_distance
from gradviz.graph.call_log import Call, TensorUse


class OverlapNotClamped(Rule):
    """The overlap of boxes is computed without a clamp at zero, so boxes that are apart seem to overlap.

    What it finds
    -------------
    The smaller upper bounds minus the larger lower bounds of two sets of boxes, multiplied with each other over the
    axes, where some of them are negative and nothing clamps them at 0; the same for half of both sizes minus the
    distance of the centres; also where they only make the targets of a loss. Sides that the program compares with 0 are
    left alone.

    Why it matters
    --------------
    Two boxes that are apart in both axes have two negative overlaps, whose product is positive: the further apart they
    are, the better the loss thinks they fit.

    Example
    -------
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for step in range(3):
        corner, size = torch.rand(16, 2) * 4, torch.rand(16, 2)
        first, sizes = model(torch.randn(16, 8)).chunk(2, 1)
        last = first + sizes.exp()
        sides = torch.minimum(last, corner + size) - torch.maximum(first, corner)
        overlap = sides.prod(1)
        union = sizes.exp().prod(1) + size.prod(1)
        loss = first.square().mean() - (overlap / union).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for step in range(3):
        corner, size = torch.rand(16, 2) * 4, torch.rand(16, 2)
        first, sizes = model(torch.randn(16, 8)).chunk(2, 1)
        last = first + sizes.exp()
        sides = (torch.minimum(last, corner + size) - torch.maximum(first, corner)).clamp(min=0)
        overlap = sides.prod(1)
        union = sizes.exp().prod(1) + size.prod(1)
        loss = first.square().mean() - (overlap / union).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV651"
    name = "overlap_not_clamped"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        told: set[int | None] = set()
        for row, call in calls_named(flow, ("mul", "prod")):
            name = plain_name(call.function)
            if call.call_site in told:
                continue
            sides = [_negative_side(flow, use.tensor, row) for use in call.inputs]
            if None in sides or (name == "mul" and len(sides) != _BOTH) or not flow.has_step_after(row):
                continue
            if any(_is_compared(flow, side) for side in sides if side is not None):
                continue
            told.add(call.call_site)
            yield self._finding(case, row, max(filter(None, sides)))

    def _finding(self, case: Case, row: int, side: int) -> Finding:
        flow = case.dataflow
        values = flow.log.calls[side].outputs[0].values
        least = "" if values is None or values.minimum is None else f", down to {values.minimum:.3g},"
        location, product = two_lines(flow, side, row)
        return self.finding(
            f"the sides of an overlap are negative{least} where boxes are apart, and they are multiplied as they are",
            symptom="grad_wrong",
            why="the product of two negative sides is positive: boxes that are apart seem to overlap",
            fix="clamp the sides at 0 before they are multiplied: .clamp(min=0)",
            location=location,
            symptom_location=product,
        )


_BOTH = 2
_COMPARES = frozenset({"gt", "ge", "lt", "le", "sign", "signbit", "heaviside", "where", "masked_fill"})


def _is_compared(flow: Dataflow, side: int) -> bool:
    """Whether the program itself looks which sides are negative, so that it may leave their product out."""
    waiting = [(use.tensor, side) for use in flow.log.calls[side].outputs]
    for _ in range(_MAX_USES):
        if not waiting:
            break
        tensor, row = waiting.pop()
        for user in flow.users(tensor, row)[:_MAX_USES]:
            name = plain_name(flow.log.calls[user].function)
            if name in _COMPARES:
                return True
            if name in PARTS_OF_BOXES | {"amin", "min", "minimum", "all", "any"}:
                waiting += [(use.tensor, user) for use in flow.log.calls[user].outputs]
    return False


_MAX_USES = 16


def _negative_side(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The call that computed the sides of an overlap, if a tensor is a part of them and some are negative."""
    for maker, call in flow.makers_above(tensor, row, _MAX_MAKERS, _kept_negative):
        if plain_name(call.function) not in ("add", "sub"):
            continue
        values = call.outputs[0].values if call.outputs else None
        is_negative = values is not None and values.minimum is not None and values.minimum < 0
        if is_negative and (ends_of_overlap(flow, maker) is not None or is_reach_less_distance(flow, maker)):
            return maker
    return None


def _kept_negative(call: Call) -> Sequence[TensorUse]:
    """The inputs of a call whose negative values are in its result: a part, an arrangement, or the smaller of two."""
    name = plain_name(call.function)
    if name in _ARRANGES or (name in ("min", "minimum", "fmin", "clamp_max") and len(call.inputs) > 1):
        return call.inputs
    return call.inputs[:1] if name in PARTS_OF_BOXES | {"amin"} else ()


_ARRANGES = frozenset({"stack", "cat"})
_MAX_MAKERS = 12
