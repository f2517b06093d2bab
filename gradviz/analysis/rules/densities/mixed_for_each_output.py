"""GV943."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.log_densities import squares_of_differences
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.graph.call_log import Call, TensorUse


class MixedForEachOutput(Rule):
    """A mixture of densities is formed for each output by itself, though its weights are those of whole answers.

    What it finds
    -------------
    The weights of the components, of which each sample has one set, are added to logarithms of normal densities of
    several outputs, and ``logsumexp()`` over the components comes before the sum over the outputs; or the same with
    densities instead of logarithms. The means of the components differ between the outputs. Weights for each output are
    left alone, and so are several samples of one density.

    Why it matters
    --------------
    A component is one whole answer: the density of an answer is the product over its outputs, so the logarithms are
    added first. Mixed for each output, the first one may come from one component and the second from another one, and
    what belongs together is not learned.

    Example
    -------
    model = torch.nn.Linear(2, 15)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(3):
        x, y = torch.randn(16, 2), torch.randn(16, 1, 2)
        out = model(x)
        weights, mean, logstd = out[:, :3], out[:, 3:9].view(-1, 3, 2), out[:, 9:].view(-1, 3, 2)
        density = -0.5 * ((y - mean) / logstd.exp()) ** 2 - logstd
        mixed = torch.logsumexp(weights.log_softmax(-1).unsqueeze(-1) + density, dim=1)
        loss = -mixed.sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(2, 15)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(3):
        x, y = torch.randn(16, 2), torch.randn(16, 1, 2)
        out = model(x)
        weights, mean, logstd = out[:, :3], out[:, 3:9].view(-1, 3, 2), out[:, 9:].view(-1, 3, 2)
        density = -0.5 * ((y - mean) / logstd.exp()) ** 2 - logstd
        mixed = torch.logsumexp(weights.log_softmax(-1) + density.sum(-1), dim=1)
        loss = -mixed.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV943"
    name = "mixed_for_each_output"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, {"logsumexp", "sum"}):
            if call.call_site in told or not call.live_inputs or not flow.has_step_after(row):
                continue
            mixture = _mixture(flow, row, call)
            if mixture is not None:
                told.add(call.call_site)
                yield self._finding(flow, row, mixture)

    def _finding(self, flow: Dataflow, row: int, mixture: _Mixture) -> Finding:
        location, other = two_lines(flow, row, mixture.row)
        return self.finding(
            f"the {mixture.components:,} components are mixed for each of {mixture.outputs:,} outputs by itself, with "
            "weights that belong to all of them: the outputs of one answer may come from different components",
            symptom="grad_wrong",
            why="the density of an answer under a component is the product over its outputs, so the logarithms are "
            "added before the components are mixed",
            fix="sum over the outputs first: torch.logsumexp(log_weights + log_density.sum(-1), dim=1)",
            location=location,
            symptom_location=other,
            evidence={"components": mixture.components, "outputs": mixture.outputs},
        )


class _Mixture(Struct, frozen=True):
    row: int
    """The call that joins weights and densities."""
    components: int
    outputs: int


_BOTH = 2
_MAX_LOG_WEIGHT = 1e-4


def _mixture(flow: Dataflow, row: int, call: Call) -> _Mixture | None:
    """The mixture that a call forms by adding over the components, if there are outputs with common weights."""
    joined = value_maker(flow, call.live_inputs[0].tensor, row)
    rank = len(shape_of(flow, call.inputs[0].tensor))
    components = axis_of(call, rank)
    is_of_logarithms = plain_name(call.function) == "logsumexp"
    if joined is None or components is None or len(joined[1].live_inputs) != _BOTH:
        return None
    if plain_name(joined[1].function) != ("add" if is_of_logarithms else "mul"):
        return None
    if not is_of_logarithms and not _is_read_as_density(flow, call, row):
        return None
    for weights, density in (joined[1].live_inputs, joined[1].live_inputs[::-1]):
        outputs = _common_axis(flow, weights.tensor, density.tensor, components)
        if outputs is None or not _are_weights(flow, weights, joined[0], is_of_logarithms):
            continue
        logarithm = density if is_of_logarithms else _logarithm_of(flow, density, joined[0])
        if logarithm is not None and _has_means_along(flow, logarithm, joined[0], (components, outputs)):
            shape = shape_of(flow, density.tensor)
            return _Mixture(joined[0], shape[components], shape[outputs])
    return None


def _common_axis(flow: Dataflow, weights: int, density: int, components: int) -> int | None:
    """The axis of the densities along which all have the same weight, if that is only one."""
    shape, given = shape_of(flow, density), shape_of(flow, weights)
    padded = (1,) * (len(shape) - len(given)) + given
    if len(padded) != len(shape) or components >= len(shape) or padded[components] != shape[components]:
        return None
    # Weights of the whole data have no axis of the samples either.
    common = [axis for axis, size in enumerate(shape) if size > 1 and padded[axis] == 1 and axis > components]
    return common[0] if len(common) == 1 and shape[components] > 1 else None


def _are_weights(flow: Dataflow, use: TensorUse, row: int, is_of_logarithms: bool) -> bool:
    """Whether a tensor has shares, or their logarithms."""
    values = flow.values_of(use, row)
    if values is None or values.maximum is None or values.minimum is None:
        return False
    if is_of_logarithms:
        return values.maximum <= _MAX_LOG_WEIGHT
    return values.minimum >= 0 and values.maximum <= 1 + _MAX_LOG_WEIGHT


def _logarithm_of(flow: Dataflow, density: TensorUse, row: int) -> TensorUse | None:
    made = value_maker(flow, density.tensor, row)
    return made[1].inputs[0] if made is not None and plain_name(made[1].function) == "exp" else None


def _is_read_as_density(flow: Dataflow, call: Call, row: int) -> bool:
    """Whether a logarithm is taken of a sum, perhaps with a small number beside it."""
    tensor = call.outputs[0].tensor
    for _ in range(_BOTH):
        users = [user for user in flow.users(tensor, row) if flow.log.calls[user].outputs]
        names = {plain_name(flow.log.calls[user].function): user for user in users}
        if "log" in names:
            return True
        after = names.get("add", names.get("clamp", names.get("clamp_min")))
        if after is None:
            return False
        tensor, row = flow.log.calls[after].outputs[0].tensor, after
    return False


def _has_means_along(flow: Dataflow, density: TensorUse, row: int, axes: tuple[int, int]) -> bool:
    """Whether what is trained and data are subtracted from differs between the components and between the outputs."""
    shape = shape_of(flow, density.tensor)
    for square in squares_of_differences(flow, density, row):
        for made, call in flow.makers(flow.log.calls[square].inputs[-1].tensor, square, _MAX_MAKERS):
            if plain_name(call.function) == "sub" and call.live_inputs:
                mean = shape_of(flow, call.live_inputs[0].tensor)
                padded = (1,) * (len(shape) - len(mean)) + mean
                if made < row and len(padded) == len(shape) and all(padded[axis] == shape[axis] for axis in axes):
                    return True
    return False


_MAX_MAKERS = 6
