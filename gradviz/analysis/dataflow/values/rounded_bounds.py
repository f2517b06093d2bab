"""Numbers that a dtype rounds to the very number that they were to keep values away from: 1 - 1e-8 is 1 in float32.

>>> rounded(1 - 1e-8, "float32"), rounded(1e-8, "float16"), rounded(0.999, "bfloat16")
(1.0, 0.0, 1.0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isfinite, nan
from struct import pack, unpack
from typing import NamedTuple

from gradviz.analysis.dataflow.call_words import call_words, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call


class RoundedBound(NamedTuple):
    """A number of a call which the dtype of its tensor rounds to -1, 0 or 1; that makes a later operation singular."""

    row: int
    bound: float
    """As the program wrote it."""
    became: float
    dtype: str
    role: str
    """``the bound``, ``the factor`` or ``the number``."""
    operation: str

    @property
    def in_words(self) -> str:
        """``the bound 0.99999999 of clamp() is 1 in float32``."""
        return f"{self.role} {self.bound:.12g} of {self.operation} is {self.became:g} in {self.dtype}"

    @property
    def reason(self) -> str:
        """Why it is."""
        if self.became == 0:
            return f"{self.dtype} has no number so near to 0, apart from 0 itself"
        return f"the numbers of {self.dtype} near 1 are about {_GAPS[self.dtype]:.0e} apart, so this one is rounded"

    @property
    def remedy(self) -> str:
        """What to write."""
        eps = (_ABOVE_ZERO if self.became == 0 else _NEAR_ONE)[self.dtype]
        return f"take a larger distance, which {self.dtype} can hold: eps={eps}"


_GAPS = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24}
"""By dtype: the distance between 1 and the next number below it."""
_NEAR_ONE = {"float16": "1e-3", "bfloat16": "1e-2", "float32": "1e-6"}
_ABOVE_ZERO = {"float16": "1e-4", "bfloat16": "1e-12", "float32": "1e-12"}
_MAX_CALLS = 12
_CLAMPS = frozenset({"clamp", "clip", "clamp_min", "clamp_max", "hardtanh"})
_KEEPS = frozenset({
    "view", "reshape", "flatten", "unsqueeze", "squeeze", "transpose", "permute", "t", "T", "mT", "contiguous",
    "clone", "expand", "getitem", "unbind", "chunk", "split", "to", "float", "detach", "requires_grad",
})  # fmt: skip
"""What hands values on as they are."""
_ENDS: dict[str, Callable[[float], bool]] = {
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt", "reciprocal", "pow", "div"), lambda x: x == 0),
    **dict.fromkeys(("atanh", "arctanh", "acos", "asin", "arcsin", "erfinv"), lambda x: abs(x) == 1),
    "acosh": lambda x: x == 1,
    "logit": lambda x: x in (0, 1),
    "log1p": lambda x: x == -1,
}
"""By the plain names of operations: whether they have no finite value or slope at a number."""


def rounded_bound(flow: Dataflow, row: int) -> RoundedBound | None:
    """The number above a call without which the call were not singular at what it got."""
    call = flow.log.calls[row]
    name = plain_name(call.function)
    is_singular = _ENDS.get(name)
    if is_singular is None or not call.inputs or call.kind != "operation":
        return None
    tensor, before = call.inputs[-1 if name == "div" else 0].tensor, row
    steps: list[Call] = []
    for _ in range(_MAX_CALLS):
        made = flow.newest_producer(tensor, before)
        if made is None:
            return None
        maker = flow.log.calls[made]
        for found, meant, is_now in _rounded_numbers(flow, made, tensor):
            if is_singular(_after(steps, is_now)) and not is_singular(_after(steps, meant)):
                return found
        is_followed = plain_name(maker.function) in _KEEPS or plain_name(maker.function) in _FORMULAS
        if not is_followed or len({use.tensor for use in maker.inputs}) != 1:
            return None
        steps.append(maker)
        tensor, before = maker.inputs[0].tensor, made
    return None


def _rounded_numbers(flow: Dataflow, row: int, tensor: int) -> Iterator[tuple[RoundedBound, float, float]]:
    """The rounded numbers of a call, each with a result that it should give and the one that it gives now."""
    call = flow.log.calls[row]
    name, dtype = plain_name(call.function), flow.log.tensors[tensor].facts.dtype
    role = "the bound" if name in _CLAMPS else _ROLES.get(name)
    for number in _numbers(call) if role is not None else ():
        became = rounded(number, dtype)
        if became is None or became == number or became not in (-1, 0, 1):
            continue
        found = RoundedBound(row, number, became, dtype, role or "", call_words(call))
        if name in _CLAMPS:
            made = next((use.values for use in call.outputs if use.tensor == tensor), None)
            if made is None or became in (made.minimum, made.maximum):
                yield found, number, became
            continue
        values = flow.values_of(call.inputs[0], row)
        for each in () if values is None else (values.minimum, values.maximum):
            if each is not None:
                yield found, _FORMULAS[name](call, each, number), _FORMULAS[name](call, each, became)


_ROLES = {"mul": "the factor", "add": "the number", "sub": "the number", "rsub": "the number"}


def _numbers(call: Call) -> list[float]:
    """The numbers that a clamp was given as its bounds, or that another call combines with its tensor."""
    places = ("0", "1", "2", "min", "max", "min_val", "max_val", "other")
    given = (call.scalars.get(place) for place in places)
    return [float(each) for each in given if isinstance(each, float | int) and isfinite(each)]


def _after(steps: list[Call], number: float) -> float:
    """What becomes of a number in calls, of which the last comes first; NaN where that is not known."""
    for call in reversed(steps):
        formula = _FORMULAS.get(plain_name(call.function))
        if formula is not None:
            number = formula(call, number, next(iter(_numbers(call)), None))
    return number


def _difference(call: Call, number: float, other: float | None) -> float:
    if other is None or "alpha" in call.scalars:
        return nan
    is_turned = "0" in call.scalars or call.function.rpartition(".")[2].strip("_") == "rsub"
    return other - number if is_turned else number - other


def _power(call: Call, number: float, other: float | None) -> float:
    is_known = other is not None and "0" not in call.scalars and call.function.rpartition(".")[2] != "__rpow__"
    return number**other if other is not None and is_known and (number > 0 or other == int(other) > 0) else nan


_FORMULAS: dict[str, Callable[[Call, float, float | None], float]] = {
    "sub": _difference,
    "rsub": _difference,
    "add": lambda call, number, other: nan if other is None or "alpha" in call.scalars else number + other,
    "mul": lambda _, number, other: number * (number if other is None else other),
    "neg": lambda *given: -given[1],
    "square": lambda *given: given[1] * given[1],
    "pow": _power,
}
"""What an operation makes of one number of a tensor, and the number that is combined with it."""


def rounded(number: float, dtype: str) -> float | None:
    """A number as a tensor of this dtype holds it; None for other dtypes, and for numbers that may be too large."""
    if dtype not in _GAPS or abs(number) > _MAX_HALF:
        return None
    if dtype == "bfloat16":
        (bits,) = unpack("<I", pack("<f", number))
        bits += 0x7FFF + (bits >> 16 & 1)
        return float(unpack("<f", pack("<I", bits & 0xFFFF0000))[0])
    code = "<e" if dtype == "float16" else "<f"
    return float(unpack(code, pack(code, number))[0])


_MAX_HALF = 60000.0
"""More may be Inf in float16."""
