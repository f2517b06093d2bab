"""GV799: only on request, with ``--all-params-get-grad``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Finding, Place
from gradviz.analysis.outcomes import OutcomeKind, outcomes
from gradviz.analysis.rule import Rule
from gradviz.analysis.tensor_words import names_of


class ParameterWithoutGradient(Rule):
    """A parameter gets no gradient, for whatever reason.

    What it finds
    -------------
    Every parameter of the models and optimizers of the run that no backward call reached, frozen ones included. It runs
    only where it is asked for: most programs freeze something on purpose.

    Why it matters
    --------------
    In a program that trains everything, a parameter without a gradient is a mistake, whatever the cause.

    Example
    -------
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
    model[0].requires_grad_(False)
    model(torch.randn(3, 4)).sum().backward()

    Instead
    -------
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
    model(torch.randn(3, 4)).sum().backward()
    """

    code = "GV799"
    name = "parameter_without_gradient"
    severity = "error"
    requested_by = "--all-params-get-grad"

    def check(self, case: Case) -> Iterator[Finding]:
        fates = case.fates
        groups: dict[tuple[OutcomeKind, Place | None], list[int]] = defaultdict(list)
        for outcome in outcomes(case):
            if outcome.kind != "reached":
                groups[outcome.kind, outcome.place].append(outcome.tensor)
        for (kind, place), tensors in groups.items():
            yield self.finding(
                f"{fates.together(tensors)} {'gets' if len(tensors) == 1 else 'get'} no gradient: {kind}",
                symptom="grad_none",
                fix="gradviz check --why NAME tells more about each; without --all-params-get-grad this is no finding",
                place=place,
                tensors=names_of(fates.flow, tensors),
                evidence={"parameters": len(tensors)},
            )
