"""GV640."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import leaf_names_above
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.scales.noise_scales import (
    NOISE_PRODUCTS,
    scales_of_noise,
    variances_of_divergence,
)
from gradviz.analysis.rules.bases.losses.scales.scale_logarithms import terms_of_sum
from gradviz.analysis.rules.bases.losses.scales.scale_powers import Power


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
                for variance in variances_of_divergence(flow, terms_of_sum(flow, backward, use.tensor)):
                    found = _misfit(flow, backward, use.tensor, variance)
                    rows = () if found is None else (found.noise.row, found.variance[0].row - 1)
                    sites = {flow.log.calls[row].call_site for row in rows}
                    if found is not None and told.isdisjoint(sites):
                        told.update(sites)
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


def _misfit(flow: Dataflow, backward: int, root: int, variance: list[Power]) -> _Misfit | None:
    """The scale of noise that is made of the same tensor as a variance, and is not its root."""
    powers = {found.key: found.power for found in variance}
    scales = [
        next((found for found in scales_of_noise(flow, row) if found.key in powers), None)
        for row in flow.ancestors(root, backward, flow.step_before(backward))
        if plain_name(flow.log.calls[row].function) in NOISE_PRODUCTS
    ]
    known = [(found, powers[found.key]) for found in scales if found is not None]
    if any(_TWO * found.power == power for found, power in known):
        return None
    wrong = ((found, power) for found, power in known if found.power in (power, power / _QUARTER))
    return next((_Misfit(found, variance, power) for found, power in wrong), None)
