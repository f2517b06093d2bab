"""GV841."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, call_words, calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.survivals import (
    Survival,
    complement_of,
    factors_of,
    maker_of_values,
    survival_of,
    values_behind,
)
from gradviz.graph.call_log import Call


class SurvivalCountsItself(Rule):
    """The share of what reaches a step also counts what that step itself takes away.

    What it finds
    -------------
    Shares ``a`` of several steps, multiplied by the product of all ``1 - a`` up to and including their own:
    ``a * cumprod(1 - a)``, or ``a`` of an exponential and the exponential of its cumulative sum. So it is where a
    volume is rendered along rays, in stick-breaking weights, and in the probability to halt at a step.

    Why it matters
    --------------
    What reaches step ``i`` is what the steps before it left: the product over ``j < i`` (Mildenhall et al. 2020,
    https://arxiv.org/abs/2003.08934, equation 3). With their own factor the weights are ``a * (1 - a)``: a step that
    takes everything, an opaque surface, has weight 0. Nothing raises, and the weights do not add up to 1.

    Example
    -------
    field = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(field.parameters(), lr=0.1)
    for step in range(3):
        density, color = field(torch.rand(4, 6, 3)).unbind(-1)
        alpha = 1 - torch.exp(-torch.relu(density + 1) * 0.1)
        left = torch.cumprod(1 - alpha, dim=1)
        loss = ((alpha * left * color).sum(1) - 0.5).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    field = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(field.parameters(), lr=0.1)
    for step in range(3):
        density, color = field(torch.rand(4, 6, 3)).unbind(-1)
        alpha = 1 - torch.exp(-torch.relu(density + 1) * 0.1)
        left = torch.cumprod(torch.cat([torch.ones(4, 1), 1 - alpha], dim=1), dim=1)[:, :-1]
        loss = ((alpha * left * color).sum(1) - 0.5).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV841"
    name = "survival_counts_itself"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        if not any(plain_name(each) in _CUMULATIVE for each in flow.functions):
            return
        for row, call in calls_named(flow, _PRODUCTS):
            if len(call.live_inputs) != _BOTH or call.call_site in told or not flow.has_step_after(row):
                continue
            told.add(call.call_site)
            survival = _own_survival(flow, row, call)
            if survival is not None and not _is_divided_out(flow, row, call):
                yield self._finding(flow, row, survival)

    def _finding(self, flow: Dataflow, row: int, survival: Survival) -> Finding:
        location, other = two_lines(flow, survival.row, row)
        name = call_words(flow.log.calls[survival.row])
        return self.finding(
            f"{name} runs over what each step leaves, its own included, and the shares of the same steps are "
            f"multiplied by it{at_line(other)}: a step that takes everything has weight 0",
            symptom="grad_wrong",
            why="what reaches a step is what the steps before it have left",
            fix="shift it by one step: torch.cumprod(torch.cat([torch.ones_like(a[:, :1]), 1 - a], 1), 1)[:, :-1]",
            location=location,
            symptom_location=other,
        )


_CUMULATIVE = frozenset({"cumprod", "cumsum"})
_PRODUCTS = frozenset({"mul"})
_BOTH = 2
_MAX_USERS = 4


def _own_survival(flow: Dataflow, row: int, call: Call) -> Survival | None:
    """The cumulative product by which a call multiplies the shares of which it is made."""
    for share, product in (call.inputs[:2], call.inputs[1::-1]):
        if shape_of(flow, share.tensor) != shape_of(flow, product.tensor):
            continue
        survival = survival_of(flow, product.tensor, row)
        if survival is not None and _is_of_shares(flow, survival, share.tensor, row):
            return survival
    return None


def _is_of_shares(flow: Dataflow, survival: Survival, share: int, row: int) -> bool:
    """Whether a share is one minus what the product accumulates."""
    share, left = values_behind(flow, share, row), survival.left
    kept = complement_of(flow, share, row)
    if left is not None:
        own = values_behind(flow, left, survival.row)
        taken = complement_of(flow, own, survival.row)
        is_complement = taken is not None and values_behind(flow, taken, survival.row) == share
        return is_complement or (kept is not None and values_behind(flow, kept, row) == own)
    made = None if kept is None else maker_of_values(flow, kept, row)
    if made is None or plain_name(made[1].function) != "exp":
        return False
    return factors_of(flow, made[1].inputs[0].tensor, made[0]) == survival.rates


def _is_divided_out(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether the product of both is divided by something at once, as by the factor of the step itself."""
    result = call.outputs[0].tensor
    users = [flow.log.calls[each] for each in flow.users(result, row)[:_MAX_USERS]]
    return any(plain_name(user.function) == "div" and len(user.inputs) == _BOTH for user in users)
