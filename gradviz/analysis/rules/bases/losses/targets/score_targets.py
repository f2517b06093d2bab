"""Targets of a score, ``-noise / scale`` for ``x + scale * noise``, that divide the noise by its scale squared."""

from __future__ import annotations

from collections import defaultdict

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.normal_draws import is_normal_draw
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, tensor_before
from gradviz.analysis.rules.bases.losses.signed_terms import is_number_first, number_of
from gradviz.graph.call_log import Call, TensorUse

Powers = dict[int, float]
"""The powers with which tensors are multiplied, numbers left out."""

_BOTH = 2
_MAX_FACTORS = 16
_POWERS = {"neg": 1.0, "square": 2.0, "sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1.0}


class ScoreTarget(Struct, frozen=True):
    """A target that is noise divided by the square of what it was multiplied with."""

    made: int
    """The call that made it."""
    mixed: int
    """The call that added the noise to the data."""


def score_target(flow: Dataflow, row: int) -> ScoreTarget | None:
    """That of an error, which subtracts it from a network's answer to data with noise, or adds it with the other
    sign."""
    call = flow.log.calls[row]
    if len(call.inputs) != _BOTH or len(call.live_inputs) != 1:
        return None
    live, dead = sorted(call.inputs, key=lambda use: not use.requires_grad)
    made = flow.newest_producer(dead.tensor, row)
    target = _powers(flow, dead, row)
    noise = [tensor for tensor, power in target.items() if power == 1 and _is_noise(flow, tensor, row)]
    if made is None or len(target) != _BOTH or len(noise) != 1:
        return None
    (scale,) = target.keys() - {noise[0]}
    weight = _powers(flow, live, row, scope=call.scope).get(scale, 0.0)
    for each in flow.ancestors(live.tensor, row, since=flow.step_before(row)):
        mixed = flow.log.calls[each]
        if plain_name(mixed.function) != "add" or mixed.live_inputs or len(mixed.inputs) != _BOTH:
            continue
        for use in mixed.inputs:
            powers = _powers(flow, use, each)
            power = powers.get(scale, 0.0)
            is_scaled = powers.keys() == {noise[0], scale} and powers[noise[0]] == 1 and power > 0
            if is_scaled and target[scale] == weight - 2 * power:
                return ScoreTarget(made, each)
    return None


def _is_noise(flow: Dataflow, tensor: int, row: int) -> bool:
    made = flow.newest_producer(tensor, row)
    return made is not None and is_normal_draw(flow.log.calls[made])


def _powers(flow: Dataflow, use: TensorUse, row: int, scope: int | None = None) -> Powers:
    """What a tensor is the product of; of a tensor with a gradient, as far as calls of the same module made it."""
    found: Powers = defaultdict(float)
    waiting = [(use.tensor, row, 1.0)]
    for _ in range(_MAX_FACTORS):
        if not waiting:
            break
        tensor, before, power = waiting.pop()
        tensor = tensor_before(flow, tensor, before, SHAPE_ONLY)
        made = flow.newest_producer(tensor, before)
        call = None if made is None else flow.log.calls[made]
        is_inner = use.requires_grad and call is not None and call.scope != scope
        factors = None if made is None or call is None or is_inner else _factors(call)
        if made is None or factors is None:
            found[tensor] += power
        else:
            waiting += [(each.tensor, made, power * own) for each, own in factors]
    return {tensor: power for tensor, power in found.items() if power}


def _factors(call: Call) -> list[tuple[TensorUse, float]] | None:
    """The tensors that a call multiplies, with their powers; None if it does something else."""
    name = plain_name(call.function)
    if name in _POWERS and len(call.inputs) == 1:
        return [(call.inputs[0], _POWERS[name])]
    if name == "pow" and len(call.inputs) == 1 and not is_number_first(call):
        power = number_of(call, "1", "exponent", missing=0.0)
        return [(call.inputs[0], power)] if power else None
    if name == "mul":
        return [(each, 1.0) for each in call.inputs]
    if name == "div" and len(call.inputs) == 1:
        return [(call.inputs[0], -1.0 if is_number_first(call) else 1.0)]
    if name == "div" and len(call.inputs) == _BOTH:
        over, below = reversed(call.inputs) if "rdiv" in call.function or "rtruediv" in call.function else call.inputs
        return [(over, 1.0), (below, -1.0)]
    return None
