"""Logarithms of scales whose exponentials act only where a mask lets them, and that are added up without the mask."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call, TensorUse


class MaskedScale(Struct, frozen=True):
    """A sum of log-scales, and the mask of what they act on."""

    summed: int
    """The call that adds them up."""
    masked: int
    """The call that multiplies what they act on with the mask, or selects by it."""
    hidden: int
    """Elements of the mask that hide them."""
    elements: int


def masked_scales(flow: Dataflow, row: int, until: int) -> MaskedScale | None:
    """Whether the tensor of which a call is the exponential is added up in full, though that acts only in part.

    Args:
        row: a call of ``exp()``.
        until: the backward call of its loss.
    """
    base = _before_scalars(flow, flow.log.calls[row].inputs[0], row)
    if base is None or _is_masked(flow, base, row, _MANY):
        return None
    scales = _Scales(flow, base, until)
    return scales.found()


class _Scales:
    """Follows log-scales, and their exponentials, to masks and sums."""

    def __init__(self, flow: Dataflow, base: int, until: int) -> None:
        self.flow, self.base, self.until = flow, base, until
        self._summed: list[int] = []
        self._masks: list[tuple[int, TensorUse]] = []
        self._is_known = True

    def found(self) -> MaskedScale | None:
        waiting = [(self.base, False)]
        seen = set(waiting)
        while waiting and self._is_known and len(seen) < _MAX_FOLLOWED:
            tensor, is_exponential = waiting.pop()
            for row, call in self._users(tensor):
                follow = self._follow_exponential if is_exponential else self._follow_logarithm
                for each in follow(row, call, tensor):
                    if each not in seen:
                        seen.add(each)
                        waiting.append(each)
        if not self._is_known or waiting or not self._summed or not self._masks:
            return None
        row, mask = self._masks[-1]
        values = self.flow.values_of(mask, row)
        if values is None:
            return None
        hidden = values.count - values.zeros if self._hides_ones(row) else values.zeros
        return MaskedScale(self._summed[-1], row, hidden, values.count)

    def _hides_ones(self, row: int) -> bool:
        """Whether the ones of a mask hide: ``where(kept, x, moved)``."""
        call = self.flow.log.calls[row]
        if plain_name(call.function) == "masked_fill":
            return True
        first = next((use for use in call.inputs if use.place in ("1", "input")), None)
        return plain_name(call.function) == "where" and first is not None and not self._is_exponential(first, row)

    def _is_exponential(self, use: TensorUse, row: int) -> bool:
        """Whether a tensor was computed from the exponential."""
        return any(plain_name(self.flow.log.calls[each].function) == "exp" for each in self._above(use, row))

    def _above(self, use: TensorUse, row: int) -> tuple[int, ...]:
        first = self.flow.newest_producer(self.base, row)
        return self.flow.ancestors(use.tensor, row, 0 if first is None else first)

    def _users(self, tensor: int) -> Iterator[tuple[int, Call]]:
        for row in self.flow.users(tensor):
            call = self.flow.log.calls[row]
            if row < self.until and any(use.requires_grad for use in call.outputs):
                yield row, call

    def _follow_logarithm(self, row: int, call: Call, tensor: int) -> Iterator[tuple[int, bool]]:
        name, others = plain_name(call.function), [use for use in call.inputs if use.tensor != tensor]
        if name == "exp":
            yield from ((use.tensor, True) for use in call.outputs)
        elif name in _SUMS or self._sums_up(row, call, name):
            self._summed.append(row)
        elif name in ("add", "sub") or (name in _UNARY and not others):
            yield from ((use.tensor, False) for use in call.outputs)
        else:
            self._is_known = False

    def _sums_up(self, row: int, call: Call, name: str) -> bool:
        """Whether a product with ones, or an ``einsum`` of one tensor, adds up."""
        if name == "einsum":
            return len(call.inputs) == 1
        values = [self.flow.values_of(use, row) for use in call.inputs if not use.requires_grad]
        is_of_ones = [each is not None and each.minimum == each.maximum for each in values] == [True]
        return name in ("matmul", "mv") and is_of_ones

    def _follow_exponential(self, row: int, call: Call, tensor: int) -> Iterator[tuple[int, bool]]:
        name, others = plain_name(call.function), [use for use in call.inputs if use.tensor != tensor]
        masks = [use for use in others if is_surely_mask(self.flow, use, row)]
        if name in _SELECT | _MIX and masks:
            self._masks.append((row, masks[0]))
        elif name == "prod":
            self._summed.append(row)
        elif name == "log" and not others:
            yield from ((use.tensor, False) for use in call.outputs)
        elif name == "mul" and (made := [each for use in others for each in self._mask_of(use, row)]):
            self._masks.extend(made)
        elif name in _ELEMENTWISE and self._is_as_large(call, tensor):
            yield from ((use.tensor, True) for use in call.outputs)
        else:
            self._is_known = False

    def _mask_of(self, use: TensorUse, row: int) -> list[tuple[int, TensorUse]]:
        """The mask with which another factor was multiplied."""
        found = _masked_before(self.flow, use.tensor, row, _FEW)
        return [(made, mask) for made, mask in found if is_surely_mask(self.flow, mask, made)]

    def _is_as_large(self, call: Call, tensor: int) -> bool:
        shapes = [shape_of(self.flow, each) for each in (tensor, call.outputs[0].tensor)]
        return shapes[0][-1:] == shapes[1][-1:]


def is_mask(flow: Dataflow, use: TensorUse, row: int) -> bool:
    """Whether a tensor without a gradient has zeros and ones, and probably no other values."""
    values = flow.values_of(use, row)
    return not use.requires_grad and values is not None and (values.minimum, values.maximum) == (0, 1)


def is_surely_mask(flow: Dataflow, use: TensorUse, row: int) -> bool:
    """Whether a comparison or whole numbers made it, or it is a constant for all samples: else it may be data."""
    if not is_mask(flow, use, row):
        return False
    given, result = shape_of(flow, use.tensor), shape_of(flow, flow.log.calls[row].outputs[0].tensor)
    if "float" not in flow.log.tensors[use.tensor].facts.dtype:
        return True
    for made, call in flow.makers(use.tensor, row, _FEW):
        row = made
        if plain_name(call.function) in _COMPARE:
            return True
        if any("float" not in flow.log.tensors[each.tensor].facts.dtype for each in call.inputs[:1]):
            return True
    return len(given) < len(result) or given[:1] == (1,) != result[:1]


_FEW = 4
_MANY = 10
_MAX_FOLLOWED = 60
_COMPARE = frozenset({"lt", "gt", "le", "ge", "eq", "ne", "bernoulli", "round", "isfinite", "isnan", "logical_not"})
_SUMS = frozenset({"sum", "mean", "nansum"})
_UNARY = frozenset({
    "mul", "div", "neg", "view", "reshape", "flatten", "squeeze", "unsqueeze", "contiguous", "clone", "float", "double",
})  # fmt: skip
_SELECT = frozenset({"mul", "where", "masked_fill", "masked_select", "getitem"})
_MIX = frozenset({"lerp", "addcmul"})
"""They have a mask as one of three operands."""
_ELEMENTWISE = frozenset({
    "addcmul", "addcdiv", "lerp", "abs", "expand",
    "mul", "div", "add", "sub", "neg", "pow", "square", "sqrt", "view", "reshape", "unsqueeze", "contiguous", "clone",
    "where", "clamp", "reciprocal", "mse_loss", "float", "double",
})  # fmt: skip


def _before_scalars(flow: Dataflow, use: TensorUse, row: int) -> int | None:
    """The tensor that was only negated or scaled with numbers."""
    tensor = use.tensor
    for _ in range(_FEW):
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or plain_name(call.function) not in _UNARY or len(call.inputs) != 1:
            break
        row, tensor = made, call.inputs[0].tensor
    return tensor if shape_of(flow, tensor) else None


def _is_masked(flow: Dataflow, tensor: int, row: int, most: int) -> bool:
    """Whether a tensor was multiplied with a mask when it was made, or selected by one."""
    return bool(_masked_before(flow, tensor, row, most))


def _masked_before(flow: Dataflow, tensor: int, row: int, most: int) -> list[tuple[int, TensorUse]]:
    """The newest multiplication with a mask from which a tensor was made, element by element, with that mask."""
    waiting = [(tensor, row)]
    for _ in range(most):
        if not waiting:
            break
        given, before = waiting.pop(0)
        made = flow.newest_producer(given, before)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or plain_name(call.function) not in _SELECT | _PASSED:
            continue
        masks = [use for use in call.inputs if is_mask(flow, use, made)]
        if plain_name(call.function) in _SELECT and masks:
            return [(made, masks[0])]
        waiting.extend((use.tensor, made) for use in call.inputs)
    return []


_PASSED = _UNARY | {"tanh", "sigmoid", "softplus", "clamp", "hardtanh", "logsigmoid", "chunk", "split", "unbind"}
