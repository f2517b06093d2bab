"""GV640."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.normal_draws import is_normal_draw
from gradviz.analysis.dataflow.tensor_words import leaf_names_above
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.analysis.rules.bases.losses.scales.scale_logarithms import logarithms_in, terms_of_sum
from gradviz.analysis.rules.bases.losses.scales.scale_powers import Key, Power, powers_of
from gradviz.analysis.rules.bases.losses.signed_terms import Term, number_of
from gradviz.graph.call_log import Call


class NoiseScaledByVariance(Rule):
    """The noise of a sample is multiplied with its variance, or with the root of its standard deviation.

    What it finds
    -------------
    A loss with ``exp(v) - v + mu**2``, the divergence of a normal distribution with the variance ``exp(v)``, beside a
    sample ``mu + exp(v) * noise``, where the standard deviation is ``exp(0.5 * v)``. Also ``exp(0.5 * s) * noise``
    beside a divergence with ``exp(2 * s) - 2 * s``. Noise of the right scale from the same tensor stops the report.

    Why it matters
    --------------
    The sample is drawn from another distribution than the one whose divergence the loss measures, so the loss is no
    bound of the likelihood. Both have the same minimum at ``v = 0``, so training seems to work.

    Example
    -------
    encoder, decoder = torch.nn.Linear(6, 4), torch.nn.Linear(2, 6)
    optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.01)
    for step in range(3):
        x = torch.randn(8, 6)
        mu, logvar = encoder(x).chunk(2, dim=1)
        z = mu + logvar.exp() * torch.randn_like(mu)
        divergence = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
        loss = (decoder(z) - x).square().sum(1).mean() + divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    encoder, decoder = torch.nn.Linear(6, 4), torch.nn.Linear(2, 6)
    optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.01)
    for step in range(3):
        x = torch.randn(8, 6)
        mu, logvar = encoder(x).chunk(2, dim=1)
        z = mu + (0.5 * logvar).exp() * torch.randn_like(mu)
        divergence = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
        loss = (decoder(z) - x).square().sum(1).mean() + divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV640"
    name = "noise_scaled_by_variance"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for backward in case.histories.last_trained_backward_of_each_line:
            for use in flow.log.calls[backward].roots:
                for variance in _variances(flow, terms_of_sum(flow, backward, use.tensor)):
                    found = _misfit(flow, backward, use.tensor, variance)
                    if found is not None and flow.log.calls[found.noise.row].call_site not in told:
                        told.add(flow.log.calls[found.noise.row].call_site)
                        yield self._finding(case, found)

    def _finding(self, case: Case, found: _Misfit) -> Finding:
        flow = case.dataflow
        here, measured = (location_of_call(flow, row) for row in (found.noise.row, found.variance[0].row - 1))
        is_variance = found.noise.power == found.variance_power
        scale = "the variance" if is_variance else "the root of the standard deviation"
        return self.finding(
            f"the noise of this sample is multiplied with {scale} of the distribution whose divergence the loss "
            f"measures{at_line(measured)}, not with its standard deviation",
            symptom="grad_wrong",
            why="what is decoded is drawn from another distribution than the one that is held near the prior",
            fix="multiply the noise with the standard deviation: torch.exp(0.5 * logvar)"
            if is_variance
            else "multiply the noise with the standard deviation: torch.exp(logstd)",
            location=here,
            symptom_location=measured if measured != here else None,
            tensors=leaf_names_above(flow, found.noise.key.tensor, found.noise.row, flow.step_before(found.noise.row)),
        )


class _Misfit(Struct, frozen=True):
    noise: Power
    """The scale of the noise."""
    variance: list[Power]
    variance_power: float
    """The power of the same tensor that the divergence takes for the variance."""


_TWO = 2
_QUARTER = 4
_PRODUCTS = frozenset({"mul", "addcmul"})


def _variances(flow: Dataflow, terms: list[Term]) -> Iterator[list[Power]]:
    """The variances that a loss adds beside a square, and whose logarithm it subtracts, with what they are made of."""
    added = [term for term in terms if term.sign > 0 and term.is_sure]
    if not any(_is_square(flow.log.calls[term.row]) for term in added):
        return
    signs, _ = logarithms_in(flow, terms)
    for term in added:
        outputs = flow.log.calls[term.row].outputs
        powers = list(powers_of(flow, outputs[0].tensor, term.row + 1, 1.0)) if outputs else []
        if any(found.power > 0 and _is_subtracted(signs, found) for found in powers):
            yield powers


def _is_subtracted(signs: dict[Key, set[int]], found: Power) -> bool:
    key = next((key for key in found.key.and_wholes() if key in signs), None)
    return key is not None and signs[key] == {-1}


def _is_square(call: Call) -> bool:
    name = plain_name(call.function)
    is_power = name == "pow" and number_of(call, "1", "exponent", missing=0.0) == _TWO
    return bool(call.live_inputs) and (name == "square" or is_power)


def _misfit(flow: Dataflow, backward: int, root: int, variance: list[Power]) -> _Misfit | None:
    """The scale of noise that is made of the same tensor as a variance, and is not its root."""
    powers = {found.key: found.power for found in variance}
    scales = [
        next((found for found in _scales(flow, row) if found.key in powers), None)
        for row in flow.ancestors(root, backward, flow.step_before(backward))
        if plain_name(flow.log.calls[row].function) in _PRODUCTS
    ]
    known = [(found, powers[found.key]) for found in scales if found is not None]
    if any(_TWO * found.power == power for found, power in known):
        return None
    wrong = ((found, power) for found, power in known if found.power in (power, power / _QUARTER))
    return next((_Misfit(found, variance, power) for found, power in wrong), None)


def _scales(flow: Dataflow, row: int) -> Iterator[Power]:
    """What noise from a standard normal distribution is multiplied with, and what that is made of."""
    call = flow.log.calls[row]
    factors = call.inputs[-_TWO:]
    live = [use for use in factors if use.requires_grad]
    dead = [use for use in factors if not use.requires_grad]
    made = value_maker(flow, dead[0].tensor, row) if len(live) == len(dead) == 1 else None
    if made is not None and _is_standard_draw(made[1]):
        yield from powers_of(flow, live[0].tensor, row, 1.0)


def _is_standard_draw(call: Call) -> bool:
    places = ("1", "std") if call.function == "torch.normal" else ("2", "std")
    is_scaled = plain_name(call.function) == "normal" and number_of(call, *places, missing=1.0) != 1
    return is_normal_draw(call) and not is_scaled
