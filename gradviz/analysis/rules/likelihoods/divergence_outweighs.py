"""GV637."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.dead_terms import live_terms
from gradviz.analysis.dataflow.axes import axes_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.products import summed_axes
from gradviz.analysis.rules.bases.losses.divergences import divergence_from_prior
from gradviz.analysis.rules.bases.losses.scales.sums_and_averages import is_average, is_of_samples, sum_of_batch
from gradviz.analysis.rules.bases.losses.signed_terms import signed_terms


class DivergenceOutweighs(Rule):
    """The divergence from the prior is a sum, the reconstruction error beside it an average.

    What it finds
    -------------
    A loss that adds the divergence of a normal distribution from its prior, summed over the values of a sample, to an
    error that is averaged over all elements, where training has driven the divergence to almost nothing. Also a
    divergence that is summed over the whole batch beside such an average, without a factor that makes up for it.

    Why it matters
    --------------
    The evidence lower bound sums both over the elements of a sample (Kingma and Welling, `Auto-Encoding Variational
    Bayes`, 2014). With an average over 784 pixels the divergence weighs 784 times as much: the encoder says nothing
    about its input any more, and the decoder gives the mean of the data.

    Example
    -------
    encoder, decoder = torch.nn.Linear(16, 4), torch.nn.Linear(2, 16)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.05)
    for step in range(120):
        x = torch.randn(32, 16)
        mu, logvar = encoder(x).chunk(2, dim=1)
        z = mu + (0.5 * logvar).exp() * torch.randn_like(mu)
        error = torch.nn.functional.mse_loss(decoder(z), x)
        divergence = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
        loss = error + divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    encoder, decoder = torch.nn.Linear(16, 4), torch.nn.Linear(2, 16)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.05)
    for step in range(120):
        x = torch.randn(32, 16)
        mu, logvar = encoder(x).chunk(2, dim=1)
        z = mu + (0.5 * logvar).exp() * torch.randn_like(mu)
        error = torch.nn.functional.mse_loss(decoder(z), x, reduction="sum") / len(x)
        divergence = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
        loss = error + divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV637"
    name = "divergence_outweighs"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for backward in case.histories.last_trained_backward_of_each_line:
            for use in flow.log.calls[backward].roots:
                exponential = divergence_from_prior(flow, backward, use.tensor, wanted=1)
                if exponential is not None:
                    collapsed = list(self._findings(case, backward, use.tensor, exponential.row))
                    yield from collapsed or self._of_batch(case, backward, use.tensor, exponential.row)

    def _of_batch(self, case: Case, backward: int, root: int, exponential: int) -> Iterator[Finding]:
        """The divergence is a sum over the whole batch, and the error an average over all of it, both without a factor
        that makes up for it."""
        flow = case.dataflow
        terms = list(signed_terms(flow, backward, root))
        summed = next((row for each in terms if each.row == exponential and (row := sum_of_batch(flow, each))), None)
        averaged = next((each for each in terms if is_average(flow, each)), None)
        if summed is None or averaged is None:
            return
        shape = shape_of(flow, flow.log.calls[averaged.row].inputs[0].tensor)
        if not is_of_samples(flow, exponential, shape[0]):
            return
        location, error = two_lines(flow, summed, averaged.row)
        name = plain_name(flow.log.calls[averaged.row].function)
        yield self.finding(
            f"the divergence from the prior is a sum over all {shape[0]:,} samples of a batch, while {name} averages "
            f"over all their {prod(shape):,} values",
            symptom="grad_wrong",
            why=f"the evidence lower bound sums both over a sample; here the error weighs {prod(shape):,} times less, "
            "and more with a larger batch",
            fix="sum both over the values of a sample and average over the batch: "
            'F.mse_loss(x_hat, x, reduction="sum") / len(x), and divergence.sum() / len(x)',
            location=location,
            symptom_location=error,
            evidence={"values_of_batch": prod(shape)},
        )

    def _findings(self, case: Case, backward: int, root: int, exponential: int) -> Iterator[Finding]:
        flow = case.dataflow
        terms = live_terms(flow, backward, root)
        since = flow.step_before(backward)
        above = {term: flow.ancestors(*term, since) for term in terms}
        divergence = next((term for term in terms if exponential in above[term]), None)
        last = None if divergence is None else _last_if_collapsed(flow, *divergence)
        if divergence is None or last is None:
            return
        for term in terms:
            averaged = _averaged_over(flow, *term) if term != divergence else None
            if averaged is not None:
                row, size = averaged
                yield self._finding(case, row, size, last, flow.newest_producer(*divergence))

    def _finding(self, case: Case, row: int, size: int, last: float, divergence: int | None) -> Finding:
        flow = case.dataflow
        error = plain_name(flow.log.calls[row].function)
        return self.finding(
            f"the divergence from the prior has fallen to {last:.2g}: what is sampled says nothing about the input. It "
            f"is a sum over each sample, while {error} averages over {size:,} values of each",
            symptom="grad_wrong",
            why=f"the evidence lower bound sums both over a sample; here the error weighs {size:,} times less",
            fix="sum the error over the values of a sample and average over the batch: "
            'F.mse_loss(x_hat, x, reduction="sum") / len(x)',
            location=location_of_call(flow, row),
            symptom_location=None if divergence is None else location_of_call(flow, divergence),
            evidence={"divergence": last, "values_of_a_sample": size},
        )


_ALMOST_NOTHING = 0.01
"""Nats for a whole sample: less than the input could be told with."""
_MIN_STEPS = 30


def _samples_in_sum(flow: Dataflow, tensor: int, before: int) -> int | None:
    """Over how many samples a number sums, each of which is a sum itself; 1 for an average, None for other numbers."""
    samples = 1
    for _, call in flow.makers(tensor, before, _MAX_MAKERS):
        name, shape = plain_name(call.function), shape_of(flow, call.inputs[0].tensor) if call.inputs else ()
        if name not in _PASS and not (name == "einsum" and len(call.inputs) == 1):
            return None
        axes = summed_axes(call, call.inputs[0], len(shape)) if name in ("sum", "nansum", "einsum") else None
        if axes:
            samples *= shape[0] if axes == frozenset(range(len(shape))) else 1
            if len(shape) > 1:
                return samples
    return None


_MAX_MAKERS = 6
_PASS = frozenset({"mean", "mul", "div", "neg", "sum"})


def _last_if_collapsed(flow: Dataflow, tensor: int, before: int) -> float | None:
    """The last average over the batch of a divergence, if it was almost nothing for many steps at the end."""
    made, samples = flow.newest_producer(tensor, before), _samples_in_sum(flow, tensor, before)
    if made is None or samples is None:
        return None
    site, function = flow.log.calls[made].call_site, flow.log.calls[made].function
    rows = [row for row, call in enumerate(flow.log.calls) if call.call_site == site and call.function == function]
    numbers = [abs(value) / samples for row in rows if (value := _number(flow, row)) is not None]
    is_low = len(numbers) >= _MIN_STEPS and max(numbers[-_MIN_STEPS // 2 :]) < _ALMOST_NOTHING
    return numbers[-1] if is_low else None


def _number(flow: Dataflow, row: int) -> float | None:
    outputs = flow.log.calls[row].outputs
    values = outputs[0].values if outputs else None
    return values.minimum if values is not None and values.count == 1 else None


def _averaged_over(flow: Dataflow, tensor: int, before: int) -> tuple[int, int] | None:
    """The call that averages over all elements of a batch, and how many there are of each sample; None if none does."""
    for row, call in flow.makers(tensor, before, _MAX_MAKERS):
        name, shape = plain_name(call.function), shape_of(flow, call.inputs[0].tensor) if call.inputs else ()
        is_mean = name == "mean" and not axes_of(call, len(shape))
        if (is_mean or call.scalars.get("reduction") == "mean") and prod(shape[1:]) > 1:
            return row, prod(shape[1:])
        if name not in _PASS:
            return None
    return None
