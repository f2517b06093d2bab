"""GV862."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import call_words, calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import meets_parameters
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call, ValueFacts


class IntegersWrapAround(Rule):
    """Data of one or two bytes are subtracted, added or converted, and the results do not fit into their type.

    What it finds
    -------------
    Sums, differences and products of ``uint8``, ``int8`` and ``int16``, and conversions to them, whose true results lie
    outside of the type, as the smallest and the largest number before and behind them show, where a network gets them.
    Also the difference of two images of ``uint8`` that reaches the largest numbers, as small negative ones become them.
    Numbers that are made whole again (``packed.long() & 0xFFFF``), and those that number a class or a row of a table
    for each value of their type, are left alone.

    Why it matters
    --------------
    Nothing raises: 3 - 5 is 254 in ``uint8``, and 200 + 100 is 44. What was a little darker seems to be the brightest
    of all.

    Example
    -------
    frames = torch.randint(90, 110, (32, 2, 16), dtype=torch.uint8)
    model = torch.nn.Linear(16, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        change = frames[:, 1] - frames[:, 0]
        loss = torch.nn.functional.cross_entropy(model(change.float() / 255), torch.randint(0, 2, (32,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    frames = torch.randint(90, 110, (32, 2, 16), dtype=torch.uint8)
    model = torch.nn.Linear(16, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        change = frames[:, 1].float() - frames[:, 0].float()
        loss = torch.nn.functional.cross_entropy(model(change / 255), torch.randint(0, 2, (32,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV862"
    name = "integers_wrap_around"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, _ARITHMETIC | _CASTS):
            if call.call_site in told or call.inside is not None or len(call.outputs) != 1 or not call.inputs:
                continue
            wrap = _wrap(flow, row, call)
            if wrap is not None and meets_parameters(flow, row) and not _is_meant(flow, row, wrap):
                told.add(call.call_site)
                yield self._finding(case, row, call, wrap)

    def _finding(self, case: Case, row: int, call: Call, wrap: _Wrap) -> Finding:
        low, high = _RANGES[wrap.dtype]
        name, is_cast = call_words(call), plain_name(call.function) in _CASTS
        return self.finding(
            f"{name} gives {wrap.dtype}, which goes from {low:,} to {high:,}, and "
            + (
                f"gets numbers from {wrap.low:,.6g} to {wrap.high:,.6g}: they wrap around"
                if is_cast
                else f"its results lie between {wrap.low:,.6g} and {wrap.high:,.6g}: those outside wrap around"
            ),
            symptom="grad_wrong",
            why="integers that do not fit begin again at the other end: 3 - 5 is 254 in uint8, and 200 + 100 is 44",
            fix="keep the numbers in a type that has them, such as int64, or clamp them before"
            if is_cast
            else "convert before that, and not behind it: a.float() - b.float()",
            location=location_of_call(case.dataflow, row),
            evidence={"low": wrap.low, "high": wrap.high},
        )


class _Wrap(Struct, frozen=True):
    """The range of results that do not fit."""

    dtype: str
    low: float
    high: float


_RANGES = {"uint8": (0, 255), "int8": (-128, 127), "int16": (-32768, 32767), "uint16": (0, 65535)}
_ARITHMETIC = frozenset({"add", "sub", "rsub", "mul", "neg"})
_CASTS = frozenset({"to", "type", "byte", "char", "short"})
_NEARLY_ALL = 250
_MIN_PIXELS = 16
_READS = frozenset({
    "getitem", "view", "reshape", "permute", "transpose", "unsqueeze", "squeeze", "select", "narrow", "roll",
    "unbind", "stack", "cat", "contiguous", "clone", "flip", "index_select", "to", "type", "byte", "from_numpy",
    "tensor", "as_tensor", "chunk", "split",
})  # fmt: skip
_MAX_MAKERS = 30


def _wrap(flow: Dataflow, row: int, call: Call) -> _Wrap | None:
    made = call.outputs[0]
    dtype = _dtype(flow, made.tensor)
    if dtype not in _RANGES or made.values is None or any(use.requires_grad for use in call.inputs):
        return None
    given = [flow.values_of(use, row) for use in call.inputs]
    if any(each is None or each.minimum is None or each.maximum is None or not each.is_finite for each in given):
        return None
    known = [
        (each.minimum, each.maximum) for each in given if each and each.minimum is not None and each.maximum is not None
    ]
    if plain_name(call.function) in _CASTS:
        low, high = known[0]
        is_of_same = _dtype(flow, call.inputs[0].tensor) == dtype
        return None if is_of_same else _outside(dtype, low, high)
    if len(known) == 1:
        low, high = sorted(_with_number(call, each) for each in known[0])
        return _outside(dtype, low, high)
    return _of_two(flow, row, call, known, made.values) if len(known) == 2 and "alpha" not in call.scalars else None


def _outside(dtype: str, low: float, high: float) -> _Wrap | None:
    """The least and the largest of the results, which some element has, if one of them does not fit. What lies less
    than 1 beside the range is cut off to it."""
    least, most = _RANGES[dtype]
    return _Wrap(dtype, low, high) if low <= least - 1 or high >= most + 1 else None


def _with_number(call: Call, value: float) -> float:
    """What a call makes of one number of a tensor, and a Python number if it takes one."""
    name, number = plain_name(call.function), call.scalars.get("1", call.scalars.get("other"))
    if name == "neg":
        return -value
    if not isinstance(number, int) or isinstance(number, bool) or "alpha" in call.scalars:
        return 0
    if "rsub" in call.function:
        return number - value
    return {"add": value + number, "sub": value - number, "mul": value * number}.get(name, 0)


def _of_two(flow: Dataflow, row: int, call: Call, given: list[tuple[float, float]], made: ValueFacts) -> _Wrap | None:
    """Two tensors. Their true sums and differences lie in a range, and what is outside of it has wrapped around."""
    dtype = _dtype(flow, call.outputs[0].tensor)
    (low, high), (other_low, other_high) = given
    if any(_dtype(flow, use.tensor) not in (dtype, "bool") for use in call.inputs):
        return None
    if made.minimum is None or made.maximum is None:
        return None
    name = plain_name(call.function)
    if name == "add":
        least, most = low + other_low, high + other_high
    elif name == "sub" and "rsub" not in call.function:
        least, most = low - other_high, high - other_low
    else:
        return None
    wrap = _outside(dtype, least, most)
    if wrap is None or made.minimum < least or made.maximum > most:
        return wrap
    is_of_bytes = dtype == "uint8" and name == "sub" and made.maximum >= _NEARLY_ALL and made.count >= _MIN_PIXELS
    return wrap if is_of_bytes and _are_read(flow, row, call) else None


def _are_read(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether both are data as they were read: neither is computed so that it is larger than the other, as the
    surroundings of an edge are."""
    if shape_of(flow, call.inputs[0].tensor) != shape_of(flow, call.inputs[1].tensor):
        return False
    above = [
        plain_name(each.function)
        for use in call.inputs
        for _, each in flow.makers_above(
            use.tensor, row, _MAX_MAKERS, lambda call: call.inputs if _is_read(call) else ()
        )
    ]
    return all(name in _READS or name in _MAKE_DATA for name in above)


_MAKE_DATA = frozenset({"randint", "frombuffer", "load", "zeros", "empty", "full", "setitem", "copy"})


def _is_read(call: Call) -> bool:
    return plain_name(call.function) in _READS


def _is_meant(flow: Dataflow, row: int, wrap: _Wrap) -> bool:
    """Whether what follows counts on it: it takes the remainder, or there is a class for each number of the type."""
    low, high = _RANGES[wrap.dtype]
    below = flow.descendants(flow.log.calls[row].outputs[0].tensor, row, flow.next_of_kind("step", row))
    made = {use.tensor for each in (row, *below) for use in flow.log.calls[each].outputs}
    for call in (flow.log.calls[each] for each in below):
        name = plain_name(call.function)
        if name in _MAKE_WHOLE and call.outputs and _dtype(flow, call.outputs[0].tensor) != "bool":
            return True
        shapes = [shape_of(flow, use.tensor) for use in call.inputs]
        if name == "embedding" and call.inputs[0].tensor in made and shapes[-1][0] == high - low + 1:
            return True
        if name == "cross_entropy" and call.inputs[1].tensor in made and shapes[0][1:2] == (high - low + 1,):
            return True
    return False


def _dtype(flow: Dataflow, tensor: int) -> str:
    return flow.log.tensors[tensor].facts.dtype


_MAKE_WHOLE = frozenset({"bitwise_and", "and", "__and__", "remainder", "fmod"})
