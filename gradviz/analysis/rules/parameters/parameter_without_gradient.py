"""GV799: only on request, with ``--all-params-get-grad``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, ClassVar

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.tensor_words import names_of, together
from gradviz.analysis.finding import Finding, Location, Severity
from gradviz.analysis.flow.gradient_flow import FlowRow
from gradviz.analysis.flow.lost_gradients import NOT_IN_GRAPH
from gradviz.analysis.parameters.parameter_outcomes import OutcomeKind, outcomes
from gradviz.analysis.rule import Rule


class ParameterWithoutGradient(Rule):
    """A parameter gets no gradient, whatever the cause.

    What it finds
    -------------
    Every parameter of the models and optimizers of the run that no backward call reached, also frozen ones. It runs
    only if you ask for it, because most programs freeze something on purpose.

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
    severity: ClassVar[Severity] = "error"
    requested_by = "--all-params-get-grad"

    def check(self, case: Case) -> Iterator[Finding]:
        yield from self._by_graphs(case) if case.capture.calls is None else self._by_histories(case)

    def counts(self, row: FlowRow) -> bool:
        """Whether this parameter should have a gradient."""
        return True

    @property
    def remedy(self) -> str:
        """What to do if calls were not recorded."""
        return "run gradviz check on the script itself to see why; without --all-params-get-grad this is no finding"

    def _by_graphs(self, case: Case) -> Iterator[Finding]:
        rows = [row for row in case.rows_without_gradient if self.counts(row)]
        for reason in dict.fromkeys(row.nothing for row in rows):
            names = tuple(row.name for row in rows if row.nothing == reason)
            yield self._finding(together(names), names, str(reason), fix=self.remedy)

    def _by_histories(self, case: Case) -> Iterator[Finding]:
        histories = case.histories
        groups: dict[tuple[OutcomeKind, Location | None], list[int]] = defaultdict(list)
        for outcome in outcomes(case):
            if outcome.kind != "reached":
                groups[outcome.kind, outcome.location].append(outcome.tensor)
        for (kind, location), tensors in groups.items():
            fix = "gradviz check --why NAME explains each of them; without --all-params-get-grad this is no finding"
            names = names_of(histories.flow, tensors)
            yield self._finding(histories.together(tensors), names, kind, fix=fix, location=location)

    def _finding(self, who: str, names: tuple[str, ...], reason: str, **facts: Any) -> Finding:
        return self.finding(
            f"{who} {'gets' if len(names) == 1 else 'get'} no gradient: {reason}",
            symptom="grad_none",
            tensors=names,
            evidence={"parameters": len(names)},
            **facts,
        )


class GivenParameterWithoutGradient(ParameterWithoutGradient):
    """The same for the model that was given to `gradviz.check`, whose parameters should get gradients."""

    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        if case.capture.calls is None:  # If calls were recorded, other rules know why.
            yield from self._by_graphs(case)

    def counts(self, row: FlowRow) -> bool:
        """Not one that is frozen on purpose, nor one that a backward inside the graph may have reached."""
        return row.nothing == NOT_IN_GRAPH

    @property
    def remedy(self) -> str:
        """How to find out more."""
        return (
            "compute the loss inside `with gradviz.record(calls=True) as recording:`; "
            "then recording.check() shows what cut it off, and on which line"
        )
