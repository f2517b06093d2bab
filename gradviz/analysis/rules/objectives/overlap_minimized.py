"""GV673."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.boxes.areas import Overlap, overlap_with_target, root
from gradviz.analysis.rules.bases.losses.fits import fits_in
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.analysis.rules.bases.losses.objectives import Objective, is_plain_descent, objectives
from gradviz.analysis.rules.bases.losses.signed_terms import Term, is_number_first
from gradviz.graph.call_log import Call, LoggedTensor


class OverlapMinimized(Rule):
    """The overlap of a result and its target is the loss: training makes it smaller.

    What it finds
    -------------
    A loss that grows with a ratio of overlapping to all area (Dice, IoU, Tversky, F1) of a result and a target of zeros
    and ones, and that compares the result with no other target.

    Why it matters
    --------------
    The ratio is 1 where both areas are the same, and 0 where they have nothing in common. A loss is minimized, so the
    model learns to mark everything but the target. The loss goes down as it should.

    Example
    -------
    model = torch.nn.Linear(6, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(8, 6)
        target = (x > 0).float()
        p = torch.sigmoid(model(x))
        dice = (2 * (p * target).sum() + 1) / (p.sum() + target.sum() + 1)
        loss = dice.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(6, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(8, 6)
        target = (x > 0).float()
        p = torch.sigmoid(model(x))
        dice = (2 * (p * target).sum() + 1) / (p.sum() + target.sum() + 1)
        loss = 1 - dice.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV673"
    name = "overlap_minimized"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        told = set[Location | None]()
        for objective in objectives(case):
            for term in objective.terms:
                overlap = overlap_with_target(case.dataflow, term.row) if _grows_with(case.dataflow, term) else None
                if overlap is None or not _is_of_target(case, objective, overlap):
                    continue
                location = _line_to_edit(case, term)
                if location not in told and is_plain_descent(case, objective, term):
                    told.add(location)
                    yield self._finding(case, term, location)

    def _finding(self, case: Case, term: Term, location: Location | None) -> Finding:
        ratio = location_of_call(case.dataflow, term.row)
        return self.finding(
            "the loss grows with the overlap of the result and its target: training makes the overlap smaller",
            symptom="grad_wrong",
            why="the ratio is 1 where both areas are the same, and a loss is minimized",
            fix="minimize what is missing, 1 - overlap, or the negative overlap",
            location=location,
            symptom_location=ratio if ratio != location else None,
        )


_BOTH = 2
_MONOTONE = frozenset({"exp", "log", "clamp", "clip", "clamp_min", "where"})
"""They grow with what they take."""
_TURNED = frozenset({"logical_not", "invert", "bitwise_not"})
_ON_PURPOSE = re.compile(r"forbid|avoid|obstacle|background|other|neg|prev|exclu|repel|repuls|disjoint|distract", re.I)
_MEASURES = re.compile(r"dice|iou|overlap|coef|score|jaccard|f1|fbeta|tversky|similarity|metric", re.I)
_SEVERAL = frozenset({"add", "sub", "stack", "cat", "min", "minimum"})


def _grows_with(flow: Dataflow, term: Term) -> bool:
    """Whether a loss certainly grows with a term."""
    above = [flow.log.calls[row] for row in term.path[:-1]]
    is_known = term.is_sure or any(plain_name(call.function) in _MONOTONE for call in above)
    is_alone = all(len(call.live_inputs) < _BOTH or plain_name(call.function) in _SEVERAL for call in above)
    return term.sign > 0 and is_known and is_alone and not term.has_both_signs


def _is_of_target(case: Case, objective: Objective, overlap: Overlap) -> bool:
    """Whether an overlap is that with the only target, and neither of both areas is what another one leaves."""
    flow = case.dataflow
    for use in (overlap.area, overlap.target):
        made = value_maker(flow, use.tensor, overlap.product)
        if made is not None and _is_what_is_left(made[1]):
            return False
    if any(tensor.role == "parameter" for tensor in _made_from(flow, overlap)):
        return False
    words = [*flow.log.tensors[overlap.target.tensor].names, _text(case, overlap.product)]
    return not any(_ON_PURPOSE.search(each) for each in words) and not _has_other_target(flow, objective, overlap)


def _is_what_is_left(call: Call) -> bool:
    """Whether a call returns the rest of an area: ``1 - p``, ``~mask``, ``labels == 0``."""
    name = plain_name(call.function)
    is_none = name == "eq" and call.scalars.get("1") == 0
    return name in _TURNED or is_none or (name == "sub" and is_number_first(call))


def _made_from(flow: Dataflow, overlap: Overlap) -> Iterator[LoggedTensor]:
    """What a target was computed from since the last step."""
    above = flow.ancestors(overlap.target.tensor, overlap.product, since=flow.step_before(overlap.product))
    return (flow.log.tensors[use.tensor] for row in above for use in flow.log.calls[row].inputs)


def _has_other_target(flow: Dataflow, objective: Objective, overlap: Overlap) -> bool:
    """Whether another term of the loss compares something with another target."""
    data = _sources(flow, root(flow, overlap.target, overlap.product), overlap.product)
    fits = (fit for fit in fits_in(flow, objective.terms) if not fit.is_worsened)
    return any(data.isdisjoint(_sources(flow, each, fit.term.row)) for fit in fits for each in fit.targets)


def _sources(flow: Dataflow, tensor: int, row: int) -> set[int]:
    """A tensor, and all from which it was computed."""
    above = flow.ancestors(tensor, row)
    return {tensor, *(use.tensor for each in above for use in flow.log.calls[each].inputs)}


def _line_to_edit(case: Case, term: Term) -> Location | None:
    """The line that takes the overlap for a loss: behind functions that only measure it."""
    row = term.path[-2] if len(term.path) >= _BOTH else term.row
    lines = list(callers(case.dataflow, row))
    while len(lines) > 1 and _is_measure(lines[0].function):
        lines.pop(0)
    return location_of_line(lines[0]) if lines else None


def _is_measure(function: str) -> bool:
    name = function.rpartition(".")[2]
    return _MEASURES.search(name) is not None and "loss" not in name.lower()


def _text(case: Case, row: int) -> str:
    return (case.source_line(location_of_call(case.dataflow, row)) or "").partition("#")[0]
