"""GV678."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.normal_draws import has_normal_draw
from gradviz.analysis.dataflow.tensor_words import leaf_names_above
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.divergences_of_classes import divergences_from_drawn
from gradviz.analysis.rules.bases.losses.divergences import divergence_from_prior


class DivergenceTurnedAround(Rule):
    """The divergence is that of the prior from the posterior, and the samples come from the posterior.

    What it finds
    -------------
    ``kl_divergence(prior, posterior)`` of two normal distributions in a loss, where only the second one is trained, and
    the loss is computed of values that were drawn from the second one. The same of classes: ``kl_div(log_q, prior)`` or
    ``(prior * (prior.log() - log_q)).sum()``, where ``gumbel_softmax()``, or noise by hand, drew from ``q``.

    Why it matters
    --------------
    The evidence lower bound is an average over the posterior, and so is its divergence: ``kl_divergence(posterior,
    prior)`` (Kingma and Welling 2014, https://arxiv.org/abs/1312.6114). The other one is no bound: it pushes the scale
    of the posterior up much harder than that of the bound pulls it down. ``kl_divergence(p, q)`` is the divergence of
    ``p`` from ``q``, averaged over ``p``.

    Example
    -------
    from torch.distributions import Normal, kl_divergence

    encoder, decoder = torch.nn.Linear(6, 4), torch.nn.Linear(2, 6)
    optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.01)
    prior = Normal(torch.zeros(2), torch.ones(2))
    for step in range(3):
        x = torch.randn(16, 6)
        mean, raw = encoder(x).chunk(2, 1)
        posterior = Normal(mean, torch.nn.functional.softplus(raw))
        error = (decoder(posterior.rsample()) - x).square().sum(1).mean()
        loss = error + kl_divergence(prior, posterior).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    from torch.distributions import Normal, kl_divergence

    encoder, decoder = torch.nn.Linear(6, 4), torch.nn.Linear(2, 6)
    optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.01)
    prior = Normal(torch.zeros(2), torch.ones(2))
    for step in range(3):
        x = torch.randn(16, 6)
        mean, raw = encoder(x).chunk(2, 1)
        posterior = Normal(mean, torch.nn.functional.softplus(raw))
        error = (decoder(posterior.rsample()) - x).square().sum(1).mean()
        loss = error + kl_divergence(posterior, prior).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV678"
    name = "divergence_turned_around"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for backward in case.histories.last_trained_backward_of_each_line:
            for use in flow.log.calls[backward].roots:
                found = divergence_from_prior(flow, backward, use.tensor, wanted=1)
                scale = None if found is None else _scale_below(flow, found.row)
                turned = [] if found is None or scale is None else [(found.row, scale)]
                turned = [each for each in turned if _scales_noise(flow, each[1], each[0])]
                turned += divergences_from_drawn(flow, backward, use.tensor)
                for row, trained in turned:
                    if flow.log.calls[row].call_site not in told:
                        told.add(flow.log.calls[row].call_site)
                        yield self._finding(case, row, trained)

    def _finding(self, case: Case, row: int, scale: int) -> Finding:
        flow = case.dataflow
        return self.finding(
            "this divergence is averaged over the prior, and the loss over samples of the posterior: the two arguments "
            "are swapped",
            symptom="grad_wrong",
            why="kl_divergence(p, q) averages over p; the evidence lower bound averages over what was sampled",
            fix="swap the two: kl_divergence(posterior, prior), or (q * (log_q - prior.log())).sum(-1)",
            location=location_of_call(flow, row),
            tensors=leaf_names_above(flow, scale, row, since=flow.step_before(row)),
        )


_SQUARES = frozenset({"pow", "square"})


def _scale_below(flow: Dataflow, logarithm: int) -> int | None:
    """For ``log((a / b) ** 2)`` with a constant ``a``: the trained scale ``b``."""
    before, call = logarithm, flow.log.calls[logarithm]
    for names in (_SQUARES, {"div"}):
        row = flow.newest_producer(call.inputs[0].tensor, before)
        if row is None or plain_name(flow.log.calls[row].function) not in names:
            return None
        before, call = row, flow.log.calls[row]
    live = call.live_inputs
    return live[0].tensor if len(live) == 1 and live[0].place in ("1", "other") else None


def _scales_noise(flow: Dataflow, scale: int, before: int) -> bool:
    """Whether drawn noise is multiplied by a scale in the same step."""
    for user in flow.users(scale, flow.step_before(before)):
        call = flow.log.calls[user]
        constants = (use for use in call.inputs if not use.requires_grad)
        if plain_name(call.function) == "mul" and has_normal_draw(flow, constants, user):
            return True
    return False
