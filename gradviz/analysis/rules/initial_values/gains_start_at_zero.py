"""GV880."""

from __future__ import annotations

from collections.abc import Iterator, Set

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.dataflow.values.origins import is_all_zero
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call, TensorUse


class GainsStartAtZero(Rule):
    """The gains of all normalizations start at zero, and layers behind them get nothing but zeros.

    What it finds
    -------------
    ``LayerNorm``, ``BatchNorm``, ``GroupNorm`` or ``RMSNorm``, also written by hand, whose trained gains are all zero
    when they are first used, where the result goes into a layer with weights, and where this is so for all of the
    normalizations. What goes on to a residual sum, also behind other layers, is left alone: a branch may start at
    zero.

    Why it matters
    --------------
    A gain multiplies what was normalized, so it starts at one. With a gain of zero the layer behind it gets the same
    for all inputs, and its weights have no gradient until the gain has moved. It is what becomes of a loop that sets
    all parameters with one axis to zero, since biases have one axis.

    Example
    -------
    model = torch.nn.Sequential(torch.nn.LayerNorm(4), torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 1))
    for p in model.parameters():
        if p.dim() > 1:
            torch.nn.init.xavier_uniform_(p)
        else:
            torch.nn.init.zeros_(p)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(16, 4)
        optimizer.zero_grad()
        (model(x) - x[:, :1]).square().mean().backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Sequential(torch.nn.LayerNorm(4), torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 1))
    for name, p in model.named_parameters():
        if p.dim() > 1:
            torch.nn.init.xavier_uniform_(p)
        elif name.endswith("bias"):
            torch.nn.init.zeros_(p)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(16, 4)
        optimizer.zero_grad()
        (model(x) - x[:, :1]).square().mean().backward()
        optimizer.step()
    """

    code = "GV880"
    name = "gains_start_at_zero"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        first: dict[int, int] = {}
        for row, call in calls_named(flow, _NORMS | {"mul"}):
            gain = _gain(flow, row, call)
            if gain is not None and flow.has_step_after(row):
                first.setdefault(gain.tensor, row)
        of_layers = {gain: row for gain, row in first.items() if plain_name(flow.log.calls[row].function) in _NORMS}
        zero = {gain: row for gain, row in first.items() if _is_zero(flow.log.calls[row])}
        behind = {gain: layer for gain, row in zero.items() if (layer := _layer_behind(flow, row)) is not None}
        are_meant = all(_ends_in_sum(flow, layer, first.keys()) for layer in behind.values())
        if behind and not are_meant and all(gain in zero for gain in of_layers or first):
            yield self._finding(case, behind, zero)

    def _finding(self, case: Case, behind: dict[int, int], zero: dict[int, int]) -> Finding:
        flow = case.dataflow
        gain, layer = next(iter(behind.items()))
        changes = flow.changes(gain, -1, zero[gain])
        used = location_of_call(flow, zero[gain])
        location = location_of_call(flow, changes[-1]) if changes else used
        one = len(behind) == 1
        return self.finding(
            f"the {'gain' if one else 'gains'} {case.histories.together(list(behind))} {'is' if one else 'are'} all "
            f"zero when training begins: the layer{at_line(location_of_call(flow, layer))} gets nothing but zeros",
            symptom="grad_zero",
            why="a gain multiplies what was normalized, and the weights behind it have no gradient while it is zero",
            fix="set only biases to zero, and the gains of normalizations to one: nn.init.ones_(norm.weight)",
            location=location,
            symptom_location=used if used != location else None,
            tensors=(
                *names_of(flow, behind),
                *dict.fromkeys(each for zero in case.zero_gradients for each in zero.leaves),
            ),
            evidence={"gains": len(behind)},
        )


_NORMS = frozenset({"layer_norm", "batch_norm", "group_norm", "instance_norm", "rms_norm"})
_LAYERS = frozenset({"linear", "conv1d", "conv2d", "conv3d", "conv_transpose2d", "multi_head_attention_forward"})
_PASS_ON = frozenset({
    "relu", "gelu", "silu", "elu", "tanh", "leaky_relu", "hardswish", "mish", "dropout", "transpose", "permute", "view",
    "reshape", "flatten", "contiguous", "to", "mean", "avg_pool2d", "max_pool2d", "adaptive_avg_pool2d", "getitem",
})  # fmt: skip
_MAX_FOLLOWED = 20


def _gain(flow: Dataflow, row: int, call: Call) -> TensorUse | None:
    """What a normalization multiplies with at its end, or what a product has as one factor for each feature."""
    leaves = [use for use in call.inputs if use.is_live_leaf]
    if plain_name(call.function) != "mul":
        return next((use for use in leaves if use.place in ("weight", "2", "3")), None)
    others = [use for use in call.inputs if use not in leaves]
    if len(leaves) != 1 or len(others) != 1:
        return None
    gain, other = shape_of(flow, leaves[0].tensor), shape_of(flow, others[0].tensor)
    is_of_features = len(gain) == 1 and gain[0] > 1 and len(other) > 1 and other[-1:] == gain
    above = flow.makers_above(others[0].tensor, row, _MAKERS, lambda call: call.inputs) if is_of_features else ()
    return leaves[0] if any(plain_name(each.function) in _SCALES for _, each in above) else None


_SCALES = frozenset({"div", "rsqrt", "normalize"})
_MAKERS = 4
"""The calls above a product that are looked at: what divides by a deviation is among the last ones."""


def _is_zero(call: Call) -> bool:
    values = call.outputs[0].values if call.outputs else None
    return values is not None and is_all_zero(values)


def _layer_behind(flow: Dataflow, row: int) -> int | None:
    """The first layer that takes the zeros, or what elementwise functions and a bias that is zero make of them."""
    waiting, seen = [(flow.log.calls[row].outputs[0].tensor, row)], set[int]()
    while waiting and len(seen) < _MAX_FOLLOWED:
        tensor, after = waiting.pop()
        seen.add(tensor)
        for user in flow.users(tensor, after):
            call = flow.log.calls[user]
            name = plain_name(call.function)
            if name in _LAYERS and call.inputs[0].tensor == tensor and len(call.live_inputs) > 1:
                return user
            is_bias = name == "add" and all(use.tensor == tensor or use.is_live_leaf for use in call.inputs)
            if (name in _PASS_ON or is_bias) and _is_zero(call) and call.outputs[0].tensor not in seen:
                waiting.append((call.outputs[0].tensor, user))
    return None


def _ends_in_sum(flow: Dataflow, layer: int, gains: Set[int]) -> bool:
    """Whether the result of a layer is added to a result of the same shape, and no normalization comes before."""
    waiting, seen = [(flow.log.calls[layer].outputs[0].tensor, layer)], set[int]()
    while waiting and len(seen) < _MAX_FOLLOWED:
        tensor, after = waiting.pop(0)
        seen.add(tensor)
        for user in flow.users(tensor, after):
            call = flow.log.calls[user]
            name = plain_name(call.function)
            others = [use for use in call.inputs if use.tensor != tensor and not use.is_live_leaf]
            is_norm = name in _NORMS or any(use.tensor in gains for use in call.inputs)
            if is_norm or not call.outputs or not shape_of(flow, call.outputs[0].tensor):
                continue
            if name == "add" and any(shape_of(flow, use.tensor) == shape_of(flow, tensor) for use in others):
                return True
            waiting += [(use.tensor, user) for use in call.outputs if use.tensor not in seen]
    return False
