"""GV113."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.draws import DrawWithoutGradient, draws_without_gradient, flat_draws
from gradviz.analysis.cuts.half_cut_draws import half_cut_draws
from gradviz.analysis.dataflow.call_words import at_line, call_words, location_of_call, plain_name
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule


class SampledWithoutGradient(Rule):
    """Random values are drawn from a distribution that the loss trains, and no gradient goes through the draw.

    What it finds
    -------------
    A loss that trains a distribution through one term (a divergence, an entropy) and that also uses values drawn with
    ``sample()`` or ``torch.normal(mean, std)``, through which no gradient comes back. A loss with the
    log-probability of these values is left alone: it is a score function, which needs no other gradient. Also a draw
    ``mean + std * noise`` of which only the mean, or only the scale, is cut off from the parameters that compute it.

    Why it matters
    --------------
    Every parameter gets a gradient, and nothing raises. But the distribution learns nothing from what was made of its
    values: a variational autoencoder whose encoder only follows its divergence collapses to the prior.

    Example
    -------
    encoder, decoder = torch.nn.Linear(8, 6), torch.nn.Linear(3, 8)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.01)
    prior = torch.distributions.Normal(0.0, 1.0)
    for step in range(3):
        x = torch.randn(16, 8)
        mean, log_scale = encoder(x).chunk(2, dim=1)
        posterior = torch.distributions.Normal(mean, log_scale.exp())
        z = posterior.sample()
        divergence = torch.distributions.kl_divergence(posterior, prior).mean()
        loss = (decoder(z) - x).square().mean() + divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    encoder, decoder = torch.nn.Linear(8, 6), torch.nn.Linear(3, 8)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.01)
    prior = torch.distributions.Normal(0.0, 1.0)
    for step in range(3):
        x = torch.randn(16, 8)
        mean, log_scale = encoder(x).chunk(2, dim=1)
        posterior = torch.distributions.Normal(mean, log_scale.exp())
        z = posterior.rsample()
        divergence = torch.distributions.kl_divergence(posterior, prior).mean()
        loss = (decoder(z) - x).square().mean() + divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV113"
    name = "sampled_without_gradient"
    severity = "warning"
    yields_to = ("drawn_twice",)

    def check(self, case: Case) -> Iterator[Finding]:
        told = set()
        for draw in draws_without_gradient(case.histories, case.backward_calls):
            location = location_of_call(case.dataflow, draw.cut.call)
            if location not in told:
                told.add(location)
                yield self._finding(case, draw)
        for draw in half_cut_draws(case.histories):
            location = location_of_call(case.dataflow, draw.cut.call)
            if location not in told:
                told.add(location)
                yield self._half(case, draw, location)
        for row in flat_draws(case.histories, case.backward_calls):
            location = location_of_call(case.dataflow, row)
            if location not in told:
                told.add(location)
                yield self._flat(case, row, location)

    def _flat(self, case: Case, row: int, location: Location | None) -> Finding:
        flow = case.dataflow
        call = flow.log.calls[row]
        leaves, _ = case.histories.live_leaves((use.tensor for use in call.live_inputs), row)
        parameters = tuple(sorted(leaves & case.histories.trained))
        return self.finding(
            f"{plain_name(call.function)}() draws values that the loss uses, and sends a gradient of zero back to "
            f"{case.histories.together(parameters)}",
            symptom="grad_wrong",
            why="its values are random numbers, not a function of the mean and the scale: these learn only from other "
            "terms of the loss",
            fix="compute them from noise: mean + std * torch.randn_like(std)",
            location=location,
            tensors=names_of(flow, parameters),
            evidence={"parameters": len(parameters)},
        )

    def _half(self, case: Case, draw: DrawWithoutGradient, location: Location | None) -> Finding:
        flow = case.dataflow
        cut = call_words(flow.log.calls[draw.cut.call])
        return self.finding(
            f"the draw (mean + scale * noise) sends a gradient back to only one of its two parts: {cut}"
            f"{at_line(location)} cuts it off from {case.histories.together(draw.parameters)}",
            symptom="grad_wrong",
            why="these parameters compute nothing but that part, so they learn only from other terms of the loss, and "
            "nothing from what was made of the drawn values",
            fix=f"remove the {cut}",
            location=location,
            symptom_location=location_of_call(flow, draw.backward),
            tensors=names_of(flow, draw.parameters),
            evidence={"parameters": len(draw.parameters)},
        )

    def _finding(self, case: Case, draw: DrawWithoutGradient) -> Finding:
        flow = case.dataflow
        location, backward = location_of_call(flow, draw.cut.call), location_of_call(flow, draw.backward)
        text = case.source_line(location)
        is_cut = draw.cut.kind in ("detach", "data")
        cut = call_words(flow.log.calls[draw.cut.call])
        return self.finding(
            f"the values drawn{at_line(location)} go into the loss{at_line(backward)}, and no gradient goes back "
            f"through {cut if is_cut else 'the draw'} to {case.histories.together(draw.parameters)}",
            symptom="grad_wrong",
            why=(
                "the values are a function of the distribution's parameters, and are cut off from them"
                if is_cut
                else "sample() draws without gradients"
            )
            + "; the same loss trains the distribution, but only through other terms",
            fix=f"remove the {cut}"
            if is_cut
            else "draw with rsample(), which computes the values from the distribution's parameters and from noise",
            changed_line=text.replace(".sample(", ".rsample(") if text and text.count(".sample(") == 1 else None,
            location=location,
            symptom_location=backward,
            tensors=names_of(flow, draw.parameters),
            evidence={"parameters": len(draw.parameters)},
        )
