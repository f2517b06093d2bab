"""GV889."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.reached_calls import ReachedCalls
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule


class LossesLeftBehind(Rule):
    """Of several losses that one line computes, always only the last one goes backward.

    What it finds
    -------------
    A line that computes three or more losses before each ``backward()`` of another line, where all but the last of them
    reach no backward: nothing adds them up or goes on with them, and they have no graph in common. So it is when
    ``backward()`` and ``step()`` stand behind the loop over the batches instead of in it.

    Why it matters
    --------------
    The variable has the loss of the last batch. All other batches are computed in vain, and the model takes one step
    where it should take many, or learns from a small part of the data.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for batch in range(4):
            optimizer.zero_grad()
            loss = (model(torch.randn(8, 4)) - 1).square().mean()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for batch in range(4):
            optimizer.zero_grad()
            loss = (model(torch.randn(8, 4)) - 1).square().mean()
            loss.backward()
            optimizer.step()
    """

    code = "GV889"
    name = "losses_left_behind"
    severity = "warning"
    yields_to = ("only_last_counts",)

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        losses = _losses_by_line(flow)
        lines: dict[int | None, list[_Taken]] = defaultdict(list)
        for row, root in flow.roots():
            call, made = flow.log.calls[row], flow.newest_producer(root, row)
            site = None if made is None else flow.log.calls[made].call_site
            if made is None or site == call.call_site or call.misses_calls:
                lines[call.call_site].append(_Taken(row, row, 0))
                continue
            before = flow.backward_before(row)
            rows = losses.get((site, flow.log.calls[made].function), [])
            lines[call.call_site].append(_Taken(row, made, _left_behind(flow, rows, before or 0, made, row)))
        for taken in lines.values():
            if len(taken) >= _MIN_TIMES and all(
                each.left >= _MIN_LEFT and flow.has_step_after(each.row) for each in taken
            ):
                yield self._finding(flow, taken)

    def _finding(self, flow: Dataflow, taken: list[_Taken]) -> Finding:
        left, last = sum(each.left for each in taken), taken[-1]
        location, computed = two_lines(flow, last.row, last.made)
        return self.finding(
            f"{left:,} of {left + len(taken):,} losses that are computed{at_line(computed)} never go backward: each "
            "backward() here takes the last one only",
            symptom="grad_wrong",
            why="the variable has the loss of the last batch, and those before it are gone",
            fix="move zero_grad(), backward() and step() into the loop that computes the losses; or add the losses up",
            location=location,
            symptom_location=computed,
            evidence={"losses": left + len(taken), "backward calls": len(taken)},
        )


class _Taken(Struct, frozen=True):
    """A backward call, what made its loss, and how many such losses since the last backward it left behind."""

    row: int
    made: int
    left: int


_MIN_TIMES = 2
_MIN_LEFT = 2


def _losses_by_line(flow: Dataflow) -> dict[tuple[int | None, str], list[int]]:
    """By line and function: the calls that computed a single number of which nothing is computed that requires grad,
    and that no backward starts from."""
    roots = {root for _, root in flow.roots()}
    lines = {flow.newest_producer(root, row) for row, root in flow.roots()}
    keys = {(flow.log.calls[row].call_site, flow.log.calls[row].function) for row in lines if row is not None}
    found: dict[tuple[int | None, str], list[int]] = defaultdict(list)
    for row, call in enumerate(flow.log.calls):
        key = call.call_site, call.function
        if key not in keys or not call.outputs or call.raised is not None:
            continue
        made = call.outputs[0]
        is_number = made.requires_grad and shape_of(flow, made.tensor) in ((), (1,))
        if is_number and made.tensor not in roots and not _goes_on(flow, made.tensor, row):
            found[key].append(row)
    return found


def _goes_on(flow: Dataflow, tensor: int, row: int) -> bool:
    return any(use.requires_grad for user in flow.users(tensor, row) for use in flow.log.calls[user].outputs)


def _left_behind(flow: Dataflow, rows: list[int], since: int, made: int, until: int) -> int:
    """How many losses of a line a backward leaves behind, where it takes the last one of them, and computes nothing
    that they were computed from: the loss at the end of a sequence also goes through what came before."""
    left = rows[bisect_left(rows, since) : bisect_left(rows, made)]
    if not left or bisect_left(rows, until) > bisect_left(rows, made):
        return 0
    last, taken = (ReachedCalls(flow, (flow.log.calls[row].outputs[0].tensor,), row + 1) for row in (left[-1], made))
    return len(left) if set(last.after(since)).isdisjoint(taken.after(since)) else 0
