"""GV834."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, call_words, location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.graph.call_log import Call


class PositionsRounded(Rule):
    """Positions are counted in a type with so few digits that neighbours become the same number.

    What it finds
    -------------
    Whole numbers from ``arange()`` or ``cumsum()`` that become ``bfloat16`` with more than 256 of them, or ``float16``
    with more than 2,048, and whose multiples go into ``cos()`` or ``sin()``: because they are counted in this type,
    because they are converted to it, or because ``autocast`` multiplies them with frequencies in it.

    Why it matters
    --------------
    ``bfloat16`` has 8 binary digits: of the numbers from 256 to 512 it has every second one, of those from 512 to 1,024
    every fourth. Positions there get the embedding of a neighbour, and what depends on the distance of two of them is
    lost.

    Example
    -------
    layer = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    frequencies = 100.0 ** -(torch.arange(8) / 8)
    t = torch.arange(600, dtype=torch.bfloat16)
    angles = torch.outer(t, frequencies.to(t.dtype))
    position = torch.cat([angles.cos(), angles.sin()], dim=-1).float()
    for step in range(3):
        loss = layer(torch.randn(600, 16) + position).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    layer = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    frequencies = 100.0 ** -(torch.arange(8) / 8)
    t = torch.arange(600, dtype=torch.float32)
    angles = torch.outer(t, frequencies.to(t.dtype))
    position = torch.cat([angles.cos(), angles.sin()], dim=-1).to(torch.bfloat16).float()
    for step in range(3):
        loss = layer(torch.randn(600, 16) + position).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV834"
    name = "positions_rounded"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in enumerate(flow.log.calls):
            if call.call_site in told or not call.outputs or call.kind != "operation":
                continue
            dtype = flow.log.tensors[call.outputs[0].tensor].facts.dtype
            if dtype not in _EXACT or not _rounds_positions(flow, row, call, _EXACT[dtype]):
                continue
            wave = _wave_of(flow, row, call)
            if wave is not None:
                told.add(call.call_site)
                yield self._finding(flow, row, wave, dtype)

    def _finding(self, flow: Dataflow, row: int, wave: int, dtype: str) -> Finding:
        call, exact = flow.log.calls[row], _EXACT[dtype]
        location, later = two_lines(flow, row, wave)
        name, end = plain_name(call.function), at_line(location_of_call(flow, wave))
        how = "counts in it" if name == "arange" else "multiplies in it" if name in _PRODUCTS else "converts them"
        return self.finding(
            f"positions are rounded to {dtype}, which has no odd numbers above {exact:,}: {call_words(call)} {how}, "
            f"and {call_words(flow.log.calls[wave])}{end} gives several positions the same value",
            symptom="value_wrong",
            why="what the model should tell apart by their positions looks the same, and distances are wrong",
            fix="count positions and compute their angles in float32, without autocast, and convert cos and sin "
            "afterwards: torch.arange(n, dtype=torch.float32)",
            location=location,
            symptom_location=later,
            evidence={"dtype": dtype, "exact_to": exact},
        )


_EXACT = {"bfloat16": 256, "float16": 2048}
"""Up to which number a type has all whole numbers."""
_COUNTS = frozenset({"arange", "cumsum"})
_CASTS = frozenset({"to", "bfloat16", "half", "type", "type_as"})
_PRODUCTS = frozenset({"matmul", "einsum", "bmm", "mm", "linear"})
_KEEP = SHAPE_ONLY | _CASTS | {"float", "double", "long", "int", "expand", "repeat", "clone", "detach", "getitem"}
_ON_THE_WAY = _KEEP | _PRODUCTS | {"mul", "div", "outer", "cat", "stack", "repeat_interleave", "add", "sub"}
_WAVES = frozenset({"cos", "sin", "polar"})
_MAX_CALLS = 12


def _rounds_positions(flow: Dataflow, row: int, call: Call, exact: int) -> bool:
    name = plain_name(call.function)
    if name == "arange":
        return _are_too_many(flow, call, exact)
    is_product = name in _PRODUCTS and call.is_autocast
    if not is_product and name not in _CASTS:
        return False
    given = call.inputs if is_product else call.inputs[:1]
    return any(_is_counted(flow, use.tensor, row, exact) for use in given)


def _is_counted(flow: Dataflow, tensor: int, row: int, exact: int) -> bool:
    """Whether a tensor that is not rounded yet holds positions, more than a type can tell apart."""
    if flow.log.tensors[tensor].facts.dtype in _EXACT:
        return False
    for _, call in flow.makers(tensor, row, _MAX_CALLS):
        name = plain_name(call.function)
        if name in _COUNTS:
            return _are_too_many(flow, call, exact)
        is_shifted = name in ("sub", "add") and len(call.inputs) == 1
        if name not in _KEEP and not is_shifted:
            return False
    return False


def _are_too_many(flow: Dataflow, call: Call, exact: int) -> bool:
    """Whether there are whole numbers above the last that is exact, counting in their own steps."""
    values = call.outputs[0].values
    if values is None or values.minimum is None or values.maximum is None or values.minimum < 0:
        return False
    is_row = plain_name(call.function) == "arange"
    step = (values.maximum - values.minimum) / max(1, values.count - 1) if is_row else 1.0
    return step >= _WHOLE and values.maximum > exact * max(1.0, step) + 1


_WHOLE = 0.99


def _wave_of(flow: Dataflow, row: int, call: Call) -> int | None:
    """The cosine or sine that a result goes into, behind nothing but products and what keeps values."""
    waiting, seen = [(use.tensor, row) for use in call.outputs], set[int]()
    while waiting and len(seen) < _MAX_CALLS:
        tensor, after = waiting.pop(0)
        for user in flow.users(tensor, after):
            name = plain_name(flow.log.calls[user].function)
            if name in _WAVES:
                return user
            if name in _ON_THE_WAY and user not in seen and len(seen) < _MAX_CALLS:
                seen.add(user)
                waiting += [(use.tensor, user) for use in flow.log.calls[user].outputs]
    return None
