"""GV211."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.layer_calls import RECURRENT_LAYERS, is_bidirectional, time_axis
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.reads_of_results import reads_for_loss
from gradviz.analysis.rules.bases.sequences.steps_read import steps_read
from gradviz.graph.call_log import Call


class FirstStepOnly(Rule):
    """Of a recurrent layer, the loss only gets the result of the first time step.

    What it finds
    -------------
    ``nn.LSTM``, ``nn.GRU`` or ``nn.RNN`` of one direction, of which a loss reads nothing but ``out[:, 0]`` with
    ``batch_first=True``, or ``out[0]`` without it, or the last entry of ``out.flip(0)``, and no state that is the last
    one. Also where each sample takes the step of a tensor of positions that is 0 for all of them.

    Why it matters
    --------------
    At the first time step the layer has read one element of the sequence. The others have no influence on the loss, and
    the weights of the state get a gradient of exactly zero.

    Example
    -------
    layer, head = torch.nn.LSTM(3, 8, batch_first=True), torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        out, (h, c) = layer(torch.randn(16, 5, 3))
        loss = torch.nn.functional.cross_entropy(head(out[:, 0]), torch.randint(0, 2, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    layer, head = torch.nn.LSTM(3, 8, batch_first=True), torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        out, (h, c) = layer(torch.randn(16, 5, 3))
        loss = torch.nn.functional.cross_entropy(head(out[:, -1]), torch.randint(0, 2, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV211"
    name = "first_step_only"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[int]] = defaultdict(list)
        for row, call in calls_named(flow, RECURRENT_LAYERS):
            if call.live_inputs and flow.has_step_after(row):
                lines[call.call_site].append(row)
        for rows in lines.values():
            reads = [_only_read(case, row, flow.log.calls[row]) for row in (*rows[:_MOST_CALLS], *rows[-_MOST_CALLS:])]
            if reads[-1] is not None and None not in reads:
                yield self._finding(case, rows[-1], reads[-1])

    def _finding(self, case: Case, row: int, read: int) -> Finding:
        flow = case.dataflow
        call = flow.log.calls[row]
        location, layer = two_lines(flow, read, row)
        kind = plain_name(call.function).partition("_")[0].upper()
        time = time_axis(call) or 0
        last = "out[:, -1]" if time else "out[-1]"
        steps = shape_of(flow, call.outputs[0].tensor)[time]
        return self.finding(
            f"of the {steps:,} time steps of the {kind}, the loss only gets the result of the first one",
            symptom="grad_zero",
            why="the first result depends on the first element alone: the others have no influence, and the weights of "
            "the state get a gradient of zero",
            fix=f"take the result of the last time step: {last}, or the last state h_n[-1]",
            location=location,
            symptom_location=layer,
            tensors=names_of(flow, (use.tensor for use in call.inputs if use.is_live_leaf)),
            evidence={"time_steps": steps},
        )


_AXES = 3
_MOST_CALLS = 4


def _only_read(case: Case, row: int, call: Call) -> int | None:
    """The call that takes the first time step, if the loss gets nothing else of a layer's results."""
    flow = case.dataflow
    shape = shape_of(flow, call.outputs[0].tensor) if call.outputs else ()
    time = time_axis(call)
    if len(shape) != _AXES or time is None or is_bidirectional(call) or shape[time] < _AXES:
        return None
    until = case.histories.backward_after(row)
    reads = reads_for_loss(case, row, call)
    if until is None or not reads or any(use.place != "return[0]" for use, _ in reads):
        return None
    found = steps_read(flow, reads[0][0], [user for _, user in reads], time, until)
    return min(each.row for each in found) if found and all(each.steps == {0} for each in found) else None
