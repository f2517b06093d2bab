"""GV838."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call, TensorUse


class EstimateTurnedAround(Rule):
    """An estimate of a divergence has its log-ratio the wrong way round for the model that drew the samples.

    What it finds
    -------------
    ``exp(d) - d - 1`` with ``d = policy - reference``, the log-probabilities of a trained model and of a fixed one, for
    tokens that were drawn from the trained model.

    Why it matters
    --------------
    For samples of the policy, ``exp(d) - 1 - d`` has the average of the divergence of the policy from the reference if
    ``d`` is ``reference - policy``: then ``exp(d)`` has the average 1 (Schulman 2020, "Approximating KL Divergence").
    Turned around, ``exp(d)`` grows without bound where the policy has become more certain than the reference, and the
    penalty is no divergence.

    Example
    -------
    policy, reference = torch.nn.Linear(4, 5), torch.nn.Linear(4, 5).requires_grad_(False)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    for step in range(3):
        states = torch.randn(16, 4)
        with torch.no_grad():
            tokens = torch.multinomial(policy(states).softmax(1), 1)
        new = policy(states).log_softmax(1).gather(1, tokens)
        fixed = reference(states).log_softmax(1).gather(1, tokens)
        d = new - fixed
        loss = (d.exp() - d - 1).mean() - (new * torch.randn(16, 1)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    policy, reference = torch.nn.Linear(4, 5), torch.nn.Linear(4, 5).requires_grad_(False)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    for step in range(3):
        states = torch.randn(16, 4)
        with torch.no_grad():
            tokens = torch.multinomial(policy(states).softmax(1), 1)
        new = policy(states).log_softmax(1).gather(1, tokens)
        fixed = reference(states).log_softmax(1).gather(1, tokens)
        d = fixed - new
        loss = (d.exp() - d - 1).mean() - (new * torch.randn(16, 1)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV838"
    name = "estimate_turned_around"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        last: dict[int | None, tuple[int, int]] = {}
        for row, call in calls_named(flow, ("exp", "expm1")):
            ratio = flow.newest_producer(call.inputs[0].tensor, row) if call.live_inputs else None
            end = None if ratio is None else _end_of_estimate(flow, row, call)
            if ratio is not None and end is not None and _is_policy_less_other(flow.log.calls[ratio]):
                last[flow.log.calls[ratio].call_site] = ratio, end
        for ratio, end in last.values():
            if flow.has_step_after(end) and _is_turned_around(case, ratio):
                yield self._finding(flow, ratio, end)

    def _finding(self, flow: Dataflow, ratio: int, end: int) -> Finding:
        location, later = two_lines(flow, ratio, end)
        return self.finding(
            "exp(d) - d - 1 estimates a divergence with d = policy - reference, and its samples were drawn from the "
            f"policy: it should be the other way round{'' if later is None else f', for line {later.line}'}",
            symptom="grad_wrong",
            why="exp(policy - reference) has no bounded average over samples of the policy; that of exp(reference - "
            "policy) is 1",
            fix="subtract the policy's log-probability from that of the reference: d = reference - policy",
            location=location or location_of_call(flow, end),
            symptom_location=later,
        )


_BOTH = 2
_DRAWS = frozenset({"multinomial", "bernoulli"})


def _is_policy_less_other(call: Call) -> bool:
    is_pair = plain_name(call.function) == "sub" and len(call.inputs) == _BOTH and "alpha" not in call.scalars
    return is_pair and [use.requires_grad for use in call.inputs] == [True, False]


def _end_of_estimate(flow: Dataflow, row: int, call: Call) -> int | None:
    """The call that subtracts the log-ratio from its exponential, of which 1 may have been taken before."""
    ratio, tensor = call.inputs[0].tensor, call.outputs[0].tensor
    for _ in range(_BOTH):
        users = [user for user in flow.users(tensor, row) if plain_name(flow.log.calls[user].function) == "sub"]
        for user in users:
            inputs = flow.log.calls[user].inputs
            if len(inputs) == _BOTH and (inputs[0].tensor, inputs[1].tensor) == (tensor, ratio):
                return user
        single = next((user for user in users if len(flow.log.calls[user].inputs) == 1), None)
        if single is None:
            return None
        tensor, row = flow.log.calls[single].outputs[0].tensor, single
    return None


def _is_turned_around(case: Case, ratio: int) -> bool:
    """Whether a fixed model computed what is subtracted, and the trained one drew what both are computed of."""
    flow, trained = case.dataflow, case.histories.trained
    new, fixed = (use.tensor for use in flow.log.calls[ratio].inputs)
    others = _parameters_above(flow, fixed, ratio)
    if not others or not others.isdisjoint(trained):
        return False
    above = [row for row in flow.ancestors(new, ratio) if plain_name(flow.log.calls[row].function) in _DRAWS]
    drawn = [_parameters_above(flow, flow.log.calls[row].outputs[0].tensor, row + 1) for row in above[-_MAX_DRAWS:]]
    return any(not each.isdisjoint(trained) and each.isdisjoint(others) for each in drawn)


_MAX_DRAWS = 4
_MAX_MAKERS = 2_000


def _parameters_above(flow: Dataflow, tensor: int, before: int) -> set[int]:
    """The parameters that a tensor was computed with, and not the ids that it was computed of."""
    tensors = flow.log.tensors
    calls = flow.makers_above(tensor, before, _MAX_MAKERS, lambda call: [u for u in call.inputs if _is_float(flow, u)])
    return {use.tensor for _, call in calls for use in call.inputs if tensors[use.tensor].role == "parameter"}


def _is_float(flow: Dataflow, use: TensorUse) -> bool:
    return "float" in flow.log.tensors[use.tensor].facts.dtype
