"""GV722."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.means import WITH_MEANS
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.analysis.rules.bases.losses.targets.fitted_values import ALL_VALUES, fitted_values
from gradviz.graph.call_log import Call


class TargetOfNormalized(Rule):
    """Values are added to advantages that were normalized before, and the sum is what the values are fitted to.

    What it finds
    -------------
    An error whose target is ``normalized + values``, where ``normalized`` is ``(x - x.mean()) / x.std()`` and ``x``
    was computed from the same values, as advantages are.

    Why it matters
    --------------
    An advantage is the return less the value, so that the value gives the return back when it is added. A normalized
    advantage has another size and another mean: the sum is the return of nothing, and the critic never gets closer to
    what is really paid.

    Example
    -------
    critic = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
    for step in range(3):
        states, rewards = torch.randn(16, 4), 5 + torch.randn(16)
        values = critic(states).squeeze(1)
        kept = values.detach()
        advantages = rewards - kept
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        returns = advantages + kept
        loss = torch.nn.functional.mse_loss(values, returns)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    critic = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
    for step in range(3):
        states, rewards = torch.randn(16, 4), 5 + torch.randn(16)
        values = critic(states).squeeze(1)
        kept = values.detach()
        advantages = rewards - kept
        returns = advantages + kept
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        loss = torch.nn.functional.mse_loss(values, returns)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV722"
    name = "target_of_normalized"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told, seen = case.dataflow, set[int | None](), set[int]()
        for _, target in fitted_values(flow):
            row = _sum_behind(flow, target)
            if row is None or row in seen:
                continue
            seen.add(row)
            normalizing = _normalizing(flow, row)
            if normalizing is not None and flow.log.calls[row].call_site not in told:
                told.add(flow.log.calls[row].call_site)
                yield self._finding(flow, row, normalizing)

    def _finding(self, flow: Dataflow, row: int, normalizing: int) -> Finding:
        location, earlier = two_lines(flow, row, normalizing)
        return self.finding(
            "the target is the sum of values and of advantages that were normalized"
            f"{at_line(location_of_call(flow, normalizing))}: it has neither the mean nor the size of the returns",
            symptom="grad_wrong",
            why="an advantage is the return less the value, and gives the return back only as long as it is not scaled",
            fix="add the values first, returns = advantages + values, and normalize the advantages afterwards",
            location=location,
            symptom_location=earlier,
        )


_BOTH = 2
_PARTS = frozenset({"getitem", "index_select", "gather", "take", "take_along_dim", "split", "chunk", "unbind", "stack"})
"""They give some rows of their first input, or put rows together."""
_SPREADS = frozenset({"std", "var", "std_mean", "var_mean", "pow", "square"})
_MAX_PARTS = 8
_MAX_AROUND = 8


def _sum_behind(flow: Dataflow, target: int) -> int | None:
    """The sum of two tensors from which rows were taken as a target."""
    before = len(flow.log.calls)
    for _ in range(_MAX_PARTS):
        made = value_maker(flow, target, before, through=ALL_VALUES)
        if made is None or not made[1].inputs:
            return None
        before, call = made
        if plain_name(call.function) == "add" and len(call.inputs) == _BOTH and not call.scalars:
            return before
        if plain_name(call.function) not in _PARTS:
            return None
        target = call.inputs[0].tensor
    return None


def _normalizing(flow: Dataflow, row: int) -> int | None:
    """The division that normalized one side of a sum, if it was computed from what is on the other side."""
    for one, other in (flow.log.calls[row].inputs, flow.log.calls[row].inputs[::-1]):
        made = value_maker(flow, one.tensor, row, through=ALL_VALUES | {"clamp"})
        if made is None or not _is_normalization(flow, *made):
            continue
        rows = flow.ancestors(made[1].inputs[0].tensor, made[0])
        memory = {flow.memory_of(use.tensor) for each in rows for use in flow.log.calls[each].inputs}
        if flow.memory_of(other.tensor) in memory:
            return made[0]
    return None


def _is_normalization(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether a call divides ``x - x.mean()`` by a spread, or multiplies it by one over a spread."""
    name = plain_name(call.function)
    if name not in _SCALES or len(call.inputs) != _BOTH:
        return False
    pairs = (call.inputs, call.inputs[::-1]) if name == "mul" else (call.inputs,)
    return any(_is_centred(flow, row, one.tensor) and _is_spread(flow, row, other.tensor, name) for one, other in pairs)


_SCALES = frozenset({"div", "mul"})
_INVERSES = frozenset({"rsqrt", "reciprocal", "rdiv", "rtruediv", "div", "pow"})


def _is_centred(flow: Dataflow, row: int, tensor: int) -> bool:
    made = value_maker(flow, tensor, row)
    if made is None or plain_name(made[1].function) != "sub" or len(made[1].inputs) != _BOTH:
        return False
    mean = flow.makers(made[1].inputs[1].tensor, made[0], _MAX_AROUND)
    return any(plain_name(each.function) in WITH_MEANS for _, each in mean)


def _is_spread(flow: Dataflow, row: int, tensor: int, name: str) -> bool:
    """Whether it is a spread, or, where it multiplies, one over a spread."""
    around = [plain_name(each.function) for _, each in flow.makers(tensor, row, _MAX_AROUND)]
    is_inverse = name == "div" or any(each in _INVERSES for each in around)
    return is_inverse and any(each in _SPREADS for each in around)
