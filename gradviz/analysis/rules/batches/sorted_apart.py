"""GV688."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import (
    at_line,
    call_words,
    callers,
    calls_named,
    line_in_function_of,
    location_of_call,
    two_lines,
)
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.sorted_rows import CombinedApart, SortedRows


class SortedApart(Rule):
    """Some values of the samples are put into the order of a sort, and meet others that are not.

    What it finds
    -------------
    Results of a model that are sorted, or taken in the order of ``sort()`` or ``argsort()`` of all samples of a batch,
    and that are combined with values of the same samples, one by one, that were not taken in this order; also features
    of the events of a sequence, of which some were sorted along it, beside others that were not, and last states of
    sequences that were packed by their length, beside what the batch has for each sample. Weights by
    rank, pairs of sorted values, values that were put back into their order, and samples that are paired with their
    neighbours in an order are left alone.

    Why it matters
    --------------
    The event flag, weight or label of one sample counts for another one. All shapes fit, so nothing raises.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, time, event = torch.randn(16, 4), torch.rand(16), torch.arange(16) % 2
    for step in range(4):
        rows = torch.randperm(16)[:8]
        risk, order = model(x[rows])[:, 0], time[rows].argsort(descending=True)
        risk, seen = risk[order], event[rows]
        loss = -((risk - torch.logcumsumexp(risk, 0)) * seen).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, time, event = torch.randn(16, 4), torch.rand(16), torch.arange(16) % 2
    for step in range(4):
        rows = torch.randperm(16)[:8]
        risk, order = model(x[rows])[:, 0], time[rows].argsort(descending=True)
        risk, seen = risk[order], event[rows][order]
        loss = -((risk - torch.logcumsumexp(risk, 0)) * seen).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV688"
    name = "sorted_apart"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[tuple[int, CombinedApart | None]]] = defaultdict(list)
        for row, call in calls_named(flow, _SORTS):
            if len(lines[call.call_site]) >= _MAX_TRIED or not call.inputs:
                continue
            backward = next(iter(case.backward_calls.next_after(row, 1)), None)
            if backward is None or not flow.has_step_after(backward) or call.grad_mode != "enabled":
                continue
            rows = SortedRows(flow, row, backward)
            if rows.is_of_samples:
                found = next((each for each in rows.apart() if _reaches(case, each.call, backward)), None)
                if found is not None or rows.has_trained:
                    lines[call.call_site].append((row, found))
        for tried in lines.values():
            met = [(row, found) for row, found in tried if found is not None]
            if len(met) >= _MIN_TIMES and len(met) >= len(tried) - 1:  # data may be seen for the first time at the end
                yield self._finding(case, *met[-1])

    def _finding(self, case: Case, row: int, apart: CombinedApart) -> Finding:
        flow = case.dataflow
        location, taken = two_lines(flow, apart.call, apart.taken)
        if apart.are_features and taken is not None:
            location, taken = taken, location  # the others are missing where some were put into the order
        given = _given_to_function(flow, row, apart)
        if given is not None and not apart.are_features:
            location, taken = given, location
        fix = "take it in the same order before: values[order]"
        if apart.are_packed and taken is not None and not _is_order_known(flow, apart):
            location, taken = taken, location  # torch needs no sort, and knows how to put back what it sorts
            fix = (
                "pack them as they are, with enforce_sorted=False, which also puts the results back; or put them back "
                "by hand: states[order.argsort()]"
            )
        name, sort = case.tensor_name(apart.other), call_words(flow.log.calls[row])
        sorted_at = location_of_call(flow, row)
        return self.finding(
            f"{name} stands in the order of the batch, and meets values that are in the order of {sort}"
            f"{at_line(sorted_at) if sorted_at != location else ''}",
            symptom="grad_wrong",
            why="each value meets the one of another sample",
            fix=fix,
            location=location,
            symptom_location=taken,
        )


_SORTS = frozenset({"sort", "argsort", "topk"})
_MAX_TRIED = 6
_MIN_TIMES = 2


def _is_order_known(flow: Dataflow, apart: CombinedApart) -> bool:
    """Whether the function that puts values into the order also combines them, or is called at the line that does."""
    used, around = flow.line_of(apart.call), list(callers(flow, apart.taken))
    if used is None:
        return False
    is_inside = any((each.file, each.function) == (used.file, used.function) for each in around[:1])
    return is_inside or any((each.file, each.line) == (used.file, used.line) for each in around)


def _given_to_function(flow: Dataflow, row: int, apart: CombinedApart) -> Location | None:
    """The line that called a function of the program, after the sort, to compute the other values: what it was given
    has the order of the batch."""
    made = flow.newest_producer(apart.other, apart.call)
    if made is None or made < row:
        return None
    line, used, inner = line_in_function_of(flow, made, apart.call), flow.line_of(apart.call), flow.line_of(made)
    is_called = line is not None and inner is not None and used is not None and inner.function != used.function
    return location_of_line(line) if is_called and line != used else None


def _reaches(case: Case, row: int, backward: int) -> bool:
    return row in case.backward_calls.reached(backward).members
