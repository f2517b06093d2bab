"""GV872."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import RECURRENT_LAYERS, is_batch_first
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call


class SeriesDealtOut(Rule):
    """A series is cut into streams so that the steps of each stream are far apart in the series.

    What it finds
    -------------
    ``series.view(-1, streams)``, whose rows are then taken for time steps: inputs are some rows, targets are the same
    rows one further on, and a recurrent layer or attention runs along them.

    Why it matters
    --------------
    The view lays the series out row by row, so that neighbours in the series stand beside each other, in different
    streams. Each stream gets every n-th value, and the model learns to tell the value n steps ahead.

    Example
    -------
    series = torch.randint(0, 12, (240,))
    streams = series.view(-1, 6)
    embed, rnn, head = torch.nn.Embedding(12, 8), torch.nn.GRU(8, 8), torch.nn.Linear(8, 12)
    optimizer = torch.optim.SGD([*embed.parameters(), *rnn.parameters(), *head.parameters()], lr=0.1)
    for start in range(0, 36, 9):
        x, y = streams[start : start + 9], streams[start + 1 : start + 10]
        hidden, _ = rnn(embed(x))
        loss = torch.nn.functional.cross_entropy(head(hidden).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    series = torch.randint(0, 12, (240,))
    streams = series.view(6, -1).t()
    embed, rnn, head = torch.nn.Embedding(12, 8), torch.nn.GRU(8, 8), torch.nn.Linear(8, 12)
    optimizer = torch.optim.SGD([*embed.parameters(), *rnn.parameters(), *head.parameters()], lr=0.1)
    for start in range(0, 36, 9):
        x, y = streams[start : start + 9], streams[start + 1 : start + 10]
        hidden, _ = rnn(embed(x))
        loss = torch.nn.functional.cross_entropy(head(hidden).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV872"
    name = "series_dealt_out"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told, slices = case.dataflow, set[int | None](), dict[int, list[_Slice]]()
        for row, call in calls_named(flow, {"getitem"}):
            taken = _slice(flow, row, call)
            if taken is not None:
                slices.setdefault(taken.matrix, []).append(taken)
        for matrix, found in slices.items():
            pair = _one_further(flow, found)
            view = None if pair is None else _view_of_series(flow, matrix, pair.row)
            if pair is None or view is None or flow.log.calls[view].call_site in told:
                continue
            if _is_read_as_steps(flow, pair):
                told.add(flow.log.calls[view].call_site)
                yield self._finding(flow, view, pair)

    def _finding(self, flow: Dataflow, view: int, taken: _Slice) -> Finding:
        steps, streams = shape_of(flow, taken.matrix)
        location, used = two_lines(flow, view, taken.row)
        return self.finding(
            f"a series of {steps * streams:,} values is laid out as {steps:,} x {streams:,}, row by row, and the rows "
            f"are taken for time steps: from one step to the next, each of the {streams:,} streams skips "
            f"{streams - 1:,} values",
            symptom="grad_wrong",
            why="neighbours of the series stand beside each other in a row, so that they belong to different streams",
            fix=f"cut the series into stretches first, and make these the columns: series.view({streams}, -1).t()",
            location=location,
            symptom_location=used,
            evidence={"steps": steps, "streams": streams},
        )


class _Slice(Struct, frozen=True):
    """``matrix[start:stop]``."""

    row: int
    matrix: int
    start: int
    length: int


_LAYS_OUT = frozenset({"view", "reshape", "unflatten", "view_as"})
_KEEP = frozenset({"contiguous", "to", "long", "clone", "cuda", "float", "int", "detach", "cpu", "pin_memory"})
_ATTENDS = frozenset({"multi_head_attention_forward"})
_MAX_FOLLOWED = 40
_TWO = 2


def _slice(flow: Dataflow, row: int, call: Call) -> _Slice | None:
    shape = shape_of(flow, call.inputs[0].tensor) if len(call.inputs) == 1 else ()
    if len(shape) != _TWO or shape[1] < _TWO or call.live_inputs or not set(call.scalars) <= {"1.start", "1.stop"}:
        return None
    start, length = call.scalars.get("1.start", 0), shape_of(flow, call.outputs[0].tensor)[:1] if call.outputs else ()
    if not isinstance(start, int) or start < 0 or not call.scalars or len(length) != 1 or length[0] < _TWO:
        return None
    return _Slice(row, call.inputs[0].tensor, start, length[0])


def _one_further(flow: Dataflow, slices: list[_Slice]) -> _Slice | None:
    """The first slice of rows of which the program also takes those one further on, before the next step."""
    taken = {(each.start, each.length, flow.step_before(each.row)) for each in slices}
    return next(
        (
            each
            for each in slices
            if (each.start + 1, each.length, flow.step_before(each.row)) in taken and flow.has_step_after(each.row)
        ),
        None,
    )


def _view_of_series(flow: Dataflow, matrix: int, before: int) -> int | None:
    """The call that laid out a series of one axis as this matrix."""
    view: int | None = None
    for row, call in flow.makers(matrix, before, _MAX_FOLLOWED):
        shape = shape_of(flow, call.inputs[0].tensor) if call.inputs else ()
        name = plain_name(call.function)
        if view is None and name in _KEEP:
            continue
        if len(shape) > 1 or (view is None and name not in _LAYS_OUT):
            return None  # another layout; or a matrix that was flattened before
        view = row if view is None else view
    return view


def _is_read_as_steps(flow: Dataflow, taken: _Slice) -> bool:
    """Whether a recurrent layer or attention runs along its rows, for each column by itself."""
    first = flow.log.calls[taken.row].outputs[0].tensor
    rows = shape_of(flow, first)
    waiting, seen = [(first, taken.row)], 0
    while waiting and seen < _MAX_FOLLOWED:
        tensor, before = waiting.pop(0)
        for row in flow.users(tensor, before):
            call, seen = flow.log.calls[row], seen + 1
            name = plain_name(call.function)
            shape = shape_of(flow, call.outputs[0].tensor) if call.outputs else ()
            if name in RECURRENT_LAYERS:
                return not is_batch_first(call) and shape_of(flow, call.inputs[0].tensor)[:_TWO] == rows
            if name in _ATTENDS:
                return shape_of(flow, call.inputs[0].tensor)[:_TWO] == rows
            if shape[:_TWO] == rows:
                waiting.append((call.outputs[0].tensor, row))
    return False
