"""GV835."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import at_line, calls_named, location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.analysis.rules.bases.sequences.part_of_inputs import slice_of
from gradviz.graph.call_log import Call

Layout = Literal["halves", "neighbours"]
"""Which two numbers are turned together: one of each half, or neighbours."""


class RotaryPairs(Rule):
    """Rotary positions turn two numbers together that have angles of different frequencies.

    What it finds
    -------------
    ``x * cos + rotated * sin`` where ``rotated`` pairs each number of the first half with one of the second, as
    ``cat((-x2, x1))`` does, but ``cos`` and ``sin`` have each frequency twice in a row, as from
    ``repeat_interleave(2)``; and the other way round, neighbours with ``cat((freqs, freqs))``.

    Why it matters
    --------------
    A rotation needs the same angle for both numbers of a pair. With two angles it is none: lengths change with the
    position, and the product of a query and a key does not depend on their distance alone. Weights that were trained
    with the other layout do not fit at all. Nothing raises, as the shapes are the same.

    Example
    -------
    layer = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    angles = torch.outer(torch.arange(6.0), 10.0 ** -(torch.arange(4) / 4))
    angles = angles.repeat_interleave(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    for step in range(3):
        q = layer(torch.randn(2, 6, 8))
        first, second = q.chunk(2, dim=-1)
        q = q * cos + torch.cat((-second, first), dim=-1) * sin
        loss = (q @ q.transpose(1, 2)).softmax(-1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    layer = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    angles = torch.outer(torch.arange(6.0), 10.0 ** -(torch.arange(4) / 4))
    angles = torch.cat((angles, angles), dim=-1)
    cos, sin = angles.cos(), angles.sin()
    for step in range(3):
        q = layer(torch.randn(2, 6, 8))
        first, second = q.chunk(2, dim=-1)
        q = q * cos + torch.cat((-second, first), dim=-1) * sin
        loss = (q @ q.transpose(1, 2)).softmax(-1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV835"
    name = "rotary_pairs"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, ("cat", "stack", "concat", "concatenate", "hstack")):
            if call.call_site in told:
                continue
            turned = _turned(flow, row, call)
            table = None if turned is None else _table_of(flow, row, call)
            if turned is not None and table is not None and table[1] != turned:
                told.add(call.call_site)
                yield self._finding(flow, row, turned, table[0])

    def _finding(self, flow: Dataflow, row: int, turned: Layout, table: int) -> Finding:
        location, other = two_lines(flow, table, row)
        pairs, is_halves = at_line(location_of_call(flow, row)), turned == "halves"
        twice = "each frequency twice in a row" if is_halves else "all frequencies twice, one after another"
        what = "the two halves" if is_halves else "neighbours"
        return self.finding(
            f"cos and sin have {twice}, but what they multiply pairs {what}{pairs}: the two numbers of a pair are "
            "turned by different angles",
            symptom="value_wrong",
            why="that is no rotation: queries and keys do not depend on the distance of their positions alone",
            fix="lay out the angles as the pairs: torch.cat((angles, angles), dim=-1)"
            if is_halves
            else "lay out the angles as the pairs: angles.repeat_interleave(2, dim=-1)",
            location=location,
            symptom_location=other,
        )


_BOTH = 2
_KEEP = SHAPE_ONLY | {
    "to", "getitem", "sin", "cos", "expand", "float", "type_as", "half", "bfloat16", "clone", "detach", "expand_as",
    "index_select", "embedding",
}  # fmt: skip
_MAX_CALLS = 16


# -- what is turned ----------------------------------------------------------------------------------------------------


def _turned(flow: Dataflow, row: int, call: Call) -> Layout | None:
    """How ``-second`` and ``first``, two parts of one tensor, are put together."""
    if len(call.inputs) != _BOTH or not call.outputs:
        return None
    shape = shape_of(flow, call.inputs[0].tensor)
    made = flow.newest_producer(call.inputs[0].tensor, row)
    negative = None if made is None else flow.log.calls[made]
    if made is None or negative is None or not shape or shape != shape_of(flow, call.inputs[1].tensor):
        return None
    is_negative = plain_name(negative.function) == "neg" or (
        plain_name(negative.function) == "mul" and -1 in negative.scalars.values()
    )
    if not is_negative or len(negative.inputs) != _BOTH - 1:
        return None
    second = _part(flow, negative.inputs[0].tensor, made)
    first = _part(flow, call.inputs[1].tensor, row)
    if second is None or first is None or first[0] != second[0] or first[1] != 0:
        return None
    is_stacked, size = plain_name(call.function) == "stack", shape[-1]
    axis = call.scalars.get("dim", call.scalars.get("1", 0))
    axis = -1 if axis == len(shape) - (not is_stacked) else axis
    if axis != -1 or size == 1:
        return None
    if is_stacked:
        return "neighbours" if second[1] == 1 else None
    return "halves" if second[1] == size else None


def _part(flow: Dataflow, tensor: int, row: int) -> tuple[int, int] | None:
    """Of which tensor another one is a part of the last axis, and where it begins; for every second number, and one of
    two columns, that is 0 or 1."""
    made = flow.newest_producer(tensor, row)
    call = None if made is None else flow.log.calls[made]
    if made is None or call is None or not call.inputs:
        return None
    given, source = shape_of(flow, call.inputs[0].tensor), call.inputs[0].tensor
    if plain_name(call.function) == "getitem":
        return _indexed(call, given, shape_of(flow, tensor))
    part = slice_of(flow, call, plain_name(call.function), tensor)
    return None if part is None or part.axis != len(given) - 1 else (source, part.start)


def _indexed(call: Call, given: Shape, made: Shape) -> tuple[int, int] | None:
    """The same for ``x[..., 4:]``, ``x[..., ::2]`` and ``x[..., 0]``, which name no axis."""
    numbers = {place: value for place, value in call.scalars.items() if type(value) is int}
    if len(call.inputs) != 1 or not given:
        return None
    if made == given[:-1] and len(numbers) == 1:
        return call.inputs[0].tensor, next(iter(numbers.values())) % given[-1]
    starts = [value for place, value in numbers.items() if place.endswith(".start")]
    if made[:-1] != given[:-1] or len(made) != len(given) or len(starts) > 1:
        return None
    return call.inputs[0].tensor, starts[0] % given[-1] if starts else 0


# -- what it is multiplied by ------------------------------------------------------------------------------------------


def _table_of(flow: Dataflow, row: int, call: Call) -> tuple[int, Layout] | None:
    """The call that wrote each frequency twice, and how, for the table that multiplies what was put together."""
    tensor, after = call.outputs[0].tensor, row
    for _ in range(_MAX_CALLS):
        users = [user for user in flow.users(tensor, after) if flow.log.calls[user].outputs]
        if not users:
            return None
        after, user = users[0], flow.log.calls[users[0]]
        if plain_name(user.function) == "mul" and len(user.inputs) == _BOTH:
            other = next(use for use in user.inputs if use.tensor != tensor)
            return _layout(flow, other.tensor, after)
        if plain_name(user.function) not in SHAPE_ONLY:
            return None
        tensor = user.outputs[0].tensor
    return None


def _layout(flow: Dataflow, tensor: int, row: int) -> tuple[int, Layout] | None:
    is_wave = False
    for made, call in flow.makers(tensor, row, _MAX_CALLS):
        name = plain_name(call.function)
        layout = _layout_of_copies(flow, call, name)
        if layout is not None:
            # Frequencies may also be written twice behind the sine.
            return (made, layout) if is_wave or _is_of_waves(flow, call, made) else None
        is_wave |= name in ("sin", "cos")
        if name not in _KEEP and not (name == "mul" and len(call.inputs) == 1):
            return None
    return None


def _is_of_waves(flow: Dataflow, call: Call, row: int) -> bool:
    makers = flow.makers(call.inputs[0].tensor, row, _MAX_CALLS)
    return any(plain_name(each.function) in ("sin", "cos") for _, each in makers)


def _layout_of_copies(flow: Dataflow, call: Call, name: str) -> Layout | None:
    """How a call writes what it gets twice along the last axis."""
    if not call.inputs or not call.outputs:
        return None
    given, made = shape_of(flow, call.inputs[0].tensor), shape_of(flow, call.outputs[0].tensor)
    is_twice = bool(given) and made[:-1] == given[:-1] and made[-1] == _BOTH * given[-1] and given[-1] > 1
    if name == "repeat_interleave":
        return "neighbours" if is_twice else None
    if name in ("repeat", "tile"):
        return "halves" if is_twice else None
    same = {use.tensor for use in call.inputs}
    if len(call.inputs) != _BOTH or len(same) != 1:
        return None
    if name == "stack":
        return "neighbours" if made[-1] == _BOTH and made[:-1] == given and given[-1] > 1 else None
    return "halves" if name in ("cat", "concat", "concatenate", "hstack") and is_twice else None
