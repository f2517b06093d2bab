"""GV758."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.fits import Fit, fits_in, weights_of
from gradviz.analysis.rules.bases.losses.log_probabilities import DRAWS, makers_of_values
from gradviz.analysis.rules.bases.losses.loss_arguments import PARTS, SHAPE_ONLY, tensor_before
from gradviz.analysis.rules.bases.losses.signed_terms import signed_terms


class DrawnTwice(Rule):
    """A policy gradient rewards another sample than the action that got the reward.

    What it finds
    -------------
    A loss that weighs the log-probabilities of samples with rewards, which the program computed from other samples of
    the same distribution. It is found where the rewards are computed with torch from those samples.

    Why it matters
    --------------
    Every call of ``sample()`` draws anew. Which action was good is then not related to the action whose probability
    rises, and what the policy learns is noise.

    Example
    -------
    policy = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(16, 4)
        distribution = torch.distributions.Categorical(logits=policy(x))
        action = distribution.sample()
        reward = (action == (x[:, 0] > 0).long()).float()
        loss = -(distribution.log_prob(distribution.sample()) * (reward - reward.mean())).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    policy = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(16, 4)
        distribution = torch.distributions.Categorical(logits=policy(x))
        action = distribution.sample()
        reward = (action == (x[:, 0] > 0).long()).float()
        loss = -(distribution.log_prob(action) * (reward - reward.mean())).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV758"
    name = "drawn_twice"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for backward in case.histories.last_trained_backward_of_each_line:
            for root in flow.log.calls[backward].roots:
                for fit in fits_in(flow, list(signed_terms(flow, backward, root.tensor))):
                    found = _draws(flow, fit) if fit.is_drawn else None
                    if found is not None and flow.log.calls[found.scored].call_site not in told:
                        told.add(flow.log.calls[found.scored].call_site)
                        yield self._finding(case, fit, found)

    def _finding(self, case: Case, fit: Fit, found: _Draws) -> Finding:
        flow = case.dataflow
        results = [use.tensor for use in flow.log.calls[fit.term.row].outputs]
        policy = case.histories.live_leaves(results, fit.term.row + 1)[0] & case.histories.trained
        location, scored = location_of_call(flow, found.scored), location_of_call(flow, fit.term.row)
        rewarded = location_of_call(flow, found.rewarded)
        return self.finding(
            f"the loss weighs log-probabilities of a new sample, but the reward is that of another one, drawn"
            f"{at_line(rewarded)}",
            symptom="grad_wrong",
            why="every sample() draws anew: the reward is not related to the action whose probability it raises",
            fix="take the action that was rewarded: dist.log_prob(action), and no second sample()",
            location=location,
            symptom_location=scored if scored != location else None,
            tensors=names_of(flow, sorted(policy)),
        )


class _Draws(Struct, frozen=True):
    """Two samples of one distribution."""

    scored: int
    rewarded: int


_MOST_MAKERS = 30


def _draws(flow: Dataflow, fit: Fit) -> _Draws | None:
    """The sample of which a loss takes the log-probability, if another one made all that it is weighed with."""
    scored = next((row for each in fit.targets if (row := _draw_of(flow, each, fit.term.row)) is not None), None)
    if scored is None:
        return None
    since, source = flow.step_before(scored), _source(flow, scored)
    above = {
        row
        for weight in weights_of(flow, fit.term)
        if weight.tensor is not None
        for row in flow.ancestors(weight.tensor, weight.row, since=since)
    }
    rewarded = (row for row in sorted(above, reverse=True) if _is_draw(flow, row) and _source(flow, row) == source)
    other = next(rewarded, None)
    if other is None or scored in above or any(_is_from_outside(flow, row, scored) for row in above):
        return None
    return _Draws(scored, other)


def _is_from_outside(flow: Dataflow, row: int, after: int) -> bool:
    """Whether a call takes values that came into torch after a draw: an environment may have made them of it."""
    call = flow.log.calls[row]
    made_later = row > after and not call.inputs
    return made_later or any(
        not flow.is_made(use.tensor, row) and (flow.log.tensors[use.tensor].first_seen or 0) > after
        for use in call.inputs
    )


def _is_draw(flow: Dataflow, row: int) -> bool:
    call = flow.log.calls[row]
    return plain_name(call.function) in DRAWS and bool(call.inputs)


def _draw_of(flow: Dataflow, tensor: int, before: int) -> int | None:
    rows = (row for row, _ in makers_of_values(flow, tensor, before, _MOST_MAKERS))
    return next((row for row in rows if _is_draw(flow, row)), None)


def _source(flow: Dataflow, row: int) -> tuple[str, tuple[int, ...]]:
    """The kind of a draw, and the tensors that say what it draws from, before they became probabilities."""
    call = flow.log.calls[row]
    return plain_name(call.function), tuple(
        tensor_before(flow, use.tensor, row, _SAME_DISTRIBUTION) for use in call.inputs
    )


_SAME_DISTRIBUTION = (SHAPE_ONLY - PARTS) | {"softmax", "sigmoid", "exp", "detach"}
"""What may be computed anew for each draw from the same scores."""
