"""GV765."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import REDUCTIONS
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.axis_sources import MEETS, sources_of_axis
from gradviz.analysis.rules.bases.samples.weights_of_samples import are_times_by_samples, matrix_by_samples
from gradviz.graph.call_log import Call, TensorUse


class SamplesMeetTimes(Rule):
    """What belongs to each sample is spread along another axis of the samples, which happens to be as long.

    What it finds
    -------------
    A tensor such as (batch, channels), computed from (batch, time, channels), that is combined element by element with
    a tensor of three or more axes, where broadcasting puts its batch beside the time. Both tensors were computed from
    one tensor, and the same axis of it is at two places. Also one number for each sample that a product takes along the
    last axis of errors (samples, times), where that is an axis of stored data: ``torch.mv(error, weight)``. Tables of
    pairs, whose two axes are of the same things, are left alone.

    Why it matters
    --------------
    Broadcasting aligns the last axes. The mean of sample 3 is subtracted from time step 3 of all samples. With any
    other batch size the line would raise.

    Example
    -------
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(16, 16, 4)
        mean = x.mean(dim=1)
        loss = (model(x - mean) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(16, 16, 4)
        mean = x.mean(dim=1, keepdim=True)
        loss = (model(x - mean) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV765"
    name = "samples_meet_times"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, looked, told = case.dataflow, Counter[int | None](), set[int | None]()
        for row, call in enumerate(flow.log.calls):
            pair = matrix_by_samples(flow, call) if looked[call.call_site] < _MOST_LOOKS else None
            if pair is not None and flow.has_step_after(row):
                looked[call.call_site] += 1
                if call.call_site not in told and are_times_by_samples(flow, row, *pair):
                    told.add(call.call_site)
                    yield self._of_weights(case, row, *pair)
                continue
            if plain_name(call.function) not in MEETS or len(call.inputs) < _BOTH or call.kind != "operation":
                continue
            short, long = _operands(flow, call)
            if (
                not _may_meet(flow, short, long)
                or looked[call.call_site] >= _MOST_LOOKS
                or not flow.has_step_after(row)
            ):
                continue
            looked[call.call_site] += 1
            found = _meeting(flow, row, short, long)
            made = None if found is None else _dropped(flow, short, row)
            site = flow.log.calls[row if made is None else made].call_site
            if found is not None and site not in told:
                told.add(site)
                yield self._finding(case, row, made, found)

    def _of_weights(self, case: Case, row: int, matrix: TensorUse, vector: TensorUse) -> Finding:
        flow = case.dataflow
        call = flow.log.calls[row]
        one, other = shape_of(flow, vector.tensor), shape_of(flow, matrix.tensor)
        return self.finding(
            f"{plain_name(call.function)}() puts the values of each sample, {one}, along the last axis of {other}, "
            "which are no samples",
            symptom="grad_wrong",
            why=f"the samples are the first axis; it does not raise only because both axes happen to be {one[0]} long",
            fix="put them along the first axis: weight @ error, torch.mv(error.T, weight), or weight[:, None] * error",
            location=location_of_call(flow, row),
            evidence={"shapes": f"{one}, {other}"},
        )

    def _finding(self, case: Case, row: int, made: int | None, found: _Meeting) -> Finding:
        flow = case.dataflow
        location, met = two_lines(flow, row if made is None else made, row)
        one, other = shape_of(flow, found.short), shape_of(flow, found.long)
        ones = [*one[: found.axis + 1], *((1,) * (found.meets - found.belongs)), *one[found.axis + 1 :]]
        return self.finding(
            f"axis {found.axis} of {case.tensor_name(found.short)}, {one}, is axis {found.belongs} of {other}, and "
            f"broadcasting puts it along axis {found.meets}{at_line(met)}",
            symptom="grad_wrong",
            why="broadcasting aligns the last axes; it does not raise only because both axes happen to be "
            f"{one[found.axis]} long",
            fix="keep the axis that is reduced: keepdim=True"
            if made is not None and plain_name(flow.log.calls[made].function) in REDUCTIONS
            else f"insert the axis that is missing, so that the shape is {tuple(ones)}: unsqueeze({found.axis + 1})",
            location=location,
            symptom_location=met,
            evidence={"shapes": f"{one}, {other}"},
        )


class _Meeting(Struct, frozen=True):
    """An axis of one tensor that meets another one than its own."""

    short: int
    long: int
    axis: int
    belongs: int
    meets: int


_BOTH = 2
_MOST_LOOKS = 2
_MOST_MAKERS = 8
_KEEP = frozenset({
    "add", "sub", "mul", "div", "sqrt", "rsqrt", "detach", "clamp", "exp", "log", "pow", "square", "neg", "to", "float",
    "reciprocal", "abs", "clone",
})  # fmt: skip


def _operands(flow: Dataflow, call: Call) -> tuple[int, int]:
    """The tensors with the fewest and with the most axes."""
    tensors = sorted((use.tensor for use in call.inputs), key=lambda each: len(shape_of(flow, each)))
    with_axes = [each for each in tensors if shape_of(flow, each)] or tensors
    return with_axes[0], tensors[-1]


def _may_meet(flow: Dataflow, short: int, long: int) -> bool:
    """Whether the shapes allow that an axis is put beside another one of the same length."""
    one, other = shape_of(flow, short), shape_of(flow, long)
    if not 0 < len(one) < len(other) or len(other) <= _BOTH:
        return False
    return any(size > 1 and other[axis - len(one)] == size and size in other[: axis - len(one)]
               for axis, size in enumerate(one))  # fmt: skip


def _meeting(flow: Dataflow, row: int, short: int, long: int) -> _Meeting | None:
    one, other = shape_of(flow, short), shape_of(flow, long)
    for axis, size in enumerate(one):
        meets = axis + len(other) - len(one)
        if size < _BOTH or other[meets] != size:
            continue
        sources, beside = sources_of_axis(flow, short, axis, row), sources_of_axis(flow, long, meets, row)
        if sources is None or beside is None or not sources.isdisjoint(beside):
            continue
        for belongs in (each for each in range(meets) if other[each] == size):
            if not sources.isdisjoint(sources_of_axis(flow, long, belongs, row) or ()):
                return _Meeting(short, long, axis, belongs, meets)
    return None


def _dropped(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The call that left out an axis before the tensor was only changed element by element."""
    rank = len(shape_of(flow, tensor))
    for made, call in flow.makers(tensor, row, _MOST_MAKERS):
        if call.inputs and len(shape_of(flow, call.inputs[0].tensor)) > rank:
            return made
        if plain_name(call.function) not in _KEEP:
            return None
    return None
