"""GV644."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import RECURRENT_LAYERS, is_bidirectional, time_axis
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.reads_of_results import Read, index_of_read, reads_for_loss
from gradviz.graph.call_log import Call, TensorUse


class OneDirectionOnly(Rule):
    """Of a recurrent layer of two directions, only what one of them read is used.

    What it finds
    -------------
    ``nn.LSTM``, ``nn.GRU`` or ``nn.RNN`` with ``bidirectional=True``, of which the loss only gets the result of the
    last time step (``out[:, -1]``), the result of the first one, one state (``h_n[-1]``), or the half of one direction.

    Why it matters
    --------------
    The backward direction starts at the end: at the last time step it has read one element, and at the first one the
    forward direction has. ``h_n[-1]`` is the state of the backward direction alone. Half of the layer learns next to
    nothing, and nothing raises.

    Example
    -------
    layer = torch.nn.LSTM(3, 8, batch_first=True, bidirectional=True)
    head = torch.nn.Linear(16, 2)
    optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        out, (h, c) = layer(torch.randn(16, 5, 3))
        last = out[:, -1]
        loss = torch.nn.functional.cross_entropy(head(last), torch.randint(0, 2, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    layer = torch.nn.LSTM(3, 8, batch_first=True, bidirectional=True)
    head = torch.nn.Linear(16, 2)
    optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        out, (h, c) = layer(torch.randn(16, 5, 3))
        last = torch.cat([h[-2], h[-1]], dim=1)
        loss = torch.nn.functional.cross_entropy(head(last), torch.randint(0, 2, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV644"
    name = "one_direction_only"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        found: dict[int | None, _Choice] = {}
        healthy: set[int | None] = set()
        for row, call in calls_named(flow, RECURRENT_LAYERS):
            is_layer = is_bidirectional(call)
            if not is_layer or call.call_site in healthy or not flow.has_step_after(row):
                continue
            choice = _only_choice(case, row, call)
            if choice is None:
                healthy.add(call.call_site)
            else:
                found.setdefault(call.call_site, choice)
        for site, choice in found.items():
            if site not in healthy:
                yield self._finding(case, choice)

    def _finding(self, case: Case, choice: _Choice) -> Finding:
        flow = case.dataflow
        call = flow.log.calls[choice.layer]
        location, layer = location_of_call(flow, choice.row), location_of_call(flow, choice.layer)
        kind = plain_name(call.function).partition("_")[0].upper()
        return self.finding(
            f"of the {kind} with two directions, the loss only gets {choice.what}",
            symptom="grad_wrong",
            why=choice.why,
            fix="join the last states of both directions: torch.cat([h[-2], h[-1]], dim=1)",
            location=location,
            symptom_location=layer if layer != location else None,
            tensors=names_of(flow, (use.tensor for use in call.inputs if use.is_live_leaf)),
        )


class _Choice(Struct, frozen=True):
    """The only part of a layer's results that the loss gets."""

    layer: int
    row: int
    what: str
    why: str


_LAST = "the result of the last time step, at which the backward direction has read only the last element"
_FIRST = "the result of the first time step, at which the forward direction has read only the first element"
_STATE = "the last state of the {} direction"


def _only_choice(case: Case, row: int, call: Call) -> _Choice | None:
    """The one place at which the results of a layer are read; None if there are several, or it is not such a one."""
    flow = case.dataflow
    if not call.outputs or len(shape_of(flow, call.outputs[0].tensor)) != _AXES:
        return None
    reads = reads_for_loss(case, row, call)
    if not reads:
        return None
    half = _only_half(flow, row, reads)
    if half is not None:
        return half
    (use, user), *others = reads
    index = index_of_read(flow, user)
    if index is None or any(other.tensor != use.tensor or index_of_read(flow, each) != index for other, each in others):
        return None
    axis, position = index
    if use.place == "return[0]":
        return _of_results(case, row, call, user, axis, position)
    return _of_state(case, row, use, user, axis, position)


_AXES = 3


def _only_half(flow: Dataflow, row: int, reads: list[Read]) -> _Choice | None:
    """What one direction read, if all that is read of a layer's results is its half of them, at whatever steps."""
    found: list[tuple[int, int]] = []
    for use, user in reads:
        if use.place == "return[0]":
            halves = _halves(flow, user)
        else:
            index = index_of_read(flow, user)
            halves = [(index[1] % _BOTH, user)] if index is not None and index[0] == 0 else []
        if not halves:
            return None
        found += halves
    if len({direction for direction, _ in found}) != 1 or all(use.place != "return[0]" for use, _ in reads):
        return None
    direction, read = found[0]
    own, other = ("forward", "backward")[:: -1 if direction else 1]
    return _Choice(row, read, f"the half of the {own} direction", f"what the {other} direction read is thrown away")


def _halves(flow: Dataflow, user: int) -> list[tuple[int, int]]:
    """The directions whose half a call takes from the results, each with the call that uses it; empty for others."""
    call = flow.log.calls[user]
    name, width = plain_name(call.function), shape_of(flow, call.inputs[0].tensor)[-1]
    halves = [use for use in call.outputs if 2 * shape_of(flow, use.tensor)[-1:][0] == width]
    if name in _PARTS - {"getitem", "narrow", "select"} and len(call.outputs) == len(halves) == _BOTH:
        used = [(index, flow.users(use.tensor, user)) for index, use in enumerate(call.outputs)]
        return [(index, rows[0]) for index, rows in used if rows]
    if len(call.outputs) != 1 or not halves or len(call.inputs) != 1:
        return []
    if name == "narrow":
        start: object = call.scalars.get("start", call.scalars.get("2"))
    elif name == "getitem":
        ends = {place.rpartition(".")[2]: value for place, value in call.scalars.items() if "." in place}
        start = ends.get("start", 0) if set(ends) <= {"start", "stop"} else None
    else:
        return []
    return [(int(start != 0), user)] if start in (0, width // _BOTH, -(width // _BOTH)) else []


_BOTH = 2


def _of_results(case: Case, row: int, call: Call, user: int, axis: int, position: int) -> _Choice | None:
    flow = case.dataflow
    shape = shape_of(flow, call.outputs[0].tensor)
    time = time_axis(call) or 0
    if axis != time or shape[axis] < _AXES or position not in (0, shape[axis] - 1):
        return None
    result = flow.log.calls[user].outputs[0].tensor
    if any(plain_name(flow.log.calls[each].function) in _PARTS for each in flow.users(result, user)):
        return None  # the half of one direction
    is_last = position != 0
    why = "half of what the next layer gets depends on one element of the sequence, and not on the others"
    return _Choice(row, user, _LAST if is_last else _FIRST, why)


_PARTS = frozenset({"getitem", "chunk", "split", "narrow", "tensor_split", "select"})


def _of_state(case: Case, row: int, use: TensorUse, user: int, axis: int, position: int) -> _Choice | None:
    if axis != 0:
        return None
    direction, other = ("backward", "forward") if position % 2 else ("forward", "backward")
    why = f"what the {other} direction of that layer read at last is thrown away"
    return _Choice(row, user, f"{_STATE.format(direction)}, element {position} of {_words(case, use)}", why)


def _words(case: Case, use: TensorUse) -> str:
    shape = shape_of(case.dataflow, use.tensor)
    return f"{'h_n' if use.place == 'return[1]' else 'c_n'}, ({', '.join(map(str, shape))})"
