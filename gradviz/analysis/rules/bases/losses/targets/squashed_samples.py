"""Samples of a normal distribution that tanh() squashes, and their log-probability in a loss."""

from __future__ import annotations

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.formulas.products import is_square, is_squared
from gradviz.graph.call_log import TensorUse

_BOTH = 2


def is_squash(flow: Dataflow, row: int) -> bool:
    """Whether a call is the ``tanh`` of a mean plus noise times a scale, both with a gradient."""
    call = flow.log.calls[row]
    return plain_name(call.function) == "tanh" and len(call.live_inputs) == 1 and _sample(flow, row) is not None


class _Sample(Struct, frozen=True):
    """A mean plus noise times a scale."""

    noise: int
    scale: int
    row: int
    """The call that multiplies them."""


def _sample(flow: Dataflow, squash: int) -> _Sample | None:
    """What a call squashes, if it was drawn: by ``mean + noise * scale`` or ``addcmul(mean, noise, scale)``."""
    made = flow.newest_producer(flow.log.calls[squash].inputs[0].tensor, squash)
    drawn = None if made is None else flow.log.calls[made]
    if made is None or drawn is None or len(drawn.live_inputs) != _BOTH:
        return None
    if plain_name(drawn.function) == "addcmul":
        return _scaled_noise(flow, drawn.inputs[1:], made)
    if plain_name(drawn.function) != "add":
        return None
    for use in drawn.inputs:
        row = flow.newest_producer(use.tensor, made)
        call = None if row is None else flow.log.calls[row]
        is_product = call is not None and plain_name(call.function) == "mul"
        found = _scaled_noise(flow, call.inputs, row) if row is not None and call is not None and is_product else None
        if found is not None:
            return found
    return None


def _scaled_noise(flow: Dataflow, factors: tuple[TensorUse, ...], row: int) -> _Sample | None:
    if len(factors) != _BOTH:
        return None
    noise = next((use.tensor for use in factors if not use.requires_grad), None)
    drawn = None if noise is None else flow.newest_producer(noise, row)
    if noise is None or drawn is None or plain_name(flow.log.calls[drawn].function) not in _DRAWS:
        return None
    return _Sample(noise, next(use.tensor for use in factors if use.tensor != noise), row)


_DRAWS = frozenset({"randn", "randn_like", "normal", "_standard_normal"})


def score_of(flow: Dataflow, squash: int, above: tuple[int, ...]) -> int | None:
    """The call of the log-probability that squares the distance of the same number from its mean."""
    u = flow.log.calls[squash].inputs[0].tensor
    return _squared_distance_of(flow, u, above) or _score_of_noise(flow, squash, above)


def score_of_action(flow: Dataflow, squash: int, above: tuple[int, ...]) -> int | None:
    """The same of the action itself, as the distance of ``tanh(u)`` from the mean to which ``u`` is near."""
    action, mean = flow.log.calls[squash].outputs[0].tensor, _mean_of(flow, squash)
    return None if mean is None else _squared_distance_of(flow, action, above, mean)


def _mean_of(flow: Dataflow, squash: int) -> int | None:
    """What noise times a scale was added to."""
    made = flow.newest_producer(flow.log.calls[squash].inputs[0].tensor, squash)
    sample, calls = _sample(flow, squash), flow.log.calls
    if made is None or sample is None:
        return None
    others = (use.tensor for use in calls[made].inputs if use.tensor not in (sample.noise, sample.scale))
    return next((each for each in others if flow.newest_producer(each, made) != sample.row), None)


def _squared_distance_of(flow: Dataflow, tensor: int, above: tuple[int, ...], mean: int | None = None) -> int | None:
    """The call that squares the distance of a tensor from another one, or from this mean if it is given."""
    for row in above:
        call = flow.log.calls[row]
        sides = [use.tensor for use in call.inputs[:_BOTH]]
        if len(call.live_inputs) < _BOTH or tensor not in sides or (mean is not None and mean not in sides):
            continue
        name = plain_name(call.function)
        if name in _SQUARED_DISTANCES:
            return row
        if name == "sub" and (square := _square_of(flow, call.outputs[0].tensor, row)):
            return square
    return None


def _score_of_noise(flow: Dataflow, squash: int, above: tuple[int, ...]) -> int | None:
    """The call that squares the noise itself, if the logarithm of the scale is then added to it, or taken away."""
    sample, within = _sample(flow, squash), set(above)
    if sample is None:
        return None
    logarithms = _logarithms(flow, sample, within)
    for row in flow.users(sample.noise):
        call = flow.log.calls[row]
        waiting = [(row, call.outputs[0].tensor)] if row in within and is_squared(call) and call.outputs else []
        for _ in range(_MAX_STEPS):
            if not waiting:
                break
            before, tensor = waiting.pop()
            for user in flow.users(tensor, before):
                added = flow.log.calls[user]
                if user not in within or plain_name(added.function) not in _ADDS or not added.outputs:
                    continue
                if any(use.tensor in logarithms for use in added.inputs):
                    return row
                waiting.append((user, added.outputs[0].tensor))
    return None


def _logarithms(flow: Dataflow, sample: _Sample, within: set[int]) -> set[int]:
    """The logarithms of a scale: what it is the exponential of, and what the loss takes of it, with any factor."""
    made = flow.newest_producer(sample.scale, sample.row)
    maker = None if made is None else flow.log.calls[made]
    is_exponential = maker is not None and plain_name(maker.function) == "exp"
    found = {maker.inputs[0].tensor} if maker is not None and is_exponential else set[int]()
    for user in flow.users(sample.scale):
        call = flow.log.calls[user]
        if user in within and plain_name(call.function) == "log" and call.outputs:
            found.add(call.outputs[0].tensor)
    weighed = (user for tensor in tuple(found) for user in flow.users(tensor) if user in within)
    scaled = (flow.log.calls[user] for user in weighed)
    return found | {
        call.outputs[0].tensor for call in scaled if plain_name(call.function) in ("mul", "neg", "sum") and call.outputs
    }


_MAX_STEPS = 8
_ADDS = frozenset({"add", "sub", "mul", "neg", "sum", "div"})
_SQUARED_DISTANCES = frozenset({"gaussian_nll_loss", "mse_loss"})
"""They compare a number with a mean, of which both have a gradient."""


def _square_of(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The call that squares a tensor, perhaps after it was divided by a scale."""
    for _ in range(_MAX_STEPS):
        scaled = None
        for user in flow.users(tensor, row):
            call = flow.log.calls[user]
            if is_square(call):
                return user
            if plain_name(call.function) in ("div", "mul", "neg") and call.outputs and scaled is None:
                scaled = user
        if scaled is None:
            return None
        tensor, row = flow.log.calls[scaled].outputs[0].tensor, scaled
    return None


def slope_at_action(flow: Dataflow, squash: int, above: tuple[int, ...]) -> int | None:
    """The call of ``log(1 - tanh(a) ** 2)`` or ``softplus(-2 * a)`` for an action ``a = tanh(u)``, if no other one in
    the loss takes the logarithm of a slope."""
    action, within = flow.log.calls[squash].outputs[0].tensor, set(above)
    below = [row for row in flow.descendants(action, squash, above[-1] + 1, live=True) if row in within]
    slopes = [row for row in below if plain_name(flow.log.calls[row].function) in _LOGARITHMS_OF_SLOPES]
    return slopes[-1] if slopes and all(_is_of_action(flow, row, action) for row in slopes) else None


_LOGARITHMS_OF_SLOPES = frozenset({"log", "log1p", "softplus", "logsigmoid"})
_IN_A_SLOPE = frozenset({"add", "sub", "neg", "clamp", "clamp_min", "mul", "square", "pow", "log"})


def _is_of_action(flow: Dataflow, row: int, action: int) -> bool:
    """Whether a logarithm takes the slope of ``tanh`` at an action."""
    is_sigmoid = plain_name(flow.log.calls[row].function) in ("softplus", "logsigmoid")
    tensor, has_square = flow.log.calls[row].inputs[0].tensor, False
    for _ in range(_MAX_STEPS):
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        name = "" if call is None else plain_name(call.function)
        if made is None or call is None or not call.inputs:
            return False
        if name == "tanh":
            return has_square and call.inputs[0].tensor == action
        if name not in _IN_A_SLOPE or len({use.tensor for use in call.inputs}) > 1:
            return False
        has_square |= is_squared(call)
        if is_sigmoid and name == "mul" and call.inputs[0].tensor == action and len(call.inputs) == 1:
            return True
        tensor, row = call.inputs[0].tensor, made
    return False
