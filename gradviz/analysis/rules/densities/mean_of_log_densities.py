"""GV845."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.log_densities import squares_of_differences
from gradviz.analysis.rules.bases.formulas.products import product_of, summed_axes
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, value_maker
from gradviz.analysis.rules.bases.losses.signed_terms import signed_terms
from gradviz.graph.call_log import TensorUse


class MeanOfLogDensities(Rule):
    """The likelihood of a mixture is the weighted mean of logarithms, not the logarithm of the weighted mean.

    What it finds
    -------------
    A loss that multiplies the probabilities of a softmax with logarithms of normal densities, whose means and scales
    are trained, and adds them up, where the loss uses these probabilities for nothing else. Weights that are detached,
    as in expectation maximization, are left alone, and so are bounds with an entropy.

    Why it matters
    --------------
    The density of a mixture is the sum of weighted densities. The mean of their logarithms is smaller, and best where
    one component has all the weight: the others are given up, and a target with several answers gets one.

    Example
    -------
    model = torch.nn.Linear(2, 9)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(3):
        x, y = torch.randn(16, 2), torch.randn(16, 1)
        logits, mean, logstd = model(x).chunk(3, dim=-1)
        density = -0.5 * ((y - mean) / logstd.exp()) ** 2 - logstd
        loss = -(logits.softmax(-1) * density).sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(2, 9)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(3):
        x, y = torch.randn(16, 2), torch.randn(16, 1)
        logits, mean, logstd = model(x).chunk(3, dim=-1)
        density = -0.5 * ((y - mean) / logstd.exp()) ** 2 - logstd
        loss = -torch.logsumexp(logits.log_softmax(-1) + density, dim=-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV845"
    name = "mean_of_log_densities"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for backward in case.histories.last_trained_backward_of_each_line:
            for root in flow.log.calls[backward].roots:
                for term in signed_terms(flow, backward, root.tensor):
                    site = flow.log.calls[term.row].call_site
                    weights = None if site in told else _weights(flow, term.row)
                    if weights is not None and _is_used_once(flow, weights, backward):
                        told.add(site)
                        yield self._finding(flow, term.row, weights)

    def _finding(self, flow: Dataflow, row: int, weights: int) -> Finding:
        location, made = two_lines(flow, row, weights)
        return self.finding(
            "the logarithms of the densities of a mixture are averaged with its weights; its likelihood is the "
            "logarithm of the weighted sum of the densities",
            symptom="grad_wrong",
            why="the mean of logarithms is best where one component has all the weight, so the others are given up",
            fix="add the logarithms of the weights, and take the logarithm of the sum: "
            "torch.logsumexp(logits.log_softmax(-1) + density, dim=-1)",
            location=location or location_of_call(flow, weights),
            symptom_location=made,
        )


_SOFTMAX = frozenset({"softmax", "exp"})
_LOGARITHMS = frozenset({"log"})
_MAX_STEPS = 6
_MAX_USERS = 20


def _weights(flow: Dataflow, row: int) -> int | None:
    """The softmax that made the weights, if a call multiplies them with logarithms of normal densities and the products
    are added up over the components."""
    pair = product_of(flow.log.calls[row])
    if pair is None or not all(use.requires_grad for use in pair):
        return None
    for weights, density in (pair, pair[::-1]):
        made = value_maker(flow, weights.tensor, row)
        if made is None or not _is_softmax(flow, made[0]) or not _is_summed(flow, row):
            continue
        squares = squares_of_differences(flow, density, row)
        if squares and _has_scale(flow, density, row, squares):
            return made[0]
    return None


def _is_softmax(flow: Dataflow, row: int) -> bool:
    name = plain_name(flow.log.calls[row].function)
    if name != "exp":
        return name == "softmax"
    made = value_maker(flow, flow.log.calls[row].inputs[0].tensor, row)
    return made is not None and plain_name(made[1].function) == "log_softmax"


def _is_summed(flow: Dataflow, row: int) -> bool:
    """Whether the products are added up, over one axis or by the call itself."""
    call = flow.log.calls[row]
    rank = len(shape_of(flow, call.inputs[0].tensor))
    if summed_axes(call, call.inputs[0], rank):
        return True
    users = [flow.log.calls[user] for user in flow.users(call.outputs[0].tensor, row)]
    return any(plain_name(user.function) == "sum" for user in users)


def _has_scale(flow: Dataflow, density: TensorUse, row: int, squares: list[int]) -> bool:
    """Whether a sum also takes the logarithm of a scale by which the difference was divided."""
    since = flow.step_before(row)
    above = [term.row for term in signed_terms(flow, row, density.tensor)]
    ratios = [each for each in above if plain_name(flow.log.calls[each].function) in ("mul", "div")]
    divided = {
        given.tensor
        for end in (*squares, *(each for each in ratios if len(flow.log.calls[each].live_inputs) > 1))
        for use in flow.log.calls[end].live_inputs
        for each in (end, *flow.ancestors(use.tensor, end, since))
        for given in flow.log.calls[each].live_inputs
    }
    return any(
        _is_of(flow, use, each, divided)
        for each in above
        if plain_name(flow.log.calls[each].function) in ("add", "sub") and each not in squares
        for use in flow.log.calls[each].live_inputs
    )


def _is_of(flow: Dataflow, use: TensorUse, row: int, divided: set[int]) -> bool:
    """Whether a summand is a tensor that a difference was divided by, or by whose exponential it was, or the logarithm
    of one."""
    tensor = use.tensor
    for _ in range(_MAX_STEPS):
        if tensor in divided:
            return True
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or len(call.inputs) != 1:
            return False
        if plain_name(call.function) not in SHAPE_ONLY | _LOGARITHMS | {"mul", "div", "neg", "sum"}:
            return False
        tensor, row = call.inputs[0].tensor, made
    return False


def _is_used_once(flow: Dataflow, weights: int, backward: int) -> bool:
    """Whether nothing else that is computed before a backward reads the weights, or logarithms of them."""
    call = flow.log.calls[weights]
    since = flow.step_before(weights)
    waiting = [use.tensor for use in call.outputs]
    if call.inputs:
        waiting.append(call.inputs[0].tensor)
    products, seen = 0, set[int]()
    while waiting and len(seen) < _MAX_USERS:
        tensor = waiting.pop()
        for user in flow.users(tensor, since):
            used = flow.log.calls[user]
            if user in seen or user >= backward or user == weights or used.kind != "operation":
                continue
            seen.add(user)
            if plain_name(used.function) in SHAPE_ONLY:
                waiting += [use.tensor for use in used.outputs]
            elif used.live_inputs and any(use.requires_grad for use in used.outputs):
                products += 1
    return products == 1
