"""GV698."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, call_words, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.drawn_rows import (
    are_drawn_numbers,
    is_loaded_as_drawn,
    keeps_order,
    lists_of_drawn_numbers,
)
from gradviz.analysis.rules.bases.samples.risk_sets import RiskSet, index_of, indicators, risk_sets


class RiskSetNotSorted(Rule):
    """The risk sets of a Cox likelihood are cumulative sums over a batch in a random order.

    What it finds
    -------------
    Scores from which the logarithm of the cumulative sum of their exponentials is subtracted, also as a product with a
    triangle of ones, where the differences are
    weighed with zeros and ones or selected by them, and the samples were drawn at random, by a loader that shuffles or
    by random indexes, without a sort since.

    Why it matters
    --------------
    The cumulative sum stands for all who are at risk at an event: those whose times are as long or longer. That is so
    only while the samples are sorted by their times. In a random order it adds up random samples. A data set that was
    sorted once does not help: the batches are shuffled again.

    Example
    -------
    x, time, event = torch.randn(40, 4), torch.rand(40), torch.arange(40) % 2
    order = torch.argsort(time, descending=True)
    x, event = x[order], event[order]
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        batch = torch.randperm(40)[:16]
        risk = model(x[batch])[:, 0]
        loss = -((risk - torch.logcumsumexp(risk, 0)) * event[batch]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    x, time, event = torch.randn(40, 4), torch.rand(40), torch.arange(40) % 2
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        batch = torch.randperm(40)[:16]
        batch = batch[torch.argsort(time[batch], descending=True)]
        risk = model(x[batch])[:, 0]
        loss = -((risk - torch.logcumsumexp(risk, 0)) * event[batch]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV698"
    name = "risk_set_not_sorted"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lists = lists_of_drawn_numbers(flow)
        lines: dict[int | None, list[_Taken | None]] = defaultdict(list)
        for each in risk_sets(flow):
            if each.places is None and indicators(flow, each.compared):
                lines[flow.log.calls[each.compared].call_site].append(_rows_taken(flow, each, lists))
        for found in lines.values():
            drawn = [each for each in found if each is not None and each.is_drawn]
            if drawn and len(found) >= _MIN_CALLS and None not in found:
                yield self._finding(flow, drawn[-1])

    def _finding(self, flow: Dataflow, drawn: _Taken) -> Finding:
        summed, taken = two_lines(flow, drawn.summed, drawn.row)
        return self.finding(
            f"{call_words(flow.log.calls[drawn.summed])} adds up the risk sets over samples in a random order"
            f"{at_line(taken)}: nothing sorts them by their times",
            symptom="grad_wrong",
            why="the cumulative sum is the risk set only if the samples of the batch are sorted by descending times; a "
            "data set that was sorted before is shuffled again",
            fix="give the loss the times, and sort each batch in it: order = torch.argsort(time, descending=True); "
            "risk, event = risk[order], event[order]",
            location=summed,
            symptom_location=taken,
        )


class _Taken(NamedTuple):
    """How the rows of summed scores were taken."""

    summed: int
    row: int
    """The call that took them."""
    is_drawn: bool
    """Whether they surely are in a random order."""


_MIN_CALLS = 2
_MAX_LAYERS = 60


def _rows_taken(flow: Dataflow, risk: RiskSet, lists: list[int]) -> _Taken | None:
    """The call that took the rows of the summed scores, at random or as a loader does; None if it is another one.

    The calls of a loader are not recorded for all batches.
    """
    summed, is_exponential = risk.summed, risk.is_exponential
    tensor, before = risk.scores, summed
    count = max(shape_of(flow, tensor))
    for row, maker in flow.makers(tensor, before, _MAX_LAYERS):
        name = plain_name(maker.function)
        is_exponential |= name == "exp"
        index = index_of(maker)
        if index is not None:
            is_drawn = are_drawn_numbers(flow, index, row)
            return _Taken(summed, row, is_drawn=True) if is_drawn and is_exponential else None
        if name == "stack" and len(maker.inputs) == count:
            return _Taken(summed, row, is_loaded_as_drawn(flow, row, lists)) if is_exponential else None
        is_aside = name in _REORDER or not maker.inputs or not keeps_order(flow, maker)
        if is_aside or shape_of(flow, maker.outputs[0].tensor)[:1] != (count,):
            return None
        before, tensor = row, maker.inputs[0].tensor
    is_of_loader = bool(flow.log.loaders) and not flow.producers(tensor, before)
    return _Taken(summed, before, is_drawn=False) if is_of_loader and is_exponential else None


_REORDER = frozenset({"sort", "argsort", "topk", "roll", "unique", "cat", "scatter", "index_copy", "setitem", "cumsum"})
