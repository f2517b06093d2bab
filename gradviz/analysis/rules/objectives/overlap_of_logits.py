"""GV659."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, line_that_gave, location_of_call, operation, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.boxes.areas import product_with_target, summed
from gradviz.analysis.rules.bases.formulas.products import is_square
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.graph.call_log import Call


class OverlapOfLogits(Rule):
    """An overlap of two areas, as of Dice or IoU, is computed of numbers that are no probabilities.

    What it finds
    -------------
    A ratio whose numerator is a sum of ``p * target``, and whose denominator contains the sum of the same ``p``, where
    targets lie between 0 and 1 and ``p`` does not, in every step. If the denominator has the sum of ``p ** 2``, only
    where all of ``p`` is below zero, as logarithms of probabilities are.

    Why it matters
    --------------
    The ratio says which part of two areas they have in common. With numbers below 0 and above 1 it is no part of
    anything: sums of both signs cancel, the denominator can be zero or negative, and the ratio falls or grows without
    end instead of having its best value where both areas are the same.

    Example
    -------
    model = torch.nn.Linear(6, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(3):
        x = torch.randn(8, 6)
        target = (x > 0).float()
        p = model(x)
        loss = 1 - (2 * (p * target).sum() + 1) / (p.sum() + target.sum() + 1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(6, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(3):
        x = torch.randn(8, 6)
        target = (x > 0).float()
        p = torch.sigmoid(model(x))
        loss = 1 - (2 * (p * target).sum() + 1) / (p.sum() + target.sum() + 1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV659"
    name = "overlap_of_logits"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        found: dict[int | None, _Overlap] = {}
        healthy: set[int | None] = set()
        for row, call in enumerate(flow.log.calls):
            sides = _sides_of_ratio(flow, row, call) if len(call.live_inputs) == _BOTH == len(call.inputs) else None
            overlap = _overlap(flow, row, *sides) if sides is not None and flow.has_step_after(row) else None
            if overlap is None:
                continue
            if _is_clearly_outside(flow, overlap):
                found[call.call_site] = overlap
            else:
                healthy.add(call.call_site)
        for site, overlap in found.items():
            if site not in healthy:
                yield self._finding(case, overlap.product, overlap.area)

    def _finding(self, case: Case, product: int, area: int) -> Finding:
        flow = case.dataflow
        values, made = flow.values(area, product), value_maker(flow, area, product)
        bounds = "" if values is None else f" from {values.minimum:.3g} to {values.maximum:.3g}"
        is_logarithm = made is not None and plain_name(made[1].function) in _LOGARITHMS
        by = "" if made is None else f", which {operation(made[1])}() made{at_line(flow.line_of(made[0]))}"
        here = location_of_call(flow, product)
        given = None if made is None else location_of_line(line_that_gave(flow, product, made[0]))
        # Logarithms are for another loss, and a function that does not speak of logits takes probabilities: the mistake
        # is in what it is given.
        is_given = given is not None and is_logarithm
        is_given |= _LOGITS in (case.source_line(given) or "") and _LOGITS not in (case.source_line(here) or "")
        return self.finding(
            f"the overlap with a target of zeros and ones is computed of values{bounds}{by}: they are no probabilities",
            symptom="grad_wrong",
            why="a ratio of overlapping to all area has its best value at the target for values between 0 and 1 only; "
            "with others, sums of both signs cancel, and it grows without end",
            fix="take probabilities first: exp() of their logarithms"
            if is_logarithm
            else "take probabilities first: torch.sigmoid() of the logits, or softmax() over their classes",
            location=given if is_given else here,
            symptom_location=here if is_given else None,
        )


class _Overlap(Struct, frozen=True):
    """What a ratio compares with a target."""

    product: int
    """The call that multiplies it with the target."""
    area: int
    has_squares: bool
    """Whether the denominator has only its squares: then the ratio has its best value where it equals the target."""


_BOTH = 2
_LOGARITHMS = frozenset({"log_softmax", "logsigmoid", "log"})
_LOGITS = "logit"
_SLACK = 0.05


def _sides_of_ratio(flow: Dataflow, row: int, call: Call) -> tuple[int, int] | None:
    """The numerator and the denominator of ``a / b`` and ``a * b.reciprocal()``."""
    one, other = (use.tensor for use in call.inputs)
    if plain_name(call.function) == "div":
        return one, other
    for above, below in ((one, other), (other, one)) if plain_name(call.function) == "mul" else ():
        made = flow.newest_producer(below, row)
        turned = None if made is None else flow.log.calls[made]
        if turned is not None and plain_name(turned.function) == "reciprocal":
            return above, turned.inputs[0].tensor
    return None


def _overlap(flow: Dataflow, row: int, above: int, below: int) -> _Overlap | None:
    """The product ``p * target`` of the numerator of a ratio, and ``p``, if the denominator has a sum of ``p`` or of
    its squares."""
    areas, squared = set[int](), set[int]()
    for tensor, before in summed(flow, below, row):
        areas.add(tensor)
        made = flow.newest_producer(tensor, before)
        if made is not None and is_square(flow.log.calls[made]):
            squared.add(flow.log.calls[made].inputs[0].tensor)
    for tensor, before in summed(flow, above, row):
        found = product_with_target(flow, tensor, before)
        if found is not None and found.area.tensor in areas | squared:
            shape = shape_of(flow, found.area.tensor)
            is_alone = [each for each in areas if shape_of(flow, each) == shape] == [found.area.tensor]
            if is_alone and _is_exponential(flow, found.area.tensor, before):
                return None  # the share of some in a sum of exponentials, as in a softmax
            return _Overlap(found.product, found.area.tensor, found.area.tensor not in areas)
    return None


def _is_exponential(flow: Dataflow, tensor: int, before: int) -> bool:
    """Whether ``exp()`` made a tensor, of which a mask may have left out a part."""
    made = value_maker(flow, tensor, before)
    if made is not None and plain_name(made[1].function) == "mul" and len(made[1].live_inputs) == 1:
        made = value_maker(flow, made[1].live_inputs[0].tensor, made[0])
    return made is not None and plain_name(made[1].function) == "exp"


def _is_clearly_outside(flow: Dataflow, overlap: _Overlap) -> bool:
    values = flow.values(overlap.area, overlap.product)
    if values is None or values.minimum is None or values.maximum is None:
        return False
    if overlap.has_squares:
        return values.minimum < -_SLACK and values.maximum <= 0
    return values.minimum < -_SLACK or values.maximum > 1 + _SLACK
