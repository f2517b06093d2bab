"""Random masks that hide positions of data from a model, and the positions that the loss selects with them."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.graph.call_log import Call, TensorUse

Mask = tuple[int, bool]
"""A tensor of truths, and whether it is turned around."""


class Hidden(Struct, frozen=True):
    """A call that overwrites some positions of a tensor."""

    row: int
    data: int
    mask: TensorUse
    is_where_true: bool
    """Whether it overwrites where the mask is true."""
    value: object
    """What it writes there; None if that is a tensor of several values."""

    def positions(self, flow: Dataflow) -> Iterator[Mask]:
        """The masks that are all true where it overwrites."""
        return masks_in(flow, self.mask.tensor, self.row, is_turned=not self.is_where_true)


def hidden_by(flow: Dataflow, row: int) -> Hidden | None:
    """What a call overwrites, if it overwrites the positions of a mask with something of its own."""
    call = flow.log.calls[row]
    name, given = plain_name(call.function), _by_place(call)
    if name in ("masked_fill", "setitem") and {"0", "1"} <= set(given):
        is_mask = "bool" in flow.log.tensors[given["1"].tensor].facts.dtype
        return Hidden(row, given["0"].tensor, given["1"], True, call.scalars.get("2")) if is_mask else None
    if name == "where" and {"0", "1"} <= set(given) and ("2" in call.scalars or _is_constant(flow, given, "2", row)):
        return Hidden(row, given["1"].tensor, given["0"], False, _constant(flow, call, given, "2", row))
    if name == "where" and {"0", "2"} <= set(given):
        return Hidden(row, given["2"].tensor, given["0"], True, _constant(flow, call, given, "1", row))
    if name == "mul" and len(call.inputs) == _TWO:
        for mask, data in (call.inputs, call.inputs[::-1]):
            if _is_of_zeros_and_ones(flow, mask, row):
                return Hidden(row, data.tensor, mask, False, 0)
    return None


_TWO = 2


def _by_place(call: Call) -> dict[str, TensorUse]:
    """What a call takes, as a function takes it: ``x.where(mask, y)`` is ``torch.where(mask, x, y)``."""
    given = {use.place: use for use in call.inputs}
    if call.function == "torch.Tensor.where" and {"0", "1"} <= set(given):
        given["0"], given["1"] = given["1"], given["0"]
    return given


def _is_constant(flow: Dataflow, given: dict[str, TensorUse], place: str, row: int) -> bool:
    """Whether what a call got at a place is one value, or a parameter: a learned stand-in for what is hidden."""
    use = given.get(place)
    if use is None:
        return False
    values, base = flow.values_of(use, row), mask_of(flow, use.tensor, row)[0]
    is_one_value = values is not None and values.minimum == values.maximum
    return is_one_value or flow.log.tensors[base].role == "parameter"


def _constant(flow: Dataflow, call: Call, given: dict[str, TensorUse], place: str, row: int) -> object:
    """The number that a call got at a place, also as a tensor."""
    use = given.get(place)
    values = None if use is None else flow.values_of(use, row)
    if values is None or values.minimum != values.maximum:
        return call.scalars.get(place)
    return values.minimum


def _is_of_zeros_and_ones(flow: Dataflow, use: TensorUse, row: int) -> bool:
    values = flow.values_of(use, row)
    base, _ = mask_of(flow, use.tensor, row)
    drawn = flow.newest_producer(base, row)
    is_drawn = drawn is not None and plain_name(flow.log.calls[drawn].function) == "bernoulli"
    is_mask = is_drawn or "bool" in flow.log.tensors[base].facts.dtype
    return not use.requires_grad and is_mask and values is not None and (values.minimum, values.maximum) == (0, 1)


def mask_of(flow: Dataflow, tensor: int, row: int) -> Mask:
    """The mask that another one was made from by changes of its shape and type, and by turning it around."""
    is_turned = False
    for _ in range(_MAX_CALLS):
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or not call.inputs:
            break
        name = plain_name(call.function)
        turns = name in _TURN or (name == "eq" and _other(call) == 0) or _is_one_minus(call)
        keeps = (name in _KEEP and (len(call.inputs) == 1 or name.endswith("_as"))) or (
            name == "ne" and _other(call) == 0
        )
        if not turns and not keeps:
            break
        is_turned ^= turns
        tensor, row = call.inputs[0].tensor, made
    return tensor, is_turned


_MAX_CALLS = 12
_TURN = frozenset({"invert", "logical_not", "bitwise_not"})
_KEEP = SHAPE_ONLY | {"bool", "int", "long", "type_as", "half", "cuda", "cpu"}


def _other(call: Call) -> object:
    return call.scalars.get("1", call.scalars.get("other")) if len(call.inputs) == 1 else None


def _is_one_minus(call: Call) -> bool:
    return call.function.endswith("rsub__" if "__" in call.function else ".rsub") and _other(call) == 1


def masks_in(flow: Dataflow, tensor: int, row: int, *, is_turned: bool = False) -> Iterator[Mask]:
    """The masks that are all true where a tensor is true, or false: itself, and those that were joined with ``&`` or
    multiplied; of ``hide | padding``, which is false where neither is true, both."""
    waiting = [(tensor, row, is_turned)]
    for _ in range(_MAX_CALLS):
        if not waiting:
            return
        tensor, row, is_outer_turned = waiting.pop()
        base, is_inner_turned = mask_of(flow, tensor, row)
        is_turned = is_inner_turned != is_outer_turned
        yield base, is_turned
        made = flow.newest_producer(base, row)
        call = None if made is None else flow.log.calls[made]
        if made is not None and call is not None and plain_name(call.function) in (_EITHER if is_turned else _BOTH):
            waiting += [(use.tensor, made, is_turned) for use in call.inputs]


_BOTH = frozenset({"and", "logical_and", "bitwise_and", "mul"})
_EITHER = frozenset({"or", "logical_or", "bitwise_or"})


def is_drawn_anew(flow: Dataflow, mask: int, row: int) -> bool:
    """Whether a mask was drawn at random since the last step of an optimizer."""
    rows = flow.ancestors(mask, row, flow.step_before(row))
    return any(plain_name(flow.log.calls[each].function) in _DRAWS for each in rows)


_DRAWS = frozenset({"rand", "rand_like", "bernoulli", "uniform", "randperm", "multinomial"})


def source_of(flow: Dataflow, tensor: int, row: int) -> int:
    """The data that a tensor is a part or another shape of."""
    for _ in range(_MAX_CALLS):
        made = flow.producers(tensor, row)
        call = flow.log.calls[made[-1]] if made else None
        if call is None or not call.inputs or plain_name(call.function) not in _PARTS | {"where"}:
            break
        taken = _kept_data(flow, made[-1]) if plain_name(call.function) == "where" else call.inputs[0].tensor
        if taken is None:
            break
        tensor, row = taken, made[-1]
    return tensor


def _kept_data(flow: Dataflow, row: int) -> int | None:
    """What ``where`` keeps beside a constant."""
    hidden = hidden_by(flow, row)
    return None if hidden is None else hidden.data


_PARTS = SHAPE_ONLY | {"masked_select", "long", "detach", "setitem", "masked_fill"}
