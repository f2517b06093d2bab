"""GV653."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.all_objectives import AllObjectives
from gradviz.analysis.rules.bases.losses.fits import Fit, Weight, fits_in, sign_without, turns_sign, weights_of
from gradviz.analysis.rules.bases.losses.objectives import (
    Objective,
    is_plain_descent,
)
from gradviz.analysis.rules.bases.losses.rewards import is_of_rewards, may_be_small
from gradviz.analysis.rules.bases.losses.signed_terms import Term


class FitMaximized(Rule):
    """The loss gets smaller as the fit gets worse.

    What it finds
    -------------
    A loss that subtracts ``cross_entropy``, ``mse_loss``, ``(model(x) - y)**2``, or that adds the log-probabilities of
    labels or the logarithm of a ratio over the squares of an error, such as a signal-to-noise ratio in dB, or the
    logarithm of a mixture of densities, where nothing else trains the same parameters. Also log-probabilities of drawn
    actions times rewards, returns or advantages, by their names, that are added. Adversaries, constant targets, steps
    with ``maximize=True`` and gradients that the program changes are left out.

    Why it matters
    --------------
    A step makes the loss smaller: it makes the labels less likely, or the actions that were rewarded. The loss falls
    and looks like training.

    Example
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, labels = torch.randn(16, 4), torch.randint(0, 3, (16,))
        log_p = torch.log_softmax(model(x), dim=1)
        loss = log_p[torch.arange(16), labels].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, labels = torch.randn(16, 4), torch.randint(0, 3, (16,))
        log_p = torch.log_softmax(model(x), dim=1)
        loss = -log_p[torch.arange(16), labels].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV653"
    name = "fit_maximized"
    severity = "warning"
    yields_to = ("reversed_twice", "arguments_in_other_order")

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        program = AllObjectives(case)
        is_known = all(each.is_whole for each in program.objectives)
        for objective in (*program.objectives, *program.named) if is_known else ():
            for fit in fits_in(flow, objective.terms):
                site = flow.log.calls[fit.term.row].call_site
                if site in told:
                    continue
                weights = weights_of(flow, fit.term)
                is_weighed = any(weight.tensor is None or shape_of(flow, weight.tensor) for weight in weights)
                is_policy = is_weighed or (weights and fit.is_drawn)
                make = partial(self._policy if is_policy else self._supervised, case, objective, fit)
                finding = make(program, weights)
                if finding is not None:
                    told.add(site)
                    yield finding

    def _supervised(
        self, case: Case, objective: Objective, fit: Fit, program: AllObjectives, _: list[Weight]
    ) -> Finding | None:
        flow = case.dataflow
        if not fit.is_worsened or not fit.term.is_sure or fit.is_drawn or not _vary(flow, fit):
            return None
        if fit.is_score and _counts_in_other_ways(objective, fit.term):
            return None
        leaves = objective.leaves_of(fit.term) - program.trained_otherwise
        if not leaves or not is_plain_descent(case, objective, fit.term):
            return None
        here, compared = location_of_call(flow, _edited(case, fit.term)), location_of_call(flow, fit.term.row)
        is_ratio = fit.is_score and plain_name(flow.log.calls[fit.term.row].function) in _LOGARITHMS
        what = "a ratio over its error" if is_ratio else "the log-probabilities of its targets"
        verb = f"adds {what}" if fit.is_score else "subtracts the error"
        return self.finding(
            f"the loss {verb}: training makes the fit worse, and nothing else trains these parameters",
            symptom="grad_wrong",
            why="a step makes the loss smaller, so what should get smaller must be added, and what should grow "
            "subtracted",
            fix=f"turn the sign around: loss = -{'ratio' if is_ratio else 'log_p'}.mean()"
            if fit.is_score
            else "leave out the minus before the error",
            location=here,
            symptom_location=compared if compared != here else None,
            tensors=names_of(flow, sorted(leaves)),
        )

    def _policy(
        self, case: Case, objective: Objective, fit: Fit, program: AllObjectives, weights: list[Weight]
    ) -> Finding | None:
        flow = case.dataflow
        is_worsened = (sign_without(flow, fit.term, weights) > 0) is fit.is_score
        rewarded = next((each for each in weights if is_of_rewards(case, each)), None) if is_worsened else None
        if rewarded is None or not (fit.is_drawn or fit.term.has_both_signs):
            return None
        leaves = objective.leaves_of(fit.term) - program.fitted
        if not leaves or may_be_small(case) or program.has_rewarded_policy:
            return None
        if not is_plain_descent(case, objective, fit.term):
            return None
        here, chosen = location_of_call(flow, rewarded.row), location_of_call(flow, fit.term.row)
        return self.finding(
            "the loss adds the log-probabilities of actions times what they were rewarded with: training makes the "
            "rewarded actions less likely",
            symptom="grad_wrong",
            why="a loss is minimized: what should become likely must be subtracted from it",
            fix="turn the sign around: loss = -(log_prob * advantage).mean()",
            location=here,
            symptom_location=chosen if chosen != here else None,
            tensors=names_of(flow, sorted(leaves)),
        )


def _counts_in_other_ways(objective: Objective, term: Term) -> bool:
    """Whether the loss also takes the same result with another sign, or as a part of a ratio of probabilities: an
    estimate of a divergence, or a policy's surrogate."""
    same = (each for each in objective.terms if each.row == term.row)
    return any(each.sign != term.sign or not each.is_sure for each in same)


def _vary(flow: Dataflow, fit: Fit) -> bool:
    """Whether some target has several values: labels of a discriminator are all the same."""
    values = [flow.values(tensor, fit.term.row) for tensor in fit.targets]
    return any(each is not None and each.minimum is not None and each.minimum != each.maximum for each in values)


def _edited(case: Case, term: Term) -> int:
    """The call at which the sign can be turned around: the outermost that turns it, or that averages.

    Where a line gives what it computes the name of an error, the sign is missing there.
    """
    flow = case.dataflow
    names = [plain_name(flow.log.calls[row].function) for row in term.path]
    is_density = sorted(names[-3:-1]) == ["div", "neg"]  # -(y - mu)**2 / (2 * var), of a log-probability
    path = term.path[:-3] if is_density else term.path
    turns = [row for row, inner in pairwise(path) if turns_sign(flow, row, inner)]
    if not turns and _ERROR.match(case.source_line(location_of_call(flow, term.row)) or ""):
        return term.row
    averages = [row for row, name in zip(term.path, names, strict=True) if name in ("mean", "sum")]
    return (turns or averages or term.path)[0]


_LOGARITHMS = frozenset({"log", "log2", "log10"})
_ERROR = re.compile(r"\s*\w*(nll|loss|err|entropy|(?<![a-z])ce(?![a-z]))\w*\s*[+-]?=", re.IGNORECASE)
