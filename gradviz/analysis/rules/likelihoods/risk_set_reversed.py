"""GV682."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, call_words, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.drawn_rows import are_drawn_numbers
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.analysis.rules.bases.samples.risk_sets import MAX_MAKERS, RiskSet, index_of, indicators, risk_sets
from gradviz.graph.call_log import Call


class RiskSetReversed(Rule):
    """The risk set of a Cox likelihood holds those who left before an event, not those who were still there.

    What it finds
    -------------
    Scores that are ordered by ascending times, from which the logarithm of the cumulative sum of their exponentials is
    subtracted, where the differences are weighed with zeros and ones of the same order, or selected by them. So are
    those whose sums are put back into the order of the batch first.

    Why it matters
    --------------
    The partial likelihood compares the one who has an event with all who are at risk then: those whose times are as
    long or longer. A cumulative sum in ascending order adds up those with shorter times: the model learns something
    else, and nothing raises.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, time, event = torch.randn(16, 4), torch.rand(16), torch.arange(16) % 2
        order = torch.argsort(time)
        risk, event = model(x)[order, 0], event[order]
        loss = -((risk - torch.logcumsumexp(risk, 0)) * event).sum() / event.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, time, event = torch.randn(16, 4), torch.rand(16), torch.arange(16) % 2
        order = torch.argsort(time, descending=True)
        risk, event = model(x)[order, 0], event[order]
        loss = -((risk - torch.logcumsumexp(risk, 0)) * event).sum() / event.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV682"
    name = "risk_set_reversed"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[_Ordered | None]] = defaultdict(list)
        for each in risk_sets(flow):
            ordered = _order_of(flow, each)
            if ordered is not None and _is_of_events(flow, each, ordered):
                site = flow.log.calls[each.compared].call_site
                lines[site].append(_searched(flow, each, ordered) if ordered.is_ascending else None)
        for found in lines.values():
            last = found[-1]
            if last is not None and len(found) >= _MIN_CALLS and None not in found:
                yield self._finding(flow, last)

    def _finding(self, flow: Dataflow, ordered: _Ordered) -> Finding:
        made, summed = two_lines(flow, ordered.sorted, ordered.summed)
        location, symptom = made, summed
        if ordered.is_searched and summed is not None:
            # What searches the sorted times needs them as they are.
            location, symptom = summed, made
        name = call_words(flow.log.calls[ordered.summed])
        return self.finding(
            f"{call_words(flow.log.calls[ordered.sorted])}{at_line(None if symptom is summed else symptom)} orders by "
            f"ascending times, so that {name}{at_line(summed if symptom is summed else None)} adds up those with "
            "shorter times: the risk set of an event holds who left before it",
            symptom="grad_wrong",
            why="at risk are those whose times are as long or longer",
            fix=_FLIPPED if ordered.is_searched else f"{_DESCENDING}; or {_FLIPPED}",
            location=location,
            symptom_location=symptom,
        )


class _Ordered(Struct, frozen=True):
    """Scores in the order of a sorted tensor, of which a cumulative sum was taken."""

    sorted: int
    """The call that sorts."""
    index: int
    """The tensor with the order."""
    summed: int
    """The call that sums."""
    is_ascending: bool
    is_searched: bool = False
    """Whether the sums are looked up at places that ``searchsorted()`` finds among the sorted times."""


_DESCENDING = "sort by descending times: torch.argsort(time, descending=True)"
_FLIPPED = "flip the scores before the sum and the sum after it"
_SEARCHES = frozenset({"searchsorted", "bucketize"})
_MIN_CALLS = 2
_MAX_LAYERS = 40
_SORTS = frozenset({"sort", "argsort"})


def _order_of(flow: Dataflow, risk: RiskSet) -> _Ordered | None:
    """In which order the summed scores are."""
    summed, is_exponential, is_turned = risk.summed, risk.is_exponential, risk.is_turned
    count = max(shape_of(flow, risk.scores))
    for row, maker in flow.makers(risk.scores, summed, _MAX_LAYERS):
        name = plain_name(maker.function)
        is_exponential |= name == "exp"
        is_turned ^= name == "flip"
        index = index_of(maker)
        if index is not None:
            is_exponential |= _is_exponential(flow, maker.inputs[0].tensor, row)
            return _sorted(flow, summed, row, index, is_turned=is_turned) if is_exponential else None
        if shape_of(flow, maker.outputs[0].tensor)[:1] != (count,):
            return None
    return None


def _is_exponential(flow: Dataflow, tensor: int, row: int) -> bool:
    made = value_maker(flow, tensor, row)
    return made is not None and plain_name(made[1].function) == "exp"


def _sorted(flow: Dataflow, summed: int, row: int, index: int, *, is_turned: bool) -> _Ordered | None:
    for made, call in flow.makers(index, row, MAX_MAKERS):
        name = plain_name(call.function)
        if name in _SORTS:
            is_descending = call.scalars.get("descending", call.scalars.get("2")) is True
            sign = _sign_of_key(flow, call, made)
            is_ascending = (is_descending is (sign < 0)) is not is_turned
            return _Ordered(made, index, summed, is_ascending) if sign else None
        is_turned ^= name == "flip"
        if name not in ("flip", "view", "squeeze", "to", "long", "getitem", "detach"):
            return None
    return None


def _sign_of_key(flow: Dataflow, call: Call, row: int) -> int:
    """1 for a sort by times, -1 for one by negated times, 0 for one by something else."""
    key = call.inputs[0]
    values = flow.values_of(key, row)
    if key.requires_grad or values is None or values.minimum is None or values.maximum is None:
        return 0
    if are_drawn_numbers(flow, key.tensor, row):
        return 0  # of samples that may be sorted already
    made = flow.newest_producer(key.tensor, row)
    is_negated = made is not None and plain_name(flow.log.calls[made].function) == "neg"
    if is_negated:
        return -1 if values.minimum < 0 else 0
    return 1 if values.maximum > 0 else 0


def _searched(flow: Dataflow, risk: RiskSet, ordered: _Ordered) -> _Ordered:
    makers = () if risk.places is None else flow.makers(risk.places, risk.compared, MAX_MAKERS)
    return replace(ordered, is_searched=any(plain_name(call.function) in _SEARCHES for _, call in makers))


def _is_of_events(flow: Dataflow, risk: RiskSet, ordered: _Ordered) -> bool:
    """Whether differences are weighed with zeros and ones in the same order, or selected by them.

    Where the sums were taken back into the order of the batch, zeros and ones are in that one.
    """
    events = indicators(flow, risk.compared)
    if risk.places is not None:
        return bool(events) and ordered.sorted in flow.ancestors(risk.places, risk.compared, since=ordered.sorted)
    return any(
        index_of(call) == ordered.index for tensor, user in events for _, call in flow.makers(tensor, user, MAX_MAKERS)
    )
