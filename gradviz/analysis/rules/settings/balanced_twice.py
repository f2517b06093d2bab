"""GV983."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, calls_named, location_of_call
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import argument
from gradviz.analysis.rules.bases.samples.weights_of_counts import DRAW, made_of_counts, weights_of_samples
from gradviz.graph.call_log import Call, TensorUse


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
        drawn = ((row, _counted(flow, row, call)) for row, call in calls_named(flow, (DRAW,)))
        draw, labels = next(((row, found) for row, found in drawn if found is not None), (-1, None))
        for row, call in calls_named(flow, _LOSSES) if labels is not None else ():
            if call.call_site in told or not call.live_inputs or not flow.has_step_after(row):
                continue
            told.add(call.call_site)
            positive = argument(call, _POS_WEIGHT, "pos_weight")
            if positive is not None and _is_large(flow, positive, row):
                yield self._finding(flow, row, positive, draw)
            elif positive is None and _counted(flow, row, call) == labels:
                yield self._finding(flow, row, weights_of_samples(flow, row, call), draw)

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
_POS_WEIGHT = 6


def _counted(flow: Dataflow, row: int, call: Call) -> int | None:
    """The labels from whose counts a call got weights, if these fall with the counts, and differ much."""
    use = weights_of_samples(flow, row, call)
    values = None if use is None else flow.values_of(use, row)
    if use is None or values is None or values.minimum is None or values.maximum is None or values.minimum <= 0:
        return None
    found = made_of_counts(flow, use, row)
    if values.maximum < _UNEQUAL * values.minimum or found is None or found[1] > 0:
        return None
    return flow.memory_of(flow.log.calls[found[2]].inputs[0].tensor)


def _is_large(flow: Dataflow, use: TensorUse, row: int) -> bool:
    values = flow.values_of(use, row)
    return values is not None and values.minimum is not None and values.minimum >= _UNEQUAL
