"""GV780."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import (
    callers,
    location_of_call,
    plain_name,
    two_lines,
)
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.products import is_squared
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.analysis.rules.bases.losses.scales.log_scales import LogScaleSum, log_scale_sums
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, number_of
from gradviz.graph.call_log import Call, TensorUse


class LogDeterminantLost(Rule):
    """The log-determinants of a flow do not count as much as the log-probability that they belong to.

    What it finds
    -------------
    A loss with the log-determinants of some layers, ``s.sum(1)`` for a layer that multiplies with ``exp(s)``, where
    those of other layers are computed on the same line and do not reach the loss, though their results do:
    ``total = log_det`` in a loop, instead of ``total = total + log_det``. Also a log-probability that is averaged over
    the variables of each sample, to which log-determinants are added that are summed over the same variables.

    Why it matters
    --------------
    The log-probability of a sample is that of what the flow makes of it, plus the logarithms of all scales on the way.
    What does not count there is free: layers without a log-determinant shrink everything to a point. Where the
    log-determinant counts more, the flow spreads what it should bring to unit variance.

    Example
    -------
    first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.01)
    for step in range(3):
        z = torch.randn(16, 4)
        for layer in (first, second):
            a, b = z.flip(1).chunk(2, dim=1)
            s = torch.tanh(layer(a))
            z = torch.cat([a, b * s.exp()], dim=1)
            log_det = s.sum(1)
        loss = -(-0.5 * z.square().sum(1) + log_det).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.01)
    for step in range(3):
        z, log_det = torch.randn(16, 4), 0
        for layer in (first, second):
            a, b = z.flip(1).chunk(2, dim=1)
            s = torch.tanh(layer(a))
            z = torch.cat([a, b * s.exp()], dim=1)
            log_det = log_det + s.sum(1)
        loss = -(-0.5 * z.square().sum(1) + log_det).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV780"
    name = "log_determinant_lost"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[Location | None]()
        sums = list(log_scale_sums(flow))
        for backward in case.histories.last_trained_backward_of_each_line if sums else ():
            since = flow.step_before(backward)
            for root in flow.log.calls[backward].roots:
                above = set(flow.ancestors(root.tensor, backward, since=since))
                near = [each for each in sums if since <= each.row < backward and not above.isdisjoint(each.applied)]
                findings = [*self._lost(case, near, above), *self._averaged(flow, near, above)]
                for finding in findings:
                    if finding.location not in told:
                        told.add(finding.location)
                        yield finding

    def _lost(self, case: Case, sums: list[LogScaleSum], above: set[int]) -> Iterator[Finding]:
        """One finding for each line on which some of the log-determinants are lost."""
        flow = case.dataflow
        lines: dict[int | None, list[LogScaleSum]] = defaultdict(list)
        for each in sums:
            lines[flow.log.calls[each.row].call_site].append(each)
        for found in lines.values():
            counted = [each.row for each in found if each.row in above]
            behind = {row for each in counted[-1:] for row in _behind(flow, each)}
            # What passes through the same layers a second time may be for another purpose.
            lost = [each.row for each in found if each.row not in above and not behind.isdisjoint(each.applied)]
            if lost:
                layers = len(lost) + len(counted)
                computed = location_of_call(flow, lost[-1])
                location = _line_that_loses(case, lost[-1])
                yield self.finding(
                    f"the log-determinants of {len(lost)} of {layers} layers do not reach the loss, though it is "
                    "computed from what these layers return",
                    symptom="grad_wrong",
                    why="what does not count in the log-probability is free: these layers shrink everything",
                    fix="add them up over the layers: total = total + log_det",
                    location=location,
                    symptom_location=computed if computed != location else None,
                    evidence={"lost": len(lost), "layers": layers},
                )

    def _averaged(self, flow: Dataflow, sums: list[LogScaleSum], above: set[int]) -> Iterator[Finding]:
        """One finding for each mean over the variables to which a sum over the variables is added."""
        rows = {each.row: each.variables for each in sums if each.row in above}
        for row in sorted(above) if rows else ():
            met = _sum_that_meets(flow, row, rows) if plain_name(flow.log.calls[row].function) == "mean" else None
            if met is not None:
                location, summed = two_lines(flow, row, met)
                yield self.finding(
                    f"the log-probability is averaged over the {rows[met]:,} variables of each sample, and the "
                    "log-determinant that is added to it is summed over them",
                    symptom="grad_wrong",
                    why=f"the log-determinant counts {rows[met]:,} times as much as it should: scales become too large",
                    fix="sum both over the variables, and average over the samples only",
                    location=location,
                    symptom_location=summed,
                    evidence={"variables": rows[met]},
                )


_SIZES = 2
_BOTH = 2
_MAX_MAKERS = 14
_MAX_USERS = 8
_MAX_WIDE = 60
_LARGEST = 1.0
_TERMS = SHAPE_ONLY | {"add", "sub", "neg", "mul", "div"}
_TERMS_OR_MEAN = _TERMS | {"mean"}
_LINES_LATER = 4


def _behind(flow: Dataflow, row: int) -> tuple[int, ...]:
    """The calls from which a log-determinant was computed."""
    return flow.ancestors(flow.log.calls[row].outputs[0].tensor, row + 1, since=flow.step_before(row))


def _line_that_loses(case: Case, row: int) -> Location | None:
    """The line that assigns what a layer returned to another name; else the line that gets it."""
    lines = [location_of_line(line) for line in callers(case.dataflow, row)]
    found = next((below for line in lines if (below := _overwriting_below(case, line)) is not None), None)
    is_returned = (case.source_line(lines[0] if lines else None) or "").lstrip().startswith("return")
    return found or next(iter(lines[1:] if is_returned else lines), None)


def _overwriting_below(case: Case, location: Location | None) -> Location | None:
    """The line just below, in the same loop, that assigns one of the names of a line to another name."""
    text = case.source_line(location)
    if location is None or text is None:
        return None
    names = re.findall(r"[A-Za-z_]\w*", text.partition("=")[0])
    indent = len(text) - len(text.lstrip())
    for number in range(location.line + 1, location.line + _LINES_LATER):
        below = case.source_line(Location(location.file, number)) or ""
        if below.strip() and len(below) - len(below.lstrip()) < indent:
            return None
        assigned = re.fullmatch(r"\s*[\w.]+\s*=\s*(\w+)\s*(#.*)?", below)
        if assigned is not None and assigned.group(1) in names:
            return Location(location.file, number)
    return None


def _sum_that_meets(flow: Dataflow, row: int, rows: dict[int, int]) -> int | None:
    """The log-determinant that is added to a mean of squares over the variables of each sample, or over everything."""
    call = flow.log.calls[row]
    if not call.live_inputs or not call.outputs:
        return None
    shape, made = (shape_of(flow, use.tensor) for use in (call.inputs[0], call.outputs[0]))
    is_of_variables = len(shape) == _SIZES and shape[1] > 1 and made in ((), shape[:1])
    if not is_of_variables or not _has_squares(flow, call.inputs[0].tensor, row):
        return None
    tensor, before = call.outputs[0].tensor, row
    for _ in range(_MAX_USERS):
        users = flow.users(tensor, before)
        if len(users) != 1:
            return None
        before = users[0]
        used = flow.log.calls[before]
        name = plain_name(used.function)
        others = [use for use in used.inputs if use.tensor != tensor]
        if name not in _TERMS or not used.outputs or _is_enlarged(used, name):
            return None
        for other in others if name in ("add", "sub") else ():
            if _has_another_sum(flow, other, before, rows):
                return None  # That is the log-probability, and the mean is a penalty.
            met = next((each for each in _terms(flow, other, before, made) if rows.get(each) == shape[1]), None)
            if met is not None:
                return met
        tensor = used.outputs[0].tensor
    return None


def _has_squares(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a tensor is made of squares, other than of the difference between two results."""
    for each, call in flow.makers_above(tensor, row, _MAX_MAKERS, _of_formula):
        made = flow.newest_producer(call.inputs[0].tensor, each) if is_squared(call) else None
        squared = None if made is None else flow.log.calls[made]
        if squared is not None and (plain_name(squared.function) != "sub" or len(squared.live_inputs) < _BOTH):
            return True
    return False


def _of_formula(call: Call) -> tuple[TensorUse, ...]:
    return call.live_inputs if plain_name(call.function) in _TERMS else ()


def _is_enlarged(call: Call, name: str) -> bool:
    """Whether a product with a number may make up for the mean."""
    number = abs(number_of(call, *OPERAND, missing=1.0))
    is_product = name in ("mul", "div")
    return is_product and (len(call.inputs) > 1 or (number > _LARGEST if name == "mul" else number < _LARGEST))


def _has_another_sum(flow: Dataflow, use: TensorUse, row: int, rows: dict[int, int]) -> bool:
    """Whether a term of what a tensor is made of is a sum, and no log-determinant."""
    makers = flow.makers_above(
        use.tensor, row, _MAX_WIDE, lambda call: call.live_inputs if plain_name(call.function) in _TERMS_OR_MEAN else ()
    )
    return any(plain_name(call.function) == "sum" and each not in rows for each, call in makers)


def _terms(flow: Dataflow, use: TensorUse, row: int, made: tuple[int, ...]) -> Iterator[int]:
    """The calls whose results a tensor is a sum of, as they are; for one number, means over the samples of these."""

    def onward(call: Call) -> tuple[TensorUse, ...]:
        name = plain_name(call.function)
        is_mean = name == "mean" and not made and len(shape_of(flow, call.inputs[0].tensor)) == 1
        number = abs(number_of(call, *OPERAND, missing=1.0))
        is_whole = name not in ("mul", "div") or (len(call.inputs) == 1 and number == 1)
        return call.live_inputs if (name in _TERMS and is_whole) or is_mean else ()

    yield from (each for each, _ in flow.makers_above(use.tensor, row, _MAX_WIDE, onward))
