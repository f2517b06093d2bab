"""GV983."""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.rows_by_number import becomes_list
from gradviz.analysis.rules.bases.losses.loss_arguments import argument
from gradviz.analysis.rules.bases.samples.weights_of_counts import DRAW, made_of_counts, weights_of_samples
from gradviz.analysis.rules.bases.sources.arrays.weights_by_count import grows_with_count
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.graph.call_log import Call, TensorUse, ValueFacts


class BalancedTwice(Rule):
    """Rare classes are drawn more often, and the loss weighs them more as well.

    What it finds
    -------------
    Samples that are drawn in proportion to a weight of their class, which falls with its count, and a loss of classes
    that is given weights which fall with the counts as well, or a ``pos_weight``; each of both at least three times as
    large for one class as for another.

    Why it matters
    --------------
    Either of the two makes the classes count alike. Both together turn the imbalance around: a class that is ten times
    rarer counts ten times more, and the model predicts it far too often.

    Example
    -------
    x = torch.randn(200, 4)
    y = (x[:, 0] > 1.2).long()
    weights = 1 / torch.bincount(y)
    drawn = torch.multinomial(weights[y], 200, replacement=True)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for rows in drawn.split(50):
        loss = torch.nn.functional.cross_entropy(model(x[rows]), y[rows], weight=weights)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    x = torch.randn(200, 4)
    y = (x[:, 0] > 1.2).long()
    weights = 1 / torch.bincount(y)
    drawn = torch.multinomial(weights[y], 200, replacement=True)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for rows in drawn.split(50):
        loss = torch.nn.functional.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV983"
    name = "balanced_twice"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        found = ((row, _balance(flow, row, call)) for row, call in calls_named(flow, (DRAW,)))
        draw, drawn = next(((row, each) for row, each in found if each is not None), (-1, None))
        if drawn is None:
            yield from self._by_one_ratio(case)
        for row, call in calls_named(flow, _LOSSES) if drawn is not None else ():
            if drawn is None or call.call_site in told or not call.live_inputs or not flow.has_step_after(row):
                continue
            told.add(call.call_site)
            if not _is_fed(flow, draw, call, row):
                continue
            positive = argument(call, _POS_WEIGHT, "pos_weight")
            weights = weights_of_samples(flow, row, call) if positive is None else positive
            if positive is not None:
                ratio = _smallest(flow, positive, row) if _asks_for(flow, drawn, call, row) else 0.0
            else:
                balance = _balance(flow, row, call)
                is_same = balance is not None and flow.memory_of(balance.labels) == flow.memory_of(drawn.labels)
                ratio = balance.ratio if balance is not None and is_same else 0.0
            if ratio >= _UNEQUAL and ratio * drawn.ratio >= _TOO_MUCH * drawn.counts:
                yield self._finding(flow, row, weights, draw)

    def _by_one_ratio(self, case: Case) -> Iterator[Finding]:
        """Where it is not known what the weights were made of, as NumPy computed them: the weights of the draw and
        those of the loss have the same ratio of the largest to the smallest one."""
        flow = case.dataflow
        draws = [(row, _ratio_of_draw(flow, row, call)) for row, call in calls_named(flow, (DRAW,))]
        draw, ratio = next((each for each in draws if each[1] >= _UNEQUAL), (-1, 0.0))
        told = set[int | None]()
        for row, call in calls_named(flow, _LOSSES) if ratio else ():
            if call.call_site in told or not call.live_inputs or not flow.has_step_after(row):
                continue
            told.add(call.call_site)
            positive = argument(call, _POS_WEIGHT, "pos_weight")
            weights = argument(call, _WEIGHT, "weight") if positive is None else positive
            if weights is None or not _is_fed(flow, draw, call, row):
                continue
            own = _smallest(flow, weights, row) if positive is not None else _ratio(flow.values_of(weights, row))
            if math.isclose(own, ratio, rel_tol=_ROUNDING) and not _brings_shares_back(case, weights, row):
                yield self._finding(flow, row, weights, draw)

    def _finding(self, flow: Dataflow, row: int, weights: TensorUse | None, draw: int) -> Finding:
        made = None if weights is None else flow.newest_producer(weights.tensor, row)
        location = location_of_call(flow, row if made is None else made)
        drawn, used = location_of_call(flow, draw), location_of_call(flow, row)
        return self.finding(
            f"rare classes are drawn more often{at_line(drawn)}, and the loss weighs them more as well{at_line(used)}: "
            "what was rare now counts more than all else",
            symptom="grad_wrong",
            why="drawing by the inverse of the counts makes the classes count alike; weights in the loss multiply that "
            "once more",
            fix="keep one of the two: leave the weights of the loss out, or draw the samples without weights",
            location=location,
            symptom_location=drawn if drawn != location else used,
        )


_LOSSES = ("cross_entropy", "nll_loss", "binary_cross_entropy_with_logits")
_UNEQUAL = 3
_TOO_MUCH = 2
_POS_WEIGHT = 6
_WEIGHT = 2
_BOTH = 2
_ROUNDING = 1e-3


class _Balance(Struct, frozen=True):
    """Weights of classes that fall with the counts of some labels."""

    labels: int
    """The labels that were counted."""
    ratio: float
    """How often the largest weight contains the smallest one."""
    counts: float
    """The same of the counts."""


def _balance(flow: Dataflow, row: int, call: Call) -> _Balance | None:
    """The balance that a call gets, if its weights fall with counts, and differ much."""
    use = weights_of_samples(flow, row, call)
    found = None if use is None else made_of_counts(flow, use, row)
    if use is None or found is None or found[1] > 0:
        return None
    counts = flow.log.calls[found[2]]
    ratio = _ratio(flow.values_of(use, row))
    labels = counts.inputs[0].tensor
    return _Balance(labels, ratio, _ratio(counts.outputs[0].values)) if ratio >= _UNEQUAL else None


def _ratio(values: ValueFacts | None) -> float:
    """The largest value over the smallest one; 0 if that is not known."""
    if values is None or values.minimum is None or values.maximum is None or values.minimum <= 0:
        return 0.0
    return values.maximum / values.minimum


def _brings_shares_back(case: Case, weights: TensorUse, row: int) -> bool:
    """Whether the source says that weights grow with the counts of the classes."""
    made = case.dataflow.newest_producer(weights.tensor, row)
    location = None if made is None else location_of_call(case.dataflow, made)
    return location is not None and any(
        file == location.file and grows_with_count(tree, location.line) for file, tree in own_files(case)
    )


def _ratio_of_draw(flow: Dataflow, row: int, call: Call) -> float:
    """The ratio of the largest to the smallest weight with which samples are drawn, again and again."""
    is_again = call.scalars.get("2", call.scalars.get("replacement")) is True
    return _ratio(flow.values_of(call.inputs[0], row)) if call.inputs and is_again else 0.0


def _is_fed(flow: Dataflow, draw: int, call: Call, row: int) -> bool:
    """Whether a loss may get the samples that were drawn: its targets are taken by these numbers, or the numbers left
    torch as a list, as those of a sampler do."""
    if draw > row or len(call.inputs) < _BOTH:
        return False
    site = flow.log.calls[draw].call_site
    above = flow.ancestors(call.inputs[1].tensor, row)
    return becomes_list(flow, draw) or any(flow.log.calls[each].call_site == site for each in above)


def _smallest(flow: Dataflow, use: TensorUse, row: int) -> float:
    values = flow.values_of(use, row)
    return 0.0 if values is None or values.minimum is None else values.minimum


def _asks_for(flow: Dataflow, drawn: _Balance, call: Call, row: int) -> bool:
    """Whether a loss asks for the labels whose counts decide on the draw, as far as it is known where its targets come
    from: samples may be drawn by their hospital, and weighed by their disease."""
    rows = flow.ancestors(call.inputs[1].tensor, row)
    known = {use.tensor for each in rows for use in (*flow.log.calls[each].inputs, *flow.log.calls[each].outputs)}
    forms = {drawn.labels}
    for _, each in flow.makers(drawn.labels, row, _MAX_CASTS):
        if plain_name(each.function) not in _CASTS or not each.inputs:
            break
        forms.add(each.inputs[0].tensor)
    return not known or not known.isdisjoint(forms)


_CASTS = frozenset({"long", "int", "float", "double", "to", "bool", "squeeze", "view", "flatten", "clone", "round"})
_MAX_CASTS = 6
