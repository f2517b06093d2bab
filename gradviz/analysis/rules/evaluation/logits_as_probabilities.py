"""GV852."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import DIFFERENCES, at_line, calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.network_outputs import Layer, layer_behind
from gradviz.graph.call_log import Call


class LogitsAsProbabilities(Rule):
    """Logits are compared with 0.5, or rounded, as if they were probabilities.

    What it finds
    -------------
    Outputs of a layer that ``binary_cross_entropy_with_logits()`` gets in training, and that are compared with 0.5 or
    rounded to 0 and 1 elsewhere, without a ``sigmoid()`` in between. A layer that also learns numbers is left alone.

    Why it matters
    --------------
    A probability of 0.5 is a logit of 0. A logit of 0.5 is a probability of 0.62: whatever lies between the two counts
    as negative, so accuracy and recall are too low, and the best epoch is another one. Rounded logits are mostly no
    classes at all.

    Example
    -------
    x = torch.randn(40, 4)
    y = (x.sum(1, keepdim=True) > 0).float()
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            print(((model(x) > 0.5) == y).float().mean())

    Instead
    -------
    x = torch.randn(40, 4)
    y = (x.sum(1, keepdim=True) > 0).float()
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            print(((model(x) > 0) == y).float().mean())
    """

    code = "GV852"
    name = "logits_as_probabilities"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        losses = dict[Layer, int]()
        for row, call in calls_named(flow, _TAKE_LOGITS):
            layer = layer_behind(flow, call.inputs[0].tensor, row) if call.live_inputs else None
            if layer is not None and flow.has_step_after(row):
                losses.setdefault(layer, row)
        for layer in _learned_otherwise(flow):
            losses.pop(layer, None)
        told = _cut_elsewhere(flow)
        for row, call in calls_named(flow, _CUTS) if losses else ():
            if call.call_site in told or not _is_cut_at_half(call):
                continue
            layer = layer_behind(flow, call.inputs[0].tensor, row)
            if layer in losses:
                told.add(call.call_site)
                yield self._finding(case, row, losses[layer])

    def _finding(self, case: Case, row: int, loss: int) -> Finding:
        flow = case.dataflow
        call = flow.log.calls[row]
        location, trained = two_lines(flow, row, loss)
        how = "rounded" if plain_name(call.function) == "round" else "compared with 0.5"
        return self.finding(
            f"outputs that {plain_name(flow.log.calls[loss].function)}(){at_line(trained)} takes for logits are {how} "
            "as if they were probabilities",
            symptom="none",
            why="a probability of 0.5 is a logit of 0; a logit of 0.5 is a probability of 0.62",
            fix="compare the logits with 0: logits > 0",
            location=location,
            symptom_location=trained,
        )


_TAKE_LOGITS = frozenset({"binary_cross_entropy_with_logits", "multilabel_soft_margin_loss"})
_CUTS = frozenset({"gt", "ge", "lt", "le", "round"})
_HALF = 0.5


def _learned_otherwise(flow: Dataflow) -> set[Layer]:
    """Layers some of whose outputs are no logits: they learn to be near to numbers."""
    found = set[Layer]()
    for row, call in calls_named(flow, DIFFERENCES):
        live = call.live_inputs
        layer = layer_behind(flow, live[0].tensor, row) if len(live) == 1 < len(call.inputs) else None
        if layer is not None and flow.has_step_after(row):
            found.add(layer)
    return found


def _cut_elsewhere(flow: Dataflow) -> set[int | None]:
    """The lines that also compare with numbers which no probability has: they try several cuts of logits."""
    return {call.call_site for _, call in calls_named(flow, _CUTS) if any(not 0 <= each <= 1 for each in _cuts(call))}


def _cuts(call: Call) -> list[float]:
    given = [call.scalars.get(place) for place in ("1", "other")]
    return [each for each in given if isinstance(each, int | float)]


def _is_cut_at_half(call: Call) -> bool:
    if len(call.inputs) != 1 or any(use.requires_grad for use in call.outputs):
        return False
    return not call.scalars if plain_name(call.function) == "round" else _cuts(call) == [_HALF]
