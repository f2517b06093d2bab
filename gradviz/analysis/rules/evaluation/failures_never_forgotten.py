"""GV864."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.failure_counters import FailureCounter, counters_that_only_rise
from gradviz.analysis.rules.bases.sources.own_files import own_files


class FailuresNeverForgotten(Rule):
    """The counter of early stopping is not set back where the score is better, and counts those of the whole run.

    What it finds
    -------------
    A counter that rises where a score is not better than the best one so far, and that ends the training when it is
    large, where nothing sets it to zero when a score becomes the best one.

    Why it matters
    --------------
    Patience is a number of epochs in a row. Counted over the whole run, a score that goes up and down a little ends the
    training though it still gets better.

    Example
    -------
    x, y = torch.randn(40, 4), torch.randn(40, 1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best, bad_epochs = float("inf"), 0
    for epoch in range(6):
        loss = torch.nn.functional.mse_loss(model(x[:30]), y[:30])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        held_out = torch.nn.functional.mse_loss(model(x[30:]), y[30:]).item()
        if held_out < best:
            best = held_out
        else:
            bad_epochs += 1
        if bad_epochs > 3:
            break

    Instead
    -------
    x, y = torch.randn(40, 4), torch.randn(40, 1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best, bad_epochs = float("inf"), 0
    for epoch in range(6):
        loss = torch.nn.functional.mse_loss(model(x[:30]), y[:30])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        held_out = torch.nn.functional.mse_loss(model(x[30:]), y[30:]).item()
        if held_out < best:
            best, bad_epochs = held_out, 0
        else:
            bad_epochs += 1
        if bad_epochs > 3:
            break
    """

    code = "GV864"
    name = "failures_never_forgotten"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        told = set[tuple[str, int]]()
        for file, tree in own_files(case) if case.histories.reached_by and len(case.histories.steps) > 1 else ():
            for counter in counters_that_only_rise(tree):
                if (file, counter.line) not in told:
                    told.add((file, counter.line))
                    yield self._finding(file, counter)

    def _finding(self, file: str, counter: FailureCounter) -> Finding:
        return self.finding(
            f"{counter.name} only ever rises: where {counter.best} is set to a better score, it is not set back to 0",
            symptom="none",
            why="it counts epochs without progress over the whole run, and not those in a row, so training ends while "
            "scores that go up and down still get better",
            fix=f"begin anew where the score is better: {counter.name} = 0",
            location=Location(file, counter.line),
            symptom_location=Location(file, counter.better),
        )
