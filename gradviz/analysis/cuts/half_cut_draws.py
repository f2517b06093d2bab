"""Random draws ``mean + scale * noise`` of which one half, the mean or the scale, is cut off from its own parameters.

Nobody trains a network that makes only the scale and then cuts the scale off where it is used: the loss trains it in
another term, a divergence or an entropy, and so every parameter gets a gradient. Noise whose scale is read from the
values that it is added to, ``x + x.detach().std() * noise``, has no parameters of its own, and is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.cuts.cut_paths import cut_paths_on
from gradviz.analysis.cuts.draws import DrawWithoutGradient
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.cuts import Cut
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.normal_draws import has_normal_draw, is_scaled_noise
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import TensorUse

_ON_THE_WAY = frozenset({
    "detach", "data", "exp", "mul", "div", "add", "clamp", "softplus", "sqrt", "pow", "square", "sigmoid", "expand_as",
    "expand", "unsqueeze", "view", "reshape", "clone", "to",
})  # fmt: skip
"""What may lie between a cut and the noise: the scale is often computed from its logarithm."""
_MOST_ON_THE_WAY = 6
_CUTS = frozenset({"detach", "data", "no_grad"})


def half_cut_draws(histories: ParameterHistories) -> Iterator[DrawWithoutGradient]:
    """Those before the last backward call of each line, one for each line that cuts."""
    flow, calls = histories.flow, histories.log.calls
    for backward in histories.last_trained_backward_of_each_line:
        reached = histories.reached_by[backward] & histories.trained
        since = flow.step_before(backward)
        found: dict[int | None, DrawWithoutGradient] = {}
        for root in calls[backward].roots:
            for path, cuts in cut_paths_on(flow, root.tensor, backward, lambda cut: cut.call_site, since):
                if path.doubt or path.is_steering or path.cut.kind not in _CUTS:
                    continue
                for cut in cuts:
                    other = _other_half(flow, cut)
                    own = frozenset() if other is None else _own_leaves(histories, cut, other)
                    if own and own <= reached:
                        found[cut.call_site] = DrawWithoutGradient(cut, backward, tuple(sorted(own)))
        yield from found.values()


def _own_leaves(histories: ParameterHistories, cut: Cut, other: TensorUse) -> frozenset[int]:
    """Trained tensors that only the half that is cut off was computed from."""
    behind, _ = histories.live_leaves(cut.live_inputs, cut.call)
    beside, _ = histories.live_leaves((other.tensor,), cut.call)
    return (behind & histories.trained) - beside


def _other_half(flow: Dataflow, cut: Cut) -> TensorUse | None:
    """What a cut half is combined with, in a sum with noise, if that has a history; None if it is no such half."""
    values = list(cut.dead_outputs)
    for _ in range(_MOST_ON_THE_WAY):
        if len(values) != 1:
            return None
        (value,) = values
        users = flow.users(value, cut.call)
        for row in users:
            half = _half_of_the_sum(flow, value, row)
            if half is not None:
                return half
        onward = [row for row in users if plain_name(flow.log.calls[row].function) in _ON_THE_WAY]
        values = [use.tensor for row in onward[:1] for use in flow.log.calls[row].outputs]
    return None


def _half_of_the_sum(flow: Dataflow, value: int, row: int) -> TensorUse | None:
    call = flow.log.calls[row]
    name = plain_name(call.function)
    others = [use for use in call.inputs if use.tensor != value]
    if name == "addcmul" and others:
        return others[0] if others[0].requires_grad and has_normal_draw(flow, others, row) else None
    if name == "mul" and has_normal_draw(flow, others, row):
        for output in call.outputs:
            for user in flow.users(output.tensor, row):
                total = flow.log.calls[user]
                means = [use for use in total.inputs if use.tensor != output.tensor and use.requires_grad]
                if plain_name(total.function) == "add" and means:
                    return means[0]
    if name == "add":
        return next((use for use in others if use.requires_grad and is_scaled_noise(flow, use.tensor, row)), None)
    return None
