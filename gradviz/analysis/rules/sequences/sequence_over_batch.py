"""GV622."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import RECURRENT_LAYERS, is_batch_first
from gradviz.analysis.dataflow.tensor_words import tensor_words
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.parameters.creation_lines import line_of_layer
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.axis_sources import Label, sources_of_axis
from gradviz.analysis.rules.bases.sequences.positions.position_tables import AddedPositions, added_positions
from gradviz.analysis.rules.bases.sequences.sample_axes import CellLoop, cell_loops, draw_along, is_shifted_along
from gradviz.analysis.rules.bases.sequences.times_of_returns import (
    Crossed,
    SummedOverSamples,
    crossed_times,
    sums_over_samples,
)
from gradviz.graph.call_log import Call


class SequenceOverBatch(Rule):
    """A recurrent layer or attention runs along the samples of the batch instead of the time steps.

    What it finds
    -------------
    ``nn.LSTM``, ``nn.GRU``, ``nn.RNN`` and attention without ``batch_first=True``, whose result is used as if its first
    axis were the batch: ``out[:, -1]`` or ``out.mean(1)`` goes into the loss; or whose first axis has samples that were
    taken by drawn numbers. A loop of a recurrent cell along such an axis, or along the first axis of sequences whose
    targets are shifted along the second. A layer along the other axis than that of a loop that adds up the rewards
    that follow, ``total = r[t] + gamma * total``, whose totals its results are compared with; and such a loop itself
    where it goes along the samples, as the steps were stacked along the other axis.

    Why it matters
    --------------
    Without ``batch_first`` the first axis is time. Each sample then depends on the samples that happen to be before it
    in the batch, and the time steps do not meet. Nothing raises, and training learns what a single step tells.

    Example
    -------
    lstm, head = torch.nn.LSTM(3, 8), torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD([*lstm.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        out, _ = lstm(torch.randn(16, 5, 3))
        loss = torch.nn.functional.cross_entropy(head(out[:, -1]), torch.randint(0, 2, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    lstm, head = torch.nn.LSTM(3, 8, batch_first=True), torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD([*lstm.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        out, _ = lstm(torch.randn(16, 5, 3))
        loss = torch.nn.functional.cross_entropy(head(out[:, -1]), torch.randint(0, 2, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV622"
    name = "sequence_over_batch"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        looked, told = set[int | None](), set[int | None]()
        for row, call in enumerate(flow.log.calls):
            if call.call_site in looked or not _runs_along_first_axis(case, call) or not flow.has_step_after(row):
                continue
            looked.add(call.call_site)
            end = _picks_from_second_axis(case, row, call.outputs[0].tensor)
            drawn = None if end is not None else draw_along(flow, call.inputs[0].tensor, 0, row)
            if end is not None:
                told.add(call.call_site)
                yield self._finding(case, row, end)
            elif drawn is not None:
                told.add(call.call_site)
                yield self._of_drawn(case, row, drawn)
            elif (added := _positions_of_other_axis(case, row)) is not None:
                told.add(call.call_site)
                yield self._of_positions(case, row, added)
        for loop in cell_loops(flow):
            yield from self._of_cell(case, loop)
        for crossed in crossed_times(flow):
            if flow.log.calls[crossed.layer].call_site not in told:
                told.add(flow.log.calls[crossed.layer].call_site)
                yield self._of_returns(case, crossed)
        for summed in sums_over_samples(flow):
            yield self._of_sums(case, summed)

    def _of_sums(self, case: Case, summed: SummedOverSamples) -> Finding:
        """A loop that adds up along the samples."""
        flow = case.dataflow
        shape = shape_of(flow, flow.log.calls[summed.stacked].outputs[0].tensor)
        location, made = two_lines(flow, summed.loop, summed.stacked)
        return self.finding(
            f"the loop adds up what follows along axis {summed.axis} of {shape}, but the "
            f"steps lie along axis {1 - summed.axis}: stack(){at_line(made)} put them there",
            symptom="grad_wrong",
            why="each total is the sum over other samples, and what follows a step in time is not in it",
            fix=f"go along axis {1 - summed.axis}, or stack the steps along axis {summed.axis}",
            location=location,
            symptom_location=made,
        )

    def _of_returns(self, case: Case, crossed: Crossed) -> Finding:
        """A layer whose time steps are the samples of the loop that adds up what follows each step."""
        flow = case.dataflow
        row = crossed.layer
        call = flow.log.calls[row]
        used, summed = location_of_call(flow, row), location_of_call(flow, crossed.loop)
        location = location_of_line(line_of_layer(flow, row)) or used
        time = 1 - crossed.axis
        return self.finding(
            f"{_words(call)} took axis {time} of {shape_of(flow, call.inputs[0].tensor)} for time, and the loop"
            f"{at_line(summed)} adds up what follows along axis {crossed.axis}",
            symptom="grad_wrong",
            why="each sample sees the samples before it in the batch, and no other time step",
            fix="make the layer without batch_first=True, or give it (batch, time, features)"
            if time
            else "make the layer with batch_first=True, or give it (time, batch, features)",
            location=location,
            symptom_location=summed if summed != location else None,
        )

    def _of_drawn(self, case: Case, row: int, drawn: int) -> Finding:
        """A layer that takes the axis of samples for that of the time steps."""
        flow = case.dataflow
        call = flow.log.calls[row]
        used, taken = location_of_call(flow, row), location_of_call(flow, drawn)
        shape = shape_of(flow, call.inputs[0].tensor)
        location = location_of_line(line_of_layer(flow, row)) or used
        return self.finding(
            f"{_words(call)} took axis 0 of {shape} for time{at_line(used) if used != location else ''}, and the "
            f"samples that were drawn{at_line(taken)} lie along it",
            symptom="grad_wrong",
            why=_WHY,
            fix="make the layer with batch_first=True, or give it (time, batch, features)",
            location=location,
            symptom_location=taken if taken != location else None,
        )

    def _of_positions(self, case: Case, row: int, added: AddedPositions) -> Finding:
        """A layer that runs along another axis than that of the positions."""
        flow = case.dataflow
        call = flow.log.calls[row]
        used, line = location_of_call(flow, row), location_of_call(flow, added.row)
        shape = shape_of(flow, flow.log.calls[added.row].outputs[0].tensor)
        location = location_of_line(line_of_layer(flow, row)) or used
        where = at_line(used) if used != location else ""
        return self.finding(
            f"{_words(call)} took axis {1 - added.axis} of {shape} for time{where}, but{at_line(line)} each place of "
            f"axis {added.axis} gets its row of {tensor_words(flow, added.table)}, an encoding of positions",
            symptom="grad_wrong",
            why=_WHY,
            fix="make the layer with batch_first=True, or give it (time, batch, features)",
            location=location,
            symptom_location=line if line != location else used,
            evidence={"shape": str(shape)},
        )

    def _of_cell(self, case: Case, loop: CellLoop) -> Iterator[Finding]:
        """A loop that gives a cell one sample after the other."""
        flow, other = case.dataflow, 1 - loop.axis
        if loop.axis > 1 or min(shape_of(flow, loop.sequence)[:2]) < _FEWEST:
            return
        drawn = draw_along(flow, loop.sequence, loop.axis, loop.taken)
        is_told = drawn is not None or is_shifted_along(flow, loop.sequence, other, loop.taken)
        if not is_told or is_shifted_along(flow, loop.sequence, loop.axis, loop.taken):
            return
        location, cell = two_lines(flow, loop.taken, loop.cell)
        shape = shape_of(flow, loop.sequence)
        known = (
            "its samples were drawn" + at_line(location_of_call(flow, drawn))
            if drawn is not None
            else (f"its time steps lie along axis {other}")
        )
        yield self.finding(
            f"the loop goes along axis {loop.axis} of {shape}, so that the cell takes one sample after the other for "
            f"time steps: {known}",
            symptom="grad_wrong",
            why="each sample sees the samples before it in the batch, and no other time step",
            fix=f"go along axis {other}: x.unbind({other}), with a state of as many rows as the batch has samples",
            location=location,
            symptom_location=cell,
            evidence={"shape": str(shape)},
        )

    def _finding(self, case: Case, row: int, end: int) -> Finding:
        flow = case.dataflow
        call = flow.log.calls[row]
        shape = shape_of(flow, call.inputs[0].tensor)
        used, chosen = location_of_call(flow, row), location_of_call(flow, end)
        what = _words(call)
        ending = plain_name(flow.log.calls[end].function).replace("getitem", "indexing")
        location = location_of_line(line_of_layer(flow, row)) or used
        return self.finding(
            f"{what} took axis 0 of {shape} for time{at_line(used) if used != location else ''}, but"
            f"{at_line(chosen)} {ending} uses up axis 1 as time, and "
            "keeps axis 0 as the samples",
            symptom="grad_wrong",
            why=_WHY,
            fix="make the layer with batch_first=True, or give it (time, batch, features)",
            location=location,
            symptom_location=chosen if chosen != location else used,
            evidence={"shape": str(shape)},
        )


_WHY = (
    "without batch_first=True the first axis is time: each sample sees the samples before it in the batch, and no "
    "other time step"
)
_FEWEST = 2


def _positions_of_other_axis(case: Case, row: int) -> AddedPositions | None:
    """The table of positions that was added along the samples of a layer, if no layer of this step runs along these
    positions, as one does that attends to samples and to their columns in turn."""
    flow = case.dataflow
    given = flow.log.calls[row].inputs[0].tensor
    added = added_positions(flow, sources_of_axis(flow, given, 1, row) or (), row)
    until = case.histories.backward_after(row)
    if added is None or until is None or added.axis != 1 or added_positions(flow, _along(flow, row), row) is not None:
        return None
    result = flow.log.calls[added.row].outputs[0].tensor
    layers = [
        each for each in range(flow.step_before(row), until) if _runs_along_first_axis(case, flow.log.calls[each])
    ]
    return None if any((result, added.axis) in _along(flow, each) for each in layers) else added


def _along(flow: Dataflow, row: int) -> frozenset[Label]:
    """The axes that are that along which a layer runs."""
    return sources_of_axis(flow, flow.log.calls[row].inputs[0].tensor, 0, row) or frozenset()


def _words(call: Call) -> str:
    name = plain_name(call.function)
    return "attention" if "attention" in name else f"the {name.partition('_')[0].upper()}"


_KEEPS_AXES = frozenset({
    "dropout", "add", "layer_norm", "linear", "relu", "gelu", "silu", "tanh", "mul", "contiguous", "clone",
    "multi_head_attention_forward", *RECURRENT_LAYERS,
})  # fmt: skip
_REDUCTIONS = frozenset({"mean", "sum", "max", "amax"})
_MAX_FOLLOWED = 80


def _runs_along_first_axis(case: Case, call: Call) -> bool:
    """Whether its input has the axes (time, batch, features) for it, with more than one of each of the first two."""
    name = plain_name(call.function)
    if name not in RECURRENT_LAYERS and name != "multi_head_attention_forward":
        return False
    shape = shape_of(case.dataflow, call.inputs[0].tensor) if call.inputs else ()
    if len(shape) != 3 or min(shape[:2]) < 2 or not call.outputs or not call.outputs[0].requires_grad:
        return False
    return name == "multi_head_attention_forward" or is_batch_first(call) is False


def _picks_from_second_axis(case: Case, row: int, tensor: int) -> int | None:
    """The call that takes one position of axis 1, or sums over it, on the way to a backward."""
    flow = case.dataflow
    waiting, seen = [(tensor, row)], {tensor}
    while waiting and len(seen) < _MAX_FOLLOWED:
        given, after = waiting.pop()
        for user in flow.users(given, after):
            call = flow.log.calls[user]
            if not call.outputs or not call.outputs[0].requires_grad:
                continue
            if call.inputs[0].tensor == given and _uses_up_axis_1(call) and _reaches_backward(case, user):
                return user
            out = call.outputs[0].tensor
            keeps = shape_of(flow, out)[:2] == shape_of(flow, given)[:2] and len(shape_of(flow, out)) == 3
            if plain_name(call.function) in _KEEPS_AXES and keeps and out not in seen:
                seen.add(out)
                waiting.append((out, user))
    return None


def _uses_up_axis_1(call: Call) -> bool:
    name = plain_name(call.function)
    if name == "getitem":
        return type(call.scalars.get("1[1]")) is int and not any(each.startswith("1[0]") for each in call.scalars)
    if name == "select":
        return call.scalars.get("1") == 1
    return name in _REDUCTIONS and axis_of(call, 3) == 1


def _reaches_backward(case: Case, row: int) -> bool:
    flow = case.dataflow
    later = flow.rows_of_kind("backward")
    until = next((each for each in later if each > row), None)
    if until is None:
        return False
    made = flow.log.calls[row].outputs[0].tensor
    return until in flow.descendants(made, row, until + 1, live=True)
