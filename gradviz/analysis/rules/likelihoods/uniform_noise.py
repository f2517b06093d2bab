"""GV749."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import call_words, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.divergences import divergence_from_prior
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.analysis.rules.bases.losses.schedule_factors import mixed_factors
from gradviz.analysis.rules.bases.samples.drawn_actions import drawn_actions
from gradviz.graph.call_log import Call, TensorUse


class UniformNoise(Rule):
    """The noise of a normal distribution is drawn with ``rand()``, from the numbers between 0 and 1.

    What it finds
    -------------
    A sample ``mu + sigma * torch.rand_like(sigma)`` of which both numbers are trained, in a loss with the divergence of
    a normal distribution from its prior; an action ``mean + sigma * torch.rand(...)``, in a loss that squares its
    distance from the mean of the same policy, as the logarithm of a normal density does; and data that are mixed with
    such noise by a schedule of ``cumprod()``, as in a diffusion model. Numbers that were moved or scaled before they
    are used are left alone.

    Why it matters
    --------------
    ``rand`` draws from 0 to 1, ``randn`` from a normal distribution. The samples are never below their mean, so that
    the decoder never sees half of the space, and samples that are drawn later from the prior are strange to it. The
    loss goes down as usual.

    Example
    -------
    encoder, decoder = torch.nn.Linear(6, 4), torch.nn.Linear(2, 6)
    optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.01)
    for step in range(3):
        x = torch.randn(8, 6)
        mu, logvar = encoder(x).chunk(2, dim=1)
        z = mu + (0.5 * logvar).exp() * torch.rand_like(mu)
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

    code = "GV749"
    name = "uniform_noise"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for draw, use, words in (*_in_samples(case), *_in_policies(case), *_in_diffusions(flow)):
            site = flow.log.calls[draw].call_site
            if site not in told:
                told.add(site)
                yield self._finding(flow, draw, use, words)

    def _finding(self, flow: Dataflow, draw: int, use: int, words: str) -> Finding:
        location, used = two_lines(flow, draw, use)
        call = flow.log.calls[draw]
        normal = call_words(call).replace("rand", "randn").replace("uniform", "normal_")
        return self.finding(
            f"{call_words(call)} draws numbers from 0 to 1, where {words}",
            symptom="grad_wrong",
            why="all of this noise is positive, with a mean of 0.5: the model is trained on other samples than those "
            "that a normal distribution gives later",
            fix=f"draw from a normal distribution: {normal}",
            location=location,
            symptom_location=used,
        )


_DRAWS = frozenset({"rand", "rand_like", "uniform"})
_BOTH = 2
Found = tuple[int, int, str]


def _in_samples(case: Case) -> Iterator[Found]:
    """Draws that are scaled and moved by numbers which a divergence holds near a normal distribution."""
    flow = case.dataflow
    for backward in case.histories.last_trained_backward_of_each_line:
        for use in flow.log.calls[backward].roots:
            if divergence_from_prior(flow, backward, use.tensor, wanted=1) is None:
                continue
            for row in flow.ancestors(use.tensor, backward, flow.step_before(backward)):
                draw = _draw_of_sample(flow, row)
                if draw is not None:
                    yield draw, row, "the loss takes the sample for one of a normal distribution"


def _in_policies(case: Case) -> Iterator[Found]:
    """Draws that an action adds to its mean, in a loss that has the density of a normal distribution."""
    for found in drawn_actions(case, _is_uniform):
        yield found.draw, found.square, "the loss takes the action for one of a normal distribution"


def _draw_of_sample(flow: Dataflow, row: int) -> int | None:
    """The draw in ``mu + sigma * draw``, of which the other two are trained."""
    call = flow.log.calls[row]
    name = plain_name(call.function)
    if name == "addcmul" and call.inputs and call.inputs[0].requires_grad:
        return _draw_beside_trained(flow, call.inputs[1:], row)
    if name != "add" or len(call.live_inputs) != _BOTH:
        return None
    for use in call.live_inputs:
        made = flow.newest_producer(use.tensor, row)
        product = None if made is None else flow.log.calls[made]
        if made is not None and product is not None and plain_name(product.function) == "mul":
            draw = _draw_beside_trained(flow, product.inputs, made)
            if draw is not None:
                return draw
    return None


def _draw_beside_trained(flow: Dataflow, factors: tuple[TensorUse, ...], before: int) -> int | None:
    if len(factors) != _BOTH or sum(use.requires_grad for use in factors) != 1:
        return None
    return _uniform_draw(flow, next(use for use in factors if not use.requires_grad), before)


def _uniform_draw(flow: Dataflow, use: TensorUse, before: int) -> int | None:
    """The call that drew numbers from 0 to 1, which nothing has changed since."""
    made = value_maker(flow, use.tensor, before)
    return made[0] if made is not None and _is_uniform(made[1]) else None


def _is_uniform(call: Call) -> bool:
    values = call.outputs[0].values if call.outputs and plain_name(call.function) in _DRAWS else None
    if values is None or values.minimum is None or values.maximum is None:
        return False
    return values.minimum >= 0 and values.maximum <= 1


def _in_diffusions(flow: Dataflow) -> Iterator[Found]:
    """Draws that are mixed with data by the products of a schedule."""
    for row, call in enumerate(flow.log.calls):
        if not flow.has_step_after(row):
            return
        mixed = mixed_factors(flow, row, call)
        for factor in mixed or ():
            for use in flow.log.calls[factor.row].inputs:
                draw = _uniform_draw(flow, use, factor.row)
                if draw is not None:
                    yield draw, row, "a diffusion model needs noise from a normal distribution"
