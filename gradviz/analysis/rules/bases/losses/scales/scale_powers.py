"""The powers of ``exp(s)``, ``softplus(r)`` or ``sigma`` in a loss, and the same scales under a logarithm.

>>> from gradviz.graph.call_log import Call, CallLog, LoggedTensor, TensorUse
>>> from gradviz.graph.tensor_facts import TensorFacts
>>> tensors = tuple(LoggedTensor(TensorFacts((), "float32")) for _ in range(3))
>>> def use(tensor, place="0"): return TensorUse(tensor, place, 0, True, tensor == 0)
>>> half = Call("torch.Tensor.mul", inputs=(use(0),), outputs=(use(1, "return"),), scalars={"1": 0.5})
>>> scale = Call("torch.Tensor.exp", inputs=(use(1),), outputs=(use(2, "return"),))
>>> flow = Dataflow(CallLog((half, scale), tensors))
>>> [(found.key.tensor, found.key.is_log, found.power) for found in powers_of(flow, 2, 2, 1.0)]
[(2, False, 1.0), (1, True, 1.0), (0, True, 0.5)]
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.signed_terms import is_number_first, number_of
from gradviz.graph.call_log import Call, TensorUse


class Key(Struct, frozen=True):
    """A scale or its logarithm, the same for each time that a program selects it anew from the same tensor."""

    tensor: int
    selected: tuple[object, ...]
    is_log: bool

    def and_wholes(self) -> Iterator[Key]:
        """The key, and those of what it is selected from."""
        for first in range(len(self.selected) + 1):
            yield Key(self.tensor, self.selected[first:], self.is_log)


class Power(Struct, frozen=True):
    """The power to which a scale was raised; for a logarithm its factor, which is the same."""

    key: Key
    power: float
    row: int
    """The call that used it."""
    is_squared: bool = False
    """Whether it is a factor of something that is squared."""


_MAX_STEPS = 12
SELECT = frozenset({"getitem", "select", "narrow", "chunk", "split", "unbind", "tensor_split"})
SHAPING = frozenset({
    "view", "reshape", "squeeze", "unsqueeze", "flatten", "to", "float", "double", "clone", "expand", "expand_as",
    "contiguous", "permute", "transpose", "sum", "mean", "broadcast_tensors", "clamp", "clamp_min", "clamp_max",
})  # fmt: skip
_POWERS = {"square": 2.0, "sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1.0, "abs": 1.0}
_Step = tuple[TensorUse, float, bool]


def powers_of(
    flow: Dataflow, tensor: int, before: int, power: float, *, is_log: bool = False, is_squared: bool = False
) -> Iterator[Power]:
    """The scales from which a scale, or a logarithm of one, was made by powers, factors and shapes; itself first."""
    for _ in range(_MAX_STEPS):
        yield Power(key_of(flow, tensor, before, is_log=is_log), power, before, is_squared)
        row = flow.newest_producer(tensor, before)
        if row is None or not flow.log.calls[row].inputs:
            return
        call = flow.log.calls[row]
        step = (_of_logarithm if is_log else _of_scale)(call, tensor)
        if step is None:
            return
        use, factor, is_log = step
        tensor, before, power = use.tensor, row, power * factor


def key_of(flow: Dataflow, tensor: int, before: int, *, is_log: bool) -> Key:
    """The key of a tensor as a call received it."""
    selected: list[object] = []
    for _ in range(_MAX_STEPS):
        row = flow.newest_producer(tensor, before)
        call = None if row is None else flow.log.calls[row]
        if row is None or call is None or plain_name(call.function) not in SELECT or len(call.inputs) != 1:
            break
        place = next((use.place for use in call.outputs if use.tensor == tensor), "")
        selected.append((plain_name(call.function), tuple(sorted(call.scalars.items())), place))
        tensor, before = call.inputs[0].tensor, row
    return Key(tensor, tuple(selected), is_log)


def _of_logarithm(call: Call, result: int) -> _Step | None:
    """What a logarithm was made from: the input, the factor, and whether that input is a logarithm as well."""
    name, first = plain_name(call.function), _source(call, result)
    if len(call.live_inputs) > 1 and name != "broadcast_tensors":
        return None
    if name == "log":
        return first, 1.0, False
    if name in SHAPING:
        return first, 1.0, True
    if name == "neg":
        return first, -1.0, True
    if name in ("mul", "div") and len(call.inputs) == 1:
        factor = number_of(call, "1", "0", "other", missing=0.0)
        is_divisor = name == "mul" or not is_number_first(call)
        return (first, factor if name == "mul" else 1 / factor, True) if factor and is_divisor else None
    if name in ("add", "sub") and len(call.inputs) == 1:
        return first, -1.0 if name == "sub" and is_number_first(call) else 1.0, True
    return None


def _of_scale(call: Call, result: int) -> _Step | None:
    """What a scale was made from: the input, its power, and whether that input is the logarithm of a scale."""
    name, first = plain_name(call.function), _source(call, result)
    number = number_of(call, "1", "0", "other", "exponent", missing=0.0)
    if name == "exp":
        return first, 1.0, True
    if name in SHAPING:
        return first, 1.0, False
    if name in _POWERS:
        return first, _POWERS[name], False
    if name == "mul" and len(call.inputs) > 1:
        return (first, 2.0, False) if first.tensor == call.inputs[1].tensor else None
    if len(call.inputs) > 1:
        is_first = name in ("mul", "div") and call.inputs[0].requires_grad and len(call.live_inputs) == 1
        return (first, 1.0, False) if is_first else None
    if name == "pow" and not is_number_first(call):
        return (first, number, False) if number else None
    if name in ("mul", "div") and number > 0:
        return first, -1.0 if name == "div" and is_number_first(call) else 1.0, False
    return (first, 1.0, False) if name == "add" and number >= 0 else None


def _source(call: Call, result: int) -> TensorUse:
    """The input from which a call made one of its results."""
    if plain_name(call.function) != "broadcast_tensors":
        return call.inputs[0]
    index = next((index for index, use in enumerate(call.outputs) if use.tensor == result), 0)
    return call.inputs[min(index, len(call.inputs) - 1)]
