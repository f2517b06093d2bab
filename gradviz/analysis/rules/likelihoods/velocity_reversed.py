"""GV685."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.normal_draws import is_normal_draw
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.analysis.rules.bases.paths.curved_forms import are_opposite, curved_form
from gradviz.analysis.rules.bases.paths.linear_forms import LinearForm, linear_form
from gradviz.analysis.rules.bases.paths.sampler_steps import sampler_directions


class VelocityReversed(Rule):
    """The velocity that a flow should learn goes against the path from noise to data.

    What it finds
    -------------
    A loss that compares a network's answer to ``x_t = (1 - t) * a + t * b`` with ``a - b``, which is the velocity with
    the opposite sign: where ``a`` is drawn noise, or where a sampler of the program adds the answers as ``t`` grows.
    With such a sampler, also ``sin(t) * a - cos(t) * b`` for ``x_t = cos(t) * a + sin(t) * b``.

    Why it matters
    --------------
    A sampler follows the velocity ``d x_t / d t``, which is ``b - a``. With the opposite sign it goes from noise away
    from the data. The loss goes down as usual, since both signs are equally easy to learn.

    Example
    -------
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        data = 3 + torch.randn(16, 2)
        noise, t = torch.randn_like(data), torch.rand(16, 1)
        x_t = (1 - t) * noise + t * data
        target = noise - data
        loss = (model(torch.cat([x_t, t], 1)) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        data = 3 + torch.randn(16, 2)
        noise, t = torch.randn_like(data), torch.rand(16, 1)
        x_t = (1 - t) * noise + t * data
        target = data - noise
        loss = (model(torch.cat([x_t, t], 1)) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV685"
    name = "velocity_reversed"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, _ERRORS):
            is_error = len(call.inputs) == _BOTH and len(call.live_inputs) == 1
            if not is_error or call.call_site in told or not flow.has_step_after(row):
                continue
            path = _reversed_path(flow, row)
            if path is not None and _goes_along(flow, *path):
                told.add(call.call_site)
                yield self._finding(flow, row, path[0])
                continue
            mixed = None if path is not None else _reversed_curve(flow, row)
            if mixed is not None and sampler_directions(flow) - {0} == {1}:
                told.add(call.call_site)
                yield self._finding(flow, row, mixed, is_curved=True)

    def _finding(self, flow: Dataflow, row: int, mixed: int, *, is_curved: bool = False) -> Finding:
        dead = next(use for use in flow.log.calls[row].inputs if not use.requires_grad)
        made = flow.newest_producer(dead.tensor, row)
        location, mixture = two_lines(flow, row if made is None else made, mixed)
        return self.finding(
            f"the target is the velocity of the mixture{at_line(mixture)} with the opposite sign: the mixture is "
            + ("cos(t) * a + sin(t) * b, and the target " if is_curved else "(1 - t) * a + t * b, and the target ")
            + ("sin(t) * a - cos(t) * b" if is_curved else "a - b"),
            symptom="grad_wrong",
            why="as t grows, the mixture moves by the derivative; a sampler that follows the answers goes away from it"
            if is_curved
            else "as t grows, the mixture moves by b - a; a sampler that follows the answers goes away from the data",
            fix="turn the sign of the target around: cos(t) * b - sin(t) * a"
            if is_curved
            else "swap the two in the target: b - a, what is multiplied with t minus what is multiplied with 1 - t",
            location=location,
            symptom_location=mixture,
        )


_ERRORS = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "sub"})
_SUMS = frozenset({"add", "sub", "lerp"})
_CURVED_SUMS = frozenset({"add", "sub", "addcmul"})
_BOTH = 2
_ROUNDED = 1e-4


def _reversed_path(flow: Dataflow, row: int) -> tuple[int, LinearForm] | None:
    """The call that made the mixture about which a network was asked, if the target is its velocity turned around."""
    live, dead = sorted(flow.log.calls[row].inputs, key=lambda use: not use.requires_grad)
    target = linear_form(flow, dead.tensor, row)
    if target is None or target.time is not None or len(target.factors) < _BOTH or _is_turned(flow, live.tensor, row):
        return None
    wanted = {tensor: constant for tensor, (constant, _) in target.factors.items()}
    for each in reversed(flow.ancestors(live.tensor, row, since=flow.step_before(row))):
        call = flow.log.calls[each]
        if plain_name(call.function) not in _SUMS or call.live_inputs or not call.outputs:
            continue
        form = linear_form(flow, call.outputs[0].tensor, each + 1)
        if form is not None and _are_opposite(form.speeds, wanted):
            return each, form
    return None


def _reversed_curve(flow: Dataflow, row: int) -> int | None:
    """The same for a mixture with a cosine and a sine of the time.

    Its speed with the opposite sign is also what a diffusion model predicts as ``v``, if the data are at the end of its
    time: only a sampler tells the two apart.
    """
    live, dead = sorted(flow.log.calls[row].inputs, key=lambda use: not use.requires_grad)
    target = curved_form(flow, dead.tensor, row)
    if target is None or _is_turned(flow, live.tensor, row):
        return None
    for each in reversed(flow.ancestors(live.tensor, row, since=flow.step_before(row))):
        call = flow.log.calls[each]
        if plain_name(call.function) not in _CURVED_SUMS or call.live_inputs or not call.outputs:
            continue
        form = curved_form(flow, call.outputs[0].tensor, each + 1)
        if form is not None and are_opposite(form, target):
            return each
    return None


def _are_opposite(speeds: dict[int, float], wanted: dict[int, float]) -> bool:
    return speeds.keys() == wanted.keys() and all(abs(speeds[each] + wanted[each]) < _ROUNDED for each in speeds)


def _is_turned(flow: Dataflow, tensor: int, row: int) -> bool:
    made = value_maker(flow, tensor, row)
    return made is not None and plain_name(made[1].function) == "neg"


def _goes_along(flow: Dataflow, row: int, form: LinearForm) -> bool:
    """Whether a sampler adds the answers as the time grows; or without any, whether the path begins with noise."""
    directions = sampler_directions(flow)
    if directions - {0}:
        return directions == {1}
    noises = {tensor for tensor in form.speeds if _is_noise(flow, tensor, row)}
    begins = {tensor for tensor, speed in form.speeds.items() if speed < 0 and form.factors[tensor][0] > 0}
    ends = {tensor for tensor, (constant, speed) in form.factors.items() if speed > 0 and not constant}
    # Data that are drawn may be a sum with noise of their own.
    return len(begins) == 1 and begins <= noises and begins | ends == form.speeds.keys() and not ends <= noises


def _is_noise(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a tensor was drawn from a normal distribution in this step."""
    made = value_maker(flow, tensor, row)
    return made is not None and made[0] >= flow.step_before(row) and is_normal_draw(made[1])
