"""Data, labels and losses that are mixed with themselves in another order: which share each of the two has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from math import prod

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.formulas.products import product_of
from gradviz.analysis.rules.bases.losses.loss_arguments import argument
from gradviz.analysis.rules.bases.samples.mixed_parts import MIXES, PASSES, TAKES, Share, summands
from gradviz.analysis.rules.bases.samples.mixing_weights import Weight
from gradviz.graph.call_log import Call


class Mix(Struct, frozen=True):
    """Something that is mixed with itself in another order."""

    row: int
    source: int
    """What is mixed."""
    own: Share
    other: Share
    weights: tuple[Weight | None, Weight | None] = (None, None)
    """The tensors that have both shares of all samples, if they are no numbers."""

    @property
    def is_by_one_tensor(self) -> bool:
        """Whether one of both is what another one leaves of 1."""
        own, other = self.weights
        return own is not None and other is not None and own == (other[0], not other[1])


_TWO = 2
_CLEARLY = 0.02
_MAX_STEPS = 6


def mixes_by_order(flow: Dataflow) -> dict[Hashable, list[Mix]]:
    """By order: what was mixed with itself in that order, unless the shares are equal."""
    found: dict[Hashable, list[Mix]] = defaultdict(list)
    for row, call in enumerate(flow.log.calls):
        if not flow.has_step_after(row):
            break
        name = plain_name(call.function)
        made = _pasted(flow, row, call) if name == "setitem" else _mixed(flow, row, call) if name in MIXES else None
        if made is None:
            continue
        order, mix = made
        if mix.is_by_one_tensor or any(abs(a - b) > _CLEARLY for a, b in zip(mix.own, mix.other, strict=True)):
            found[order].append(mix)
    return found


def is_of_labels(flow: Dataflow, row: int) -> bool:
    """Whether something that was mixed is a loss, the target of one, or a factor of what is trained."""
    made = flow.log.calls[row].outputs[0]
    users = [flow.log.calls[user] for user in flow.users(made.tensor, row)]
    return made.requires_grad or any(
        user.live_inputs and (product_of(user) is not None or made.tensor == _target(user))
        for user in users
        if not any(flow.log.tensors[use.tensor].role == "parameter" for use in user.inputs)
    )


def _target(call: Call) -> int | None:
    target = argument(call, 1, "target")
    return None if target is None else target.tensor


def _mixed(flow: Dataflow, row: int, call: Call) -> tuple[Hashable, Mix] | None:
    """``a * x + b * x[order]``, of data, of labels, or of the losses of two labels."""
    parts = summands(flow, row, call)
    if len(parts) != _TWO:
        return None
    one, other = parts
    if one is None or other is None or one.source != other.source or (one.order is None) == (other.order is None):
        return None
    own, second = (one, other) if one.order is None else (other, one)
    return second.order, Mix(row, second.source, own.share, second.share, (own.weight, second.weight))


def _pasted(flow: Dataflow, row: int, call: Call) -> tuple[Hashable, Mix] | None:
    """``x[..., a:b, c:d] = x[order, ..., a:b, c:d]``: what is left of each sample, and the share that it gets."""
    if len(call.inputs) != _TWO:
        return None
    whole, value = (shape_of(flow, use.tensor) for use in call.inputs)
    for _, taken in flow.makers(call.inputs[1].tensor, row, _MAX_STEPS):
        if plain_name(taken.function) not in (*TAKES, *PASSES) or not taken.inputs:
            return None
        if len(taken.inputs) == _TWO:
            share = prod(value) / max(prod(whole), 1)
            is_part = 0 < share < 1 and len(whole) == len(value) and whole[0] == value[0]
            mix = Mix(row, call.inputs[0].tensor, (1 - share,) * 2, (share,) * 2)
            return (taken.inputs[1].tensor, mix) if is_part else None
    return None
