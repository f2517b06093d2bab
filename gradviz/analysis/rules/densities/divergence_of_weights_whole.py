"""GV844."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axes_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.parameters.weighted_parameters import number_given
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.scales.sums_and_averages import factor_of
from gradviz.analysis.rules.bases.losses.signed_terms import Term, signed_terms
from gradviz.analysis.rules.bases.samples.sampled_weights import leaves_without_data, scales_of_sampled_weights


class DivergenceOfWeightsWhole(Rule):
    """The divergence of drawn weights from their prior counts in full beside the mean error of a batch.

    What it finds
    -------------
    A loss of a network whose weights are drawn at every step around parameters (``mu + sigma * noise``), which adds a
    sum over all these weights, made of the scales of that noise, to an average over the samples of a batch. Where the
    sum is divided by a number, or multiplied with one that is not near 1, it is left alone.

    Why it matters
    --------------
    The evidence lower bound has the divergence of the weights once for the whole data set (Blundell et al., `Weight
    Uncertainty in Neural Networks`, 2015). Beside the mean over the samples it weighs as many times too much as there
    are samples: the weights go to their prior, and the data are hardly learned.

    Example
    -------
    mu, rho = torch.nn.Parameter(torch.randn(3, 8)), torch.nn.Parameter(torch.full((3, 8), -3.0))
    optimizer = torch.optim.Adam([mu, rho], lr=0.01)
    data, labels = torch.randn(200, 8), torch.randint(0, 3, (200,))
    for step in range(3):
        i = torch.randint(0, 200, (20,))
        sigma = torch.nn.functional.softplus(rho)
        weight = mu + sigma * torch.randn_like(sigma)
        error = torch.nn.functional.cross_entropy(data[i] @ weight.T, labels[i])
        divergence = (0.5 * (sigma**2 + mu**2 - 1) - sigma.log()).sum()
        loss = error + divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    mu, rho = torch.nn.Parameter(torch.randn(3, 8)), torch.nn.Parameter(torch.full((3, 8), -3.0))
    optimizer = torch.optim.Adam([mu, rho], lr=0.01)
    data, labels = torch.randn(200, 8), torch.randint(0, 3, (200,))
    for step in range(3):
        i = torch.randint(0, 200, (20,))
        sigma = torch.nn.functional.softplus(rho)
        weight = mu + sigma * torch.randn_like(sigma)
        error = torch.nn.functional.cross_entropy(data[i] @ weight.T, labels[i])
        divergence = (0.5 * (sigma**2 + mu**2 - 1) - sigma.log()).sum()
        loss = error + divergence / len(data)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV844"
    name = "divergence_of_weights_whole"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for backward in case.histories.last_trained_backward_of_each_line:
            for use in flow.log.calls[backward].roots:
                scales = scales_of_sampled_weights(flow, use.tensor, backward)
                if scales:
                    yield from self._of_loss(flow, backward, use.tensor, scales)

    def _of_loss(self, flow: Dataflow, backward: int, root: int, scales: frozenset[int]) -> Iterator[Finding]:
        terms = list(signed_terms(flow, backward, root))
        since = flow.step_before(backward)
        averages = [
            each
            for each in terms
            if _is_average(flow, each)
            and _has_data(flow, each.row, since)
            and not _averages_draws(flow, each.row, since, scales)
        ]
        known = next((factor for each in averages if (factor := factor_of(flow, each))), None)
        whole: dict[int, frozenset[int]] = {}
        for number, term in enumerate(terms if known else ()):
            leaves = _leaves_of_sum(flow, term, since)
            if known and leaves and not scales.isdisjoint(leaves) and factor_of(flow, term) / known > _LEAST_RATIO:
                whole[number] = leaves
        if whole:
            yield self._finding(flow, terms[min(whole)], averages[0], scales & frozenset().union(*whole.values()))

    def _finding(self, flow: Dataflow, term: Term, average: Term, scales: frozenset[int]) -> Finding:
        shared = [row for row in term.path if row in average.path]
        name = plain_name(flow.log.calls[average.row].function)
        location, error = two_lines(flow, shared[-1] if shared else term.row, average.row)
        weights = sum(prod(shape_of(flow, each)) for each in scales)
        return self.finding(
            f"the divergence from the prior of {weights:,} drawn weights counts in full beside {name}(), which is an "
            "average over the samples of a batch",
            symptom="grad_wrong",
            why="the bound has it once for the whole data set: beside the mean over samples, it weighs too much by "
            "their number",
            fix="divide the divergence by the number of samples in the data set: error + divergence / len(data)",
            location=location,
            symptom_location=error,
            tensors=names_of(flow, sorted(scales)),
            evidence={"weights": weights},
        )


_LEAST_RATIO = 0.2
"""Factors such as 0.5 belong to a divergence; smaller ones are there to weigh it."""
_MEANS = frozenset({"mean", "nanmean"})


def _is_average(flow: Dataflow, term: Term) -> bool:
    """Whether a call averages over all values that it takes."""
    call = flow.log.calls[term.row]
    rank = len(shape_of(flow, call.inputs[0].tensor)) if call.inputs else 0
    is_mean = plain_name(call.function) in _MEANS and rank > 0 and not axes_of(call, rank)
    is_mean = is_mean and not _averages_sums(flow, call.inputs[0].tensor, term.row)
    return is_mean or call.scalars.get("reduction") == "mean"


def _averages_sums(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether each of the values is a sum over the whole batch, as for several draws of the weights."""
    made = flow.producers(tensor, row)
    if not made or plain_name(flow.log.calls[made[-1]].function) != "stack":
        return False
    values = [use.tensor for use in flow.log.calls[made[-1]].inputs]
    makers = [flow.log.calls[rows[-1]] for value in values if (rows := flow.producers(value, made[-1]))]
    is_whole = not any(shape_of(flow, value) for value in values)
    return is_whole and all("sum" in (plain_name(call.function), call.scalars.get("reduction")) for call in makers)


def _averages_draws(flow: Dataflow, row: int, since: int, scales: frozenset[int]) -> bool:
    """Whether a call averages sums over the batch, one for each of several draws of the weights along one more axis."""
    shape = shape_of(flow, flow.log.calls[row].inputs[0].tensor)
    made = flow.newest_producer(flow.log.calls[row].inputs[0].tensor, row)
    if len(shape) != 1 or made is None or plain_name(flow.log.calls[made].function) != "sum":
        return False
    drawn = {(*shape, *shape_of(flow, each)) for each in scales}
    above = (flow.log.calls[each] for each in flow.ancestors(flow.log.calls[row].inputs[0].tensor, row, since))
    return any(plain_name(call.function) == "mul" and shape_of(flow, call.outputs[0].tensor) in drawn for call in above)


def _has_data(flow: Dataflow, row: int, since: int) -> bool:
    return leaves_without_data(flow, flow.log.calls[row].outputs[0].tensor, row + 1, since) is None


def _factor_inside(flow: Dataflow, row: int) -> float:
    """By which numbers what is summed was multiplied and divided last."""
    factor = 1.0
    for _, call in flow.makers(flow.log.calls[row].inputs[0].tensor, row, _MAX_FACTORS):
        name = plain_name(call.function)
        number = number_given(call, "1", "other") if len(call.inputs) == 1 else None
        if name not in ("mul", "div") or not number:
            break
        factor *= number if name == "mul" else 1 / number
    return abs(factor)


_MAX_FACTORS = 4


def _leaves_of_sum(flow: Dataflow, term: Term, since: int) -> frozenset[int] | None:
    """The parameters of which a sum over all elements is made, if no data took part and nothing averages it."""
    call = flow.log.calls[term.row]
    rank = len(shape_of(flow, call.inputs[0].tensor)) if call.inputs else 0
    is_whole = plain_name(call.function) == "sum" and rank > 0 and not axes_of(call, rank)
    if not is_whole or any(plain_name(flow.log.calls[row].function) in _MEANS for row in term.path):
        return None
    if _factor_inside(flow, term.row) < _LEAST_RATIO:
        return None
    return leaves_without_data(flow, call.outputs[0].tensor, term.row + 1, since)
