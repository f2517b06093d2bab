"""GV959."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import (
    at_line,
    call_words,
    calls_named,
    line_outside_modules,
    location_of_call,
    plain_name,
)
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import DENSE_LAYERS, RECURRENT_LAYERS
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.filled_values import CODES, filled_and_averaged
from gradviz.analysis.rules.bases.formulas.means import WITH_MEANS
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.graph.call_log import Call, ValueFacts


class MissingAsNumbers(Rule):
    """A number that stands for missing values, as -999, counts as a value: in a mean, or as an input of a layer.

    What it finds
    -------------
    Data whose smallest or largest value was written where values are missing, such as -1, -999, 9999, or 0 below
    positive values, and a mean of them that is taken off the same data before a network gets them. Also data whose
    smallest value is exactly -999, -9999 or -99999, and layers that get such a number as it is. Means of what a mask
    chooses, values that are filled behind the standardization, and values that are clipped are left alone.

    Why it matters
    --------------
    One in twenty values of -999 moves the mean by 50 and makes the deviation hundreds. What is known of a column is
    then squeezed into a small part of its range, where all rows look alike, and the network learns which values are
    missing instead of what the others say.

    Example
    -------
    x = 20 + 4 * torch.randn(80, 3)
    y = (x[:, 0] > 20).float()
    x[torch.rand(80, 3) < 0.1] = -999.0
    x = (x - x.mean(0)) / x.std(0)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    x = 20 + 4 * torch.randn(80, 3)
    y = (x[:, 0] > 20).float()
    x[torch.rand(80, 3) < 0.1] = -999.0
    known = x != -999
    mean = (x * known).sum(0) / known.sum(0)
    std = (((x - mean) * known).square().sum(0) / known.sum(0)).sqrt()
    x = torch.where(known, (x - mean) / std, 0.0)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV959"
    name = "missing_as_numbers"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[Location | None]()
        if not case.histories.reached_by:
            return
        for filled in [*_filled(flow), *_coded(flow)]:
            mean = _mean_of_all(case, filled)
            location = None if mean is None else location_of_call(flow, mean)
            if mean is not None and location not in told:
                told.add(location)
                written = location_of_call(flow, filled.row) if filled.row >= 0 else None
                yield self._of_mean(f"{call_words(flow.log.calls[mean])}", filled.number, location, written)
        for file, tree in own_files(case):
            for each in filled_and_averaged(tree, _taken_out(flow, file)):
                location, written = Location(file, each.averaged), Location(file, each.filled)
                if location not in told:
                    told.add(location)
                    yield self._of_mean("the mean of the data", each.number, location, written)
        for row, number in _taken_by_layers(case) if not told else ():
            yield self._of_layer(flow, row, number)
            return

    def _of_mean(self, what: str, number: float, location: Location | None, written: Location | None) -> Finding:
        return self.finding(
            f"{what} also counts {number:g}, which stands for missing values{at_line(written)}",
            symptom="grad_wrong",
            why="the mean and the deviation are mostly those of this number, so the known values are squeezed together",
            fix="compute both of the known values alone, and fill the missing ones with 0 behind the standardization",
            location=location,
            symptom_location=written if written != location else None,
        )

    def _of_layer(self, flow: Dataflow, row: int, number: float) -> Finding:
        return self.finding(
            f"{call_words(flow.log.calls[row])} gets {number:g} among its inputs, which stands for missing values",
            symptom="grad_wrong",
            why="the number is far from all values that were measured, and its gradient outweighs theirs",
            fix="standardize the known values, fill the missing ones with 0, and tell them by a column of their own",
            location=location_of_line(line_outside_modules(flow, row)),
        )


class _Filled(Struct, frozen=True):
    """Data in which a number stands for missing values."""

    tensor: int
    row: int
    """The call that wrote the number; -1 if the data had it."""
    number: float


_PASS = frozenset({
    "getitem", "stack", "cat", "float", "to", "clone", "unsqueeze", "reshape", "view", "t", "T", "index_select",
    "column_stack", "hstack", "vstack", "split", "double", "narrow", "setitem",
})  # fmt: skip
_LEAST = frozenset({"min", "amin", "aminmax"})
_OBVIOUS = frozenset({-999, -9_999, -99_999, -999_999})
_CLIPS = frozenset({"lt", "le", "gt", "ge"})
_MAX_FOLLOWED = 60
_BOTH = 2


def _filled(flow: Dataflow) -> Iterator[_Filled]:
    """Data of which a mask chooses values that get one number, which is then the smallest or the largest."""
    for row, call in calls_named(flow, ("setitem", "masked_fill", "where", "nan_to_num")):
        number = _number(flow, row, call)
        use = call.outputs[0] if call.outputs else None
        if number is None or use is None or use.requires_grad or use.values is None:
            continue
        is_extreme = number in (use.values.minimum, use.values.maximum) and use.values.minimum != use.values.maximum
        if is_extreme and not _is_of_two(use.values) and (number in CODES or _is_of_nan(flow, row, call)):
            yield _Filled(use.tensor, row, number)


def _is_of_two(values: ValueFacts) -> bool:
    """Whether values may be 0 and 1, or a part of them."""
    return values.minimum in (0, -1) and values.maximum in (0, 1)


def _number(flow: Dataflow, row: int, call: Call) -> float | None:
    """The number that a call writes where a mask says so, or where it finds NaN."""
    name, flags = plain_name(call.function), call.scalars
    if name == "nan_to_num":
        given = flow.values_of(call.inputs[0], row) if call.inputs else None
        number = flags.get("nan", flags.get("1", 0.0)) if given is not None and given.nans else None
    else:
        masks = [use for use in call.inputs if flow.log.tensors[use.tensor].facts.dtype == "bool"]
        if len(masks) != 1 or _is_clip(flow, row, call, masks[0].tensor):
            return None
        number = flags.get("1") if name == "where" else flags.get("2", flags.get("value"))
    return float(number) if isinstance(number, int | float) else None


def _is_clip(flow: Dataflow, row: int, call: Call, mask: int) -> bool:
    """Whether a mask compares the data themselves with a number that they should not exceed."""
    made = next(flow.makers(mask, row, 1), None)
    own = {use.tensor for use in call.inputs}
    return made is not None and plain_name(made[1].function) in _CLIPS and made[1].inputs[0].tensor in own


def _is_of_nan(flow: Dataflow, row: int, call: Call) -> bool:
    if plain_name(call.function) == "nan_to_num":
        return True
    masks = [use.tensor for use in call.inputs if flow.log.tensors[use.tensor].facts.dtype == "bool"]
    made = next(flow.makers(masks[0], row, 1), None) if masks else None
    return made is not None and plain_name(made[1].function) == "isnan"


def _taken_out(flow: Dataflow, file: str) -> dict[int, float]:
    """The lines that take data with such a smallest value out of torch, with that value."""
    found = dict[int, float]()
    for row, call in calls_named(flow, ("numpy",)):
        values, line = flow.values_of(call.inputs[0], row) if call.inputs else None, location_of_call(flow, row)
        if values is not None and values.minimum in _OBVIOUS and line is not None and line.file == file:
            found[line.line] = float(values.minimum)
    return found


def _coded(flow: Dataflow) -> Iterator[_Filled]:
    """Data that are averaged and whose smallest value is one that nobody measures."""
    for row, call in calls_named(flow, WITH_MEANS | _LEAST):
        values = flow.values_of(call.inputs[0], row) if call.inputs else None
        if values is not None and values.minimum in _OBVIOUS and not call.inputs[0].requires_grad:
            yield _Filled(call.inputs[0].tensor, -1, float(values.minimum))


def _mean_of_all(case: Case, filled: _Filled) -> int | None:
    """The mean of such data, by rows, that is taken off them before a network gets them."""
    flow, calls = case.dataflow, case.dataflow.log.calls
    end = flow.next_of_kind("backward", filled.row)
    data, means = _with_means(flow, filled, end)
    for tensor, mean in means.items():
        for row in flow.users(tensor):
            call = calls[row]
            if plain_name(call.function) != "sub" or call.inputs[0].tensor not in data or len(call.inputs) < _BOTH:
                continue
            below = flow.descendants(call.outputs[0].tensor, row, end) if call.inputs[1].tensor == tensor else ()
            if any(use.tensor in case.histories.reached for each in below for use in calls[each].inputs):
                return mean
    return None


def _with_means(flow: Dataflow, filled: _Filled, end: int) -> tuple[set[int], dict[int, int]]:
    """The tensors that have such data before the call `end`, and those that have their mean, each with the call that
    computed it."""
    data, means, waiting = {filled.tensor}, dict[int, int](), [(filled.tensor, filled.row)]
    followed = 0
    while waiting and followed < _MAX_FOLLOWED:
        tensor, after = waiting.pop()
        for row in flow.users(tensor, after):
            call, name = flow.log.calls[row], plain_name(flow.log.calls[row].function)
            followed += 1
            if row >= end or _is_masked(flow, call):
                continue
            is_least = name in _LEAST and filled.number in _OBVIOUS | {-99}
            if (name in WITH_MEANS or is_least) and tensor in data and call.inputs[0].tensor == tensor:
                means.update((use.tensor, row) for use in call.outputs)
                waiting += [(use.tensor, row) for use in call.outputs]
            elif name in _PASS:
                new = [use.tensor for use in call.outputs]
                if tensor in means:
                    means.update((each, means[tensor]) for each in new if each not in data)
                else:
                    data.update(new)
                waiting += [(each, row) for each in new if each != tensor]
    return data, means


def _is_masked(flow: Dataflow, call: Call) -> bool:
    """Whether a mask chooses some of the values."""
    name = plain_name(call.function)
    return name in ("getitem", "masked_select") and any(
        flow.log.tensors[use.tensor].facts.dtype == "bool" for use in call.inputs[1:]
    )


def _taken_by_layers(case: Case) -> Iterator[tuple[int, float]]:
    """Layers that get data whose smallest value is one that nobody measures."""
    flow = case.dataflow
    for row, call in calls_named(flow, DENSE_LAYERS | RECURRENT_LAYERS):
        values = flow.values_of(call.inputs[0], row) if call.inputs and not call.inputs[0].requires_grad else None
        if values is not None and values.minimum in _OBVIOUS and call.live_inputs:
            yield row, float(values.minimum)
