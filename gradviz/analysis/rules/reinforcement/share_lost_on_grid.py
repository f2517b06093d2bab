"""GV781."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.grids.shares import Half, are_combined, half_at
from gradviz.analysis.rules.bases.formulas.shares_by_masks import LostShares, shares_lost_by_masks


class ShareLostOnGrid(Rule):
    """A value is split between the grid points below and above it, and one that lies on a point goes to neither.

    What it finds
    -------------
    Two weights, ``x.ceil() - x`` for the point below and ``x - x.floor()`` or ``x.frac()`` for the one above, that are
    written with ``scatter_add``, ``index_add`` or assignments, or multiply what is added up, such as ``one_hot``, where
    some x are whole numbers. For these both weights are 0. Also weights on all points, chosen by ``distance > 0`` and
    ``distance < 0``, which leave out a distance of 0. So it is in the projection of a categorical Q-network (C51) and
    in values that are written as two neighbouring classes.

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
        halves: dict[int, dict[bool, Half]] = defaultdict(dict)
        lost: dict[int | None, list[tuple[Half, Half]]] = defaultdict(list)
        for row, call in enumerate(flow.log.calls):
            half = half_at(flow, row, call)
            if half is None or not flow.has_step_after(row):
                continue
            halves[half.place][half.is_below] = half
            other = halves[half.place].get(not half.is_below)
            if other is None or min(half.zeros, other.zeros) == 0:
                continue
            below, above = (half, other) if half.is_below else (other, half)
            if are_combined(flow, below, above):
                lost[flow.log.calls[below.row].call_site].append((below, above))
        for pairs in lost.values():
            yield self._finding(flow, pairs)
        by_masks: dict[int | None, list[LostShares]] = defaultdict(list)
        for found in shares_lost_by_masks(flow):
            by_masks[flow.log.calls[found.mask].call_site].append(found)
        for each in by_masks.values():
            yield self._by_masks(flow, each)

    def _by_masks(self, flow: Dataflow, found: list[LostShares]) -> Finding:
        location, other = two_lines(flow, found[-1].mask, found[-1].row)
        count = sum(each.values for each in found)
        return self.finding(
            f"{count:,} values that lie on a point of the grid have no weight there: their distance is 0, and the "
            "masks take what is more and what is less than 0",
            symptom="grad_wrong",
            why="the weights of such a value are all 0, so that no class gets its share",
            fix="let one of both masks have the point itself: (distance >= 0) & (distance < 1)",
            location=location,
            symptom_location=other,
            evidence={"values": count, "calls": len(found)},
        )

    def _finding(self, flow: Dataflow, pairs: list[tuple[Half, Half]]) -> Finding:
        below, above = pairs[-1]
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
