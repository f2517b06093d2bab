"""How often what a step computes was divided by the number of samples, because the derivative of a mean was taken."""

from __future__ import annotations

from functools import cached_property
from heapq import heappop, heappush
from math import prod

from msgspec import Struct

from gradviz.analysis.dataflow.backward_calls import starts_from_ones
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, number_of
from gradviz.graph.call_log import Call, TensorUse

_SAMPLES = 2
_BOTH = 2
_MOST_CALLS = 600
_TINY = 1e-3
_KEEP = SHAPE_ONLY | {
    "neg", "abs", "relu", "sum", "mean", "norm", "vector_norm", "detach", "amax", "amin", "flatten", "select", "unbind",
    "split", "chunk", "narrow", "stack", "cat", "requires_grad", "clamp", "sqrt",
}  # fmt: skip
COMPARES = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
_GRAD = "torch.autograd.grad"


class Mixture(Struct, frozen=True):
    """A sum of what was divided by the number of samples and what was not, or not as often."""

    call: int
    mean: int
    """The call that averaged what was differentiated."""
    count: int
    """How many elements were averaged."""


def mean_of_samples(flow: Dataflow, row: int) -> tuple[int, int] | None:
    """The call that averages one result of each sample, the derivative of which a backward call takes, and how many
    elements it averages; None if the average itself has another use."""
    call = flow.log.calls[row]
    if len(call.roots) != 1 or not call.scalars.get("create_graph") or not starts_from_ones(flow, row):
        return None
    root = call.roots[0].tensor
    made = flow.newest_producer(root, row)
    maker = None if made is None else flow.log.calls[made]
    if made is None or maker is None or shape_of(flow, root) or not maker.inputs:
        return None
    count = _averaged(flow, made, maker)
    is_of_samples = any(
        flow.log.tensors[each.tensor].role == "tensor" and _SAMPLES <= shape_of(flow, each.tensor)[0] <= count
        for each in call.asked
        if shape_of(flow, each.tensor) and count % shape_of(flow, each.tensor)[0] == 0
    )
    users = (flow.log.calls[user] for user in flow.users(root, made))
    is_read = any(user.kind == "operation" and user.function != _GRAD and _has_history(user) for user in users)
    return (made, count) if is_of_samples and not is_read else None


def _has_history(call: Call) -> bool:
    return any(use.requires_grad for use in call.outputs)


def _averaged(flow: Dataflow, row: int, call: Call) -> int:
    """How many elements a call averages; 0 if it does not."""
    if plain_name(call.function) == "mean":
        return prod(shape_of(flow, call.inputs[0].tensor))
    number = number_of(call, *OPERAND, missing=0.0) if plain_name(call.function) == "div" else 0.0
    added = flow.newest_producer(call.inputs[0].tensor, row)
    if not number or added is None or plain_name(flow.log.calls[added].function) != "sum":
        return 0
    count = prod(shape_of(flow, flow.log.calls[added].inputs[0].tensor))
    return count if shape_of(flow, flow.log.calls[added].inputs[0].tensor)[:1] == (number,) else 0


def mixtures(flow: Dataflow, rows: list[int]) -> list[Mixture]:
    """Sums of different powers, behind some backward calls of one step that take the derivative of a mean."""
    return _Powers(flow, rows).walk()


class _Powers:
    """The walk along the calls of one step, in order."""

    def __init__(self, flow: Dataflow, rows: list[int]) -> None:
        self._flow = flow
        self._means = {row: found for row in rows if (found := mean_of_samples(flow, row)) is not None}
        self._powers: dict[int, float | None] = {}
        """None for what is no power of the number of samples."""
        self._from: dict[int, int] = {}
        """By tensor: the backward call that it comes from."""
        self._asked = {each.tensor for row in self._means for each in flow.log.calls[row].asked}

    def walk(self) -> list[Mixture]:
        waiting, seen, found = sorted(self._means), set(self._means), list[Mixture]()
        while waiting and len(seen) < _MOST_CALLS:
            row = heappop(waiting)
            call = self._flow.log.calls[row]
            source = self._source(row, call)
            if source is None or (call.function == _GRAD and call.kind == "operation"):
                continue
            power, is_mixed = self._of_call(row, call)
            if is_mixed:
                found.append(Mixture(row, *self._means[source]))
            for use in call.outputs:
                self._powers[use.tensor], self._from[use.tensor] = power, source
                for user in self._flow.users(use.tensor, row):
                    if user not in seen:
                        seen.add(user)
                        heappush(waiting, user)
        return found

    def _source(self, row: int, call: Call) -> int | None:
        """The backward call that one of the inputs comes from."""
        behind = (self._from[use.tensor] for use in call.inputs if use.tensor in self._from)
        return row if row in self._means else next(behind, None)

    def _of_call(self, row: int, call: Call) -> tuple[float | None, bool]:
        """The power of what a call returns, and whether it adds up different powers."""
        if call.kind == "backward":
            return self._power(call.roots[0].tensor, 0.0, row in self._means) if call.roots else None, False
        name = plain_name(call.function)
        if call.kind != "operation" or not call.inputs:
            return None, False
        powers = [self._powers.get(use.tensor, 0.0) for use in call.inputs]
        if None in powers:
            return None, False
        known = [power for power in powers if power is not None]
        number = number_of(call, *OPERAND, missing=0.0)
        if name in ("add", "sub") or name in COMPARES:
            return self._of_sum(row, call, known, number)
        if name in ("mul", "div") and len(known) == 1:
            is_undone = number and not {number, 1 / number}.isdisjoint(self._counts)
            return (None if is_undone or call.function.endswith(("rtruediv__", "rdiv__")) else known[0]), False
        if name in ("mul", "div") and len(known) == _BOTH:
            return known[0] + (known[1] if name == "mul" else -known[1]), False
        if name in ("square", "pow"):
            exponent = number_of(call, "1", "exponent", missing=0.0) if name == "pow" else 2
            return (known[0] * exponent if len(known) == 1 else None), False
        if name in _KEEP and len(set(known)) == 1:
            return known[0] / (2 if name == "sqrt" else 1), False
        return None, False

    def _of_sum(self, row: int, call: Call, powers: list[float], number: float) -> tuple[float | None, bool]:
        if self._asked & {use.tensor for use in call.inputs}:
            return None, False  # a step of what the derivative was taken by
        if len(powers) == 1:
            return (powers[0], False) if abs(number) < _TINY or not powers[0] else (None, True)
        counted = [power for use, power in zip(call.inputs, powers, strict=True) if not self._is_zero(use, row)]
        return (counted[0], False) if len(set(counted)) == 1 else (None, len(counted) == _BOTH)

    def _is_zero(self, use: TensorUse, row: int) -> bool:
        values = self._flow.values_of(use, row)
        return values is not None and values.minimum == values.maximum == 0 and use.tensor not in self._powers

    def _power(self, tensor: int, missing: float, is_mean: bool) -> float | None:
        power = self._powers.get(tensor, missing)
        return None if power is None else power + is_mean

    @cached_property
    def _counts(self) -> set[float]:
        """Numbers of samples and of elements: who multiplies by one of them takes the sum."""
        asked = [each for row in self._means for each in self._flow.log.calls[row].asked]
        samples = {float(shape_of(self._flow, each.tensor)[0]) for each in asked if shape_of(self._flow, each.tensor)}
        return samples | {float(count) for _, count in self._means.values()}
