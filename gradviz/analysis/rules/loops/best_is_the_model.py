"""GV967."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.rules.bases.sources.rates.plateaus_by_hand import NamedBest, named_bests


class BestIsTheModel(Rule):
    """What is kept as the best model is the model that is trained further.

    What it finds
    -------------
    ``best, best_model = score, model`` in a loop that trains this one model, or a tensor that an optimizer holds: the
    branch that keeps the best score gives it a second name, which is read later. A loop that makes a model for each of
    its rounds is left alone, and so is a branch that ends the loop.

    Why it matters
    --------------
    An assignment copies nothing. Every later step changes the best model as well, and what is scored or saved as the
    best in the end is the last one.

    Example
    -------
    torch.manual_seed(0)
    x, y = torch.randn(40, 4), torch.randn(40, 1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best = float("inf")
    for epoch in range(4):
        loss = (model(x[:30]) - y[:30]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        error = (model(x[30:]) - y[30:]).square().mean().item()
        if error < best:
            best, best_model = error, model
    print((best_model(x[30:]) - y[30:]).square().mean())

    Instead
    -------
    import copy
    torch.manual_seed(0)
    x, y = torch.randn(40, 4), torch.randn(40, 1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best = float("inf")
    for epoch in range(4):
        loss = (model(x[:30]) - y[:30]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        error = (model(x[30:]) - y[30:]).square().mean().item()
        if error < best:
            best, best_model = error, copy.deepcopy(model)
    print((best_model(x[30:]) - y[30:]).square().mean())
    """

    code = "GV967"
    name = "best_is_the_model"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for file, tree in own_files(case) if case.histories.steps else ():
            ran = LinesThatRan(case.dataflow, file)
            for kept in named_bests(tree):
                steps = [row for row in ran.rows_in(*kept.loop) if case.dataflow.log.calls[row].kind == "step"]
                if len(steps) > 1:
                    yield self._finding(Location(file, kept.line), kept)

    def _finding(self, location: Location, kept: NamedBest) -> Finding:
        return self.finding(
            f"{kept.name} is {kept.object} itself, not a copy of it: it changes with every step that follows, and is "
            "the last one in the end",
            symptom="none",
            why="an assignment gives the same object a second name, and step() changes parameters in place",
            fix=f"keep a copy: {kept.name} = copy.deepcopy({kept.object}), or .detach().clone() of a tensor",
            location=location,
        )
