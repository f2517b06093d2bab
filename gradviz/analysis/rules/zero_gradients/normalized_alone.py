"""GV212."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import (
    call_words,
    callers,
    calls_named,
    line_in_function_of,
    line_that_gave,
    location_of_call,
)
from gradviz.analysis.dataflow.tensor_words import axes_words, names_of
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.parameters.creation_lines import line_of_layer
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.draws.equal_members import equal_members
from gradviz.analysis.rules.bases.boxes.boxes_beyond import leaves_without_overlap
from gradviz.analysis.rules.bases.centred_alone import (
    Centred,
    CentredEqual,
    centred_alone,
    centred_equal,
    layers_of_one,
)
from gradviz.analysis.rules.bases.formulas.shares_of_groups import Shares, shares_of_one
from gradviz.graph.call_log import Call
from gradviz.graph.model import CallSite


class NormalizedAlone(Rule):
    """A normalization runs along an axis with a single element.

    What it finds
    -------------
    ``normalize()`` along an axis of length 1, of something that is trained: its axis is 1 where none is named, which is
    the channel of ``(batch, 1, features)``. Values minus their mean along axes of length 1, such as rewards of shape
    ``(samples, 1)`` that are whitened along the last axis, and channels that were pooled to one number. Values of
    data minus their mean along an axis on which they are always the same, such as a reward that each token repeats.
    `LayerNorm` of one feature, and `GroupNorm` with a group for every value. Values that are divided by the sums of
    their groups, as a softmax by an index does, where each group has one value: the index numbers the values.

    Why it matters
    --------------
    A single number divided by its own size is 1 or -1, whatever it was: no gradient goes back, and all that is left of
    the features is their signs. A single number minus its own mean is 0, and so is all that it is multiplied by.

    Example
    -------
    model = torch.nn.Linear(4, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(16, 1, 4)
        z = torch.nn.functional.normalize(model(x))
        loss = (z - x.repeat(1, 1, 2)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(16, 1, 4)
        z = torch.nn.functional.normalize(model(x), dim=-1)
        loss = (z - x.repeat(1, 1, 2)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV212"
    name = "normalized_alone"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, ("normalize",)):
            if not call.live_inputs or call.call_site in told:
                continue
            shape = shape_of(flow, call.inputs[0].tensor)
            axis = _axis(call)
            if -len(shape) <= axis < len(shape) and shape[axis] == 1 and max(shape, default=1) > 1:
                if not flow.has_step_after(row):
                    continue
                told.add(call.call_site)
                yield self._of_normalize(case, row, axis % len(shape))
        layers = list(layers_of_one(flow))
        weights = {_weight(flow.log.calls[row]) for row, _ in layers}
        for row, axes in layers:
            yield self._of_layer(case, row, axes, weights)
        lines = set[Location | None]()
        means = (self._of_mean(case, each) for each in centred_alone(flow))
        equal = (self._of_equal(case, each) for each in centred_equal(flow) if not _is_of_equal_members(case, each))
        shares = (self._of_shares(case, each[-1], len(each)) for each in shares_of_one(flow))
        for found in chain(means, equal, shares):
            if found.location not in lines:
                lines.add(found.location)
                yield found

    def _of_equal(self, case: Case, equal: CentredEqual) -> Finding:
        flow = case.dataflow
        shape = shape_of(flow, flow.log.calls[equal.difference].inputs[0].tensor)
        mean = location_of_call(flow, equal.difference)
        maker = equal.maker
        given = None if maker is None else location_of_line(line_that_gave(flow, equal.difference, maker))
        location, other = (mean, None) if given is None else (given, mean)
        return self.finding(
            f"the mean runs along axis {equal.axis} of {shape}, on which all values are the same at every call: each "
            "value minus that mean is 0, but for rounding, and so is what is multiplied by it",
            symptom="grad_zero",
            why="values that are the same are their own mean",
            fix="take the mean along the axis of the values that differ",
            location=location,
            symptom_location=other,
            evidence={"shape": str(shape)},
        )

    def _of_shares(self, case: Case, shares: Shares, times: int) -> Finding:
        flow = case.dataflow
        divided = location_of_call(flow, shares.division)
        location = _line_of_index(case, shares) or location_of_call(flow, shares.total)
        call = flow.log.calls[shares.division]
        leaves, _ = case.histories.live_leaves((call.inputs[0].tensor,), shares.division)
        dead = [
            leaf
            for each in case.zero_gradients
            if each.call is not None and flow.log.calls[each.call].call_site == call.call_site
            for leaf in each.leaves
        ]
        return self.finding(
            f"each value is divided by the sum of its group, and all {shares.count:,} groups of this index have one "
            f"value: the quotients are 1 all {times:,} times, whatever the values are, and send no gradient back",
            symptom="grad_zero",
            why="the index gives each row a number of its own; x / x.sum() of one value is 1",
            fix="pass the index of the groups that are meant, by which the weighted rows are added up",
            location=location,
            symptom_location=divided if divided != location else None,
            tensors=tuple(dead) or names_of(flow, sorted(leaves & case.histories.trained)),
            evidence={"groups": shares.count, "times": times},
        )

    def _of_normalize(self, case: Case, row: int, axis: int) -> Finding:
        flow = case.dataflow
        taken = flow.log.calls[row].inputs[0].tensor
        leaves, _ = case.histories.live_leaves((taken,), row)
        shape = shape_of(flow, taken)
        return self.finding(
            f"normalize() runs along axis {axis} of {shape}, which has one element: every value becomes 1 or -1, and "
            "sends no gradient back",
            symptom="grad_zero",
            why="a number divided by its own size does not depend on it, but for its sign",
            fix="name the axis of the features: normalize(x, dim=-1)",
            location=location_of_call(flow, row),
            tensors=names_of(flow, sorted(leaves & case.histories.trained)),
            evidence={"shape": str(shape)},
        )

    def _of_layer(self, case: Case, row: int, axes: str, alone: set[int | None]) -> Finding:
        flow = case.dataflow
        call = flow.log.calls[row]
        taken = call.inputs[0].tensor
        leaves, _ = case.histories.live_leaves((taken,), row)
        shape = shape_of(flow, taken)
        has_bias = any(use.place == "bias" for use in call.inputs)
        used = location_of_call(flow, row)
        made = _line_that_made(case, row, alone) or used
        return self.finding(
            f"{call_words(call)} normalizes each value of {shape} alone, over {axes}: every value becomes "
            f"{'the bias' if has_bias else '0'}, whatever it was, and nothing depends on the input",
            symptom="grad_zero",
            why="a single number minus its own mean is 0",
            fix="leave the normalization out where there is a single value, or normalize over values that belong "
            "together",
            location=made,
            symptom_location=used if used != made else None,
            tensors=(*names_of(flow, sorted(leaves & case.histories.trained)), *leaves_without_overlap(case, row)),
            evidence={"shape": str(shape)},
        )

    def _of_mean(self, case: Case, centred: Centred) -> Finding:
        flow = case.dataflow
        shape = shape_of(flow, flow.log.calls[centred.mean].inputs[0].tensor)
        maker = centred.maker
        mean = location_of_call(flow, centred.mean)
        given = None if maker is None else location_of_line(line_that_gave(flow, centred.mean, maker))
        # A module that normalizes is right elsewhere: it is used at the wrong place.
        is_trained = flow.log.calls[centred.mean].inputs[0].requires_grad
        location, other = (given, mean) if given is not None and is_trained else (mean, given)
        one = len(centred.axes) == 1
        return self.finding(
            f"the mean runs along {axes_words(centred.axes)} of {shape}, {'which has' if one else 'which have'} one "
            "element: each value minus that mean is 0, and so is what is multiplied by it",
            symptom="grad_zero",
            why="a single number is its own mean",
            fix="leave the normalization out where each value is alone"
            if is_trained
            else "take the mean along the axis of the values that belong together; give it that shape first: "
            "x.view(groups, -1)",
            location=location,
            symptom_location=other if other != location else None,
            tensors=leaves_without_overlap(case, centred.difference),
            evidence={"shape": str(shape)},
        )


def _is_of_equal_members(case: Case, equal: CentredEqual) -> bool:
    """Whether the values are those of a group whose members drew the same numbers: that is the cause, and no axis."""
    flow = case.dataflow
    sites = {flow.log.calls[each.joined].call_site for each in equal_members(case)}
    value, row = flow.log.calls[equal.difference].inputs[0].tensor, equal.difference
    above = flow.ancestors(value, row, flow.step_before(row)) if sites else ()
    return any(flow.log.calls[each].call_site in sites for each in above)


def _line_of_index(case: Case, shares: Shares) -> Location | None:
    """The line that handed an index to the function that adds up by it; None if that function took it itself.

    Where the same call of a module took the index apart, it is the line in that function: what it calls is right.
    """
    flow = case.dataflow
    made = flow.newest_producer(shares.index, shares.total)
    if made is None:
        return None
    if flow.log.calls[made].scope == flow.log.calls[shares.division].scope is not None:
        return location_of_line(line_in_function_of(flow, shares.total, made))
    return location_of_line(line_that_gave(flow, shares.division, made))


def _weight(call: Call) -> int | None:
    return next((use.tensor for use in call.inputs if use.place == "weight"), None)


def _line_that_made(case: Case, row: int, alone: set[int | None]) -> Location | None:
    """The line that made the module of torch that a normalization belongs to; None if the program called it itself.

    Of a function that makes others as well, which are right, the line that called it for this one.

    Args:
        alone: the weights of all layers that normalize single values.
    """
    flow, histories = case.dataflow, case.histories
    call = flow.log.calls[row]
    if call.scope is None or flow.log.scopes[call.scope].class_name not in ("LayerNorm", "GroupNorm"):
        return None
    weight = _weight(call)
    made = None if weight is None else histories.made_by(weight)
    if made is None:
        return location_of_line(line_of_layer(flow, row))
    own, others = list(callers(flow, made)), _made_at_line_of(case, made, alone)
    levels = zip(*(map(location_of_line, chain) for chain in (own, *others)), strict=False)
    return next(
        (line for line, *rest in levels if any(other != line for other in rest)), location_of_line(flow.line_of(made))
    )


def _made_at_line_of(case: Case, made: int, without: set[int | None]) -> list[list[CallSite]]:
    """For each other weight that the same line made: the lines from which it was made, innermost first."""
    flow, histories = case.dataflow, case.histories
    weights = (number for number in flow.log.parameters if number not in without)
    rows = {row for number in weights if (row := histories.made_by(number)) is not None and row != made}
    here = location_of_line(flow.line_of(made))
    return [list(callers(flow, row)) for row in sorted(rows) if location_of_line(flow.line_of(row)) == here]


def _axis(call: Call) -> int:
    """Of `torch.nn.functional.normalize`: the second axis where none is named."""
    named = call.scalars.get("dim", call.scalars.get("2", 1))
    return named if type(named) is int else 1
