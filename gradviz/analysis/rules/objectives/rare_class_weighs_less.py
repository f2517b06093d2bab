"""GV676."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, calls_named, location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.samples.weights_of_counts import DRAW, made_of_counts, weights_of_samples
from gradviz.graph.call_log import Call


class RareClassWeighsLess(Rule):
    """The weights of classes rise with their frequency, though they should fall.

    What it finds
    -------------
    Calls of ``binary_cross_entropy_with_logits`` with a ``pos_weight`` that is about the ratio of ones to zeros among
    all their targets, where ones are rare (or where they are frequent). Also ``cross_entropy`` with weights of classes
    that were computed from ``bincount()`` and rise with the counts, as ``counts / counts.sum()`` does, and such weights
    that are looked up with the labels and multiply the losses of the samples, or with which samples are drawn: those of
    a ``WeightedRandomSampler``.

    Why it matters
    --------------
    ``pos_weight`` multiplies the terms of the ones. With negatives by positives both classes weigh the same in the
    loss. The inverse makes the rare class count even less than without weights, and the model answers the frequent one.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(200, 4)
    y = (x[:, :1] > 1).float()
    weight = y.sum() / (1 - y).sum()
    for step in range(3):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x), y, pos_weight=weight)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(200, 4)
    y = (x[:, :1] > 1).float()
    weight = (1 - y).sum() / y.sum()
    for step in range(3):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x), y, pos_weight=weight)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV676"
    name = "rare_class_weighs_less"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[_Weighted]] = defaultdict(list)
        for row, call in calls_named(flow, (_FUNCTION,)):
            if call.live_inputs and flow.has_step_after(row):
                weighted = _weighted(flow, row)
                if weighted is not None:
                    lines[call.call_site].append(weighted)
        for seen in lines.values():
            zeros, ones, weight = sum(one.zeros for one in seen), sum(one.ones for one in seen), seen[-1].weight
            if not zeros or not ones or max(zeros, ones) < _UNEQUAL * min(zeros, ones):
                continue
            if 1 / _ROUGHLY < weight * zeros / ones < _ROUGHLY:
                yield self._finding(case, seen[-1], zeros, ones)
        told = set[int | None]()
        for row, call in enumerate(flow.log.calls):
            made = _weights_of_counts(flow, row, call) if call.call_site not in told else None
            if made is not None:
                told.add(call.call_site)
                yield self._of_counts(flow, row, made)

    def _of_counts(self, flow: Dataflow, row: int, made: int) -> Finding:
        location, used = two_lines(flow, made, row)
        is_draw = plain_name(flow.log.calls[row].function) == DRAW
        return self.finding(
            f"the weights of the classes rise with their counts{at_line(used)}: what is "
            "frequent weighs more, and what is rare even less than without weights",
            symptom="grad_wrong",
            why=f"each sample is {'drawn in proportion to' if is_draw else 'multiplied with'} the weight of its class, "
            "so that a class counts with the square of its frequency",
            fix="turn the ratio around: weight = counts.sum() / (len(counts) * counts)",
            location=location,
            symptom_location=used,
        )

    def _finding(self, case: Case, last: _Weighted, zeros: int, ones: int) -> Finding:
        flow = case.dataflow
        used = location_of_call(flow, last.row)
        made = None if last.made is None else location_of_call(flow, last.made)
        rare, often = ("ones", "zeros") if ones < zeros else ("zeros", "ones")
        return self.finding(
            f"pos_weight is {last.weight:.3g}, and of the targets {ones / (ones + zeros):.0%} are ones: the {rare}, "
            f"which are rare, weigh even less against the {often}",
            symptom="grad_wrong",
            why="pos_weight multiplies the terms of the ones; both classes weigh the same with zeros by ones, and this "
            "is ones by zeros",
            fix="turn the ratio around: pos_weight = number of zeros / number of ones",
            location=made or used,
            symptom_location=used if made not in (None, used) else None,
            evidence={"ones": ones, "zeros": zeros},
        )


class _Weighted(Struct, frozen=True):
    """One call, with what its targets are."""

    row: int
    weight: float
    made: int | None
    """The call that computed the weight."""
    ones: int
    zeros: int


_FUNCTION = "binary_cross_entropy_with_logits"
_UNEQUAL = 2
_ROUGHLY = 1.5
_MAX_STEPS = 6
_COMPUTE = frozenset({"div", "mul", "sub", "reciprocal", "tensor"})


def _weights_of_counts(flow: Dataflow, row: int, call: Call) -> int | None:
    """The call that made weights of classes from their counts, if they rise with them."""
    use = weights_of_samples(flow, row, call)
    values = None if use is None else flow.values_of(use, row)
    if use is None or values is None or values.minimum is None or values.maximum is None or values.minimum < 0:
        return None
    if values.maximum < _UNEQUAL * values.minimum or not flow.has_step_after(row):
        return None
    found = made_of_counts(flow, use, row)
    return found[0] if found is not None and found[1] > 0 else None


def _weighted(flow: Dataflow, row: int) -> _Weighted | None:
    """What a call was weighted with, if its targets are zeros and ones."""
    inputs = {use.place: use for use in flow.log.calls[row].inputs}
    target, weight = inputs.get("1") or inputs.get("target"), inputs.get("pos_weight")
    targets = None if target is None else flow.values_of(target, row)
    weights = None if weight is None else flow.values_of(weight, row)
    if targets is None or weight is None or weights is None or weights.minimum is None:
        return None
    if (targets.minimum, targets.maximum) != (0, 1) or weights.minimum != weights.maximum:
        return None
    makers = flow.makers(weight.tensor, row, _MAX_STEPS)
    made = next((each for each, call in makers if plain_name(call.function) in _COMPUTE), None)
    return _Weighted(row, weights.minimum, made, targets.count - targets.zeros, targets.zeros)
