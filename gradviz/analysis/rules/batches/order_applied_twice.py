"""GV744."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, call_words, calls_named, location_of_call, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.rows_put_back import RowsInOrder, TakenTwice


class OrderAppliedTwice(Rule):
    """Results are put back into the order of the samples with the order itself, not with its inverse.

    What it finds
    -------------
    Rows that are taken in the order of ``sort()``, ``argsort()`` or ``randperm()``, and of which results are computed
    that are taken in the same order once more, and then meet values of the samples that are in their own order: those
    of a mixture of experts that sorts tokens, of sequences sorted by length, or of masked patches.

    Why it matters
    --------------
    ``x[order][order]`` is not ``x``: each sample gets the result of another one. All shapes fit, so nothing raises.

    Example
    -------
    expert, gate = torch.nn.Linear(4, 4), torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD([*expert.parameters(), *gate.parameters()], lr=0.1)
    for step in range(3):
        x = torch.randn(16, 4)
        weight, chosen = gate(x).softmax(1).max(1)
        order = chosen.argsort()
        done = expert(x[order])
        out = weight[:, None] * done[order]
        loss = (out - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    expert, gate = torch.nn.Linear(4, 4), torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD([*expert.parameters(), *gate.parameters()], lr=0.1)
    for step in range(3):
        x = torch.randn(16, 4)
        weight, chosen = gate(x).softmax(1).max(1)
        order = chosen.argsort()
        done = expert(x[order])
        out = weight[:, None] * done[order.argsort()]
        loss = (out - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV744"
    name = "order_applied_twice"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[tuple[int, TakenTwice | None]]] = defaultdict(list)
        for row, call in calls_named(flow, _ORDERS):
            if len(lines[call.call_site]) >= _MAX_TRIED:
                continue
            backward = next(iter(case.backward_calls.next_after(row, 1)), None)
            if backward is not None and flow.has_step_after(backward) and _is_order(flow, row):
                members = case.backward_calls.reached(backward).members
                twice = RowsInOrder(flow, row, backward).taken_twice()
                lines[call.call_site].append((row, next((each for each in twice if each.met in members), None)))
        told = set[int | None]()
        for tried in lines.values():
            met = [(row, found) for row, found in tried if found is not None]
            site = flow.log.calls[met[-1][1].second].call_site if met else None
            if len(met) >= _MIN_TIMES and len(met) >= len(tried) - 1 and site not in told:
                told.add(site)
                yield self._finding(case, *met[-1])

    def _finding(self, case: Case, row: int, found: TakenTwice) -> Finding:
        flow = case.dataflow
        location, first = two_lines(flow, found.second, found.first)
        made = location_of_call(flow, row)
        return self.finding(
            f"these rows are already in the order of {call_words(flow.log.calls[row])}"
            f"{at_line(made) if made != location else ''}, and are taken in it once more: that does not put them back",
            symptom="grad_wrong",
            why="each sample gets the result of another one",
            fix="take them with the inverse of the order: done[order.argsort()]",
            location=location,
            symptom_location=first,
        )


_ORDERS = frozenset({"sort", "argsort", "topk", "randperm", "flip"})
_MAX_TRIED = 6
_MIN_TIMES = 2
_MIN_SAMPLES = 3
_TABLE = 2


def _is_order(flow: Dataflow, row: int) -> bool:
    """Whether a call returns the numbers of all samples, or of all elements of each row of a table."""
    call = flow.log.calls[row]
    if not call.outputs or "int" not in flow.log.tensors[call.outputs[-1].tensor].facts.dtype:
        return False
    shape = shape_of(flow, call.outputs[-1].tensor)
    is_whole = not call.inputs or shape_of(flow, call.inputs[0].tensor) == shape
    return is_whole and 0 < len(shape) <= _TABLE and max(shape) >= _MIN_SAMPLES
