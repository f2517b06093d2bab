"""Data, labels and losses that are mixed with themselves in another order: which share each of the two has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from math import prod

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import argument
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, number_of
from gradviz.graph.call_log import Call, TensorUse

Share = tuple[float, float]
"""The smallest and the largest of the shares of a batch."""


class Mix(Struct, frozen=True):
    """Something that is mixed with itself in another order."""

    row: int
    own: Share
    other: Share


class _Part(Struct, frozen=True):
    """A summand: what it multiplies, and in which order it took that."""

    source: int
    order: Hashable
    share: Share


_TWO = 2
_CLEARLY = 0.02
_MAX_STEPS = 6
_TAKES = frozenset({"getitem", "index_select", "take_along_dim"})
_TURNS = frozenset({"flip", "roll"})
_REDUCES = frozenset({"mean", "sum", "view", "reshape", "squeeze", "unsqueeze"})
_PASSES = frozenset({"clone", "to", "float", "contiguous", "detach"})


def mixes_by_order(flow: Dataflow) -> dict[Hashable, list[Mix]]:
    """By order: what was mixed with itself in that order, unless the shares are equal."""
    found: dict[Hashable, list[Mix]] = defaultdict(list)
    for row, call in enumerate(flow.log.calls):
        if not flow.has_step_after(row):
            break
        name = plain_name(call.function)
        made = _pasted(flow, row, call) if name == "setitem" else _mixed(flow, row, call) if name == "add" else None
        if made is not None and any(abs(a - b) > _CLEARLY for a, b in zip(made[1].own, made[1].other, strict=True)):
            found[made[0]].append(made[1])
    return found


def is_of_labels(flow: Dataflow, row: int) -> bool:
    """Whether something that was mixed is a loss, the target of one, or a factor of what is trained."""
    made = flow.log.calls[row].outputs[0]
    users = [flow.log.calls[user] for user in flow.users(made.tensor, row)]
    return made.requires_grad or any(
        user.live_inputs and (plain_name(user.function) == "mul" or made.tensor == _target(user)) for user in users
    )


def _target(call: Call) -> int | None:
    target = argument(call, 1, "target")
    return None if target is None else target.tensor


def _mixed(flow: Dataflow, row: int, call: Call) -> tuple[Hashable, Mix] | None:
    """``a * x + b * x[order]``, of data, of labels, or of the losses of two labels."""
    if len(call.inputs) != _TWO:
        return None
    one, other = (_part(flow, use.tensor, row) for use in call.inputs)
    if one is None or other is None or one.source != other.source or (one.order is None) == (other.order is None):
        return None
    own, second = (one, other) if one.order is None else (other, one)
    return second.order, Mix(row, own.share, second.share)


def _part(flow: Dataflow, tensor: int, before: int) -> _Part | None:
    row = flow.newest_producer(tensor, before)
    call = None if row is None else flow.log.calls[row]
    if row is None or call is None or plain_name(call.function) != "mul":
        return None
    for use in call.inputs:
        share = _factor_beside(flow, call, use, row)
        if share is not None:
            given = _target_of_loss(flow, use.tensor, row) if use.requires_grad else None
            source, order = _taken(flow, use.tensor if given is None else given, row)
            if order is not None or use.requires_grad or len(call.inputs) == 1:
                return _Part(source, order, share)
    plain = [use for use in call.inputs if shape_of(flow, use.tensor) == shape_of(flow, tensor)]
    share = _factor_beside(flow, call, plain[0], row) if len(plain) == 1 else None
    return None if share is None else _Part(_taken(flow, plain[0].tensor, row)[0], None, share)


def _factor_beside(flow: Dataflow, call: Call, use: TensorUse, row: int) -> Share | None:
    """The other factor of a product: a number, or the numbers of a batch, between 0 and 1."""
    others = [each for each in call.inputs if each is not use]
    values = flow.values_of(others[0], row) if others else None
    number = number_of(call, *OPERAND, missing=-1.0)
    lowest, highest = (number, number) if values is None else (values.minimum, values.maximum)
    if lowest is None or highest is None or not 0 <= lowest <= highest <= 1:
        return None
    return lowest, highest


def _taken(flow: Dataflow, tensor: int, before: int) -> tuple[int, Hashable]:
    """What a tensor was taken from, and in which order; None if it is as it was."""
    order: Hashable = None
    for _, call in flow.makers(tensor, before, _MAX_STEPS):
        name = plain_name(call.function)
        if order is not None and name not in _PASSES:
            break
        if name in _TAKES and len(call.inputs) == _TWO:
            order = call.inputs[1].tensor
        elif name in _TURNS:
            order = name, tuple(sorted(call.scalars.items())), flow.step_before(before)
        elif name not in _PASSES or not call.inputs:
            break
        tensor = call.inputs[0].tensor
    return tensor, order


def _target_of_loss(flow: Dataflow, tensor: int, before: int) -> int | None:
    """The target of the loss function that computed a number."""
    for _, call in flow.makers(tensor, before, _MAX_STEPS):
        target = argument(call, 1, "target")
        if target is not None and not target.requires_grad and call.live_inputs:
            return target.tensor
        if plain_name(call.function) not in _REDUCES:
            return None
    return None


def _pasted(flow: Dataflow, row: int, call: Call) -> tuple[Hashable, Mix] | None:
    """``x[..., a:b, c:d] = x[order, ..., a:b, c:d]``: what is left of each sample, and the share that it gets."""
    if len(call.inputs) != _TWO:
        return None
    whole, value = (shape_of(flow, use.tensor) for use in call.inputs)
    for _, taken in flow.makers(call.inputs[1].tensor, row, _MAX_STEPS):
        if plain_name(taken.function) not in (*_TAKES, *_PASSES) or not taken.inputs:
            return None
        if len(taken.inputs) == _TWO:
            share = prod(value) / max(prod(whole), 1)
            is_part = 0 < share < 1 and len(whole) == len(value) and whole[0] == value[0]
            return (taken.inputs[1].tensor, Mix(row, (1 - share,) * 2, (share,) * 2)) if is_part else None
    return None
