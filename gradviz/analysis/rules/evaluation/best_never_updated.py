"""GV855."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.unmoved_bests import UnmovedBest, unmoved_bests
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan, own_statements
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.source_tree import Loop


class BestNeverUpdated(Rule):
    """The best score so far stays at its first value, so that every epoch counts as the best one.

    What it finds
    -------------
    In a loop that trains, a score that is compared with a variable which is 0, infinite or the like before the loop,
    and which nothing sets after that, where a state is kept or saved if the score is better, or a counter of epochs
    without progress begins anew.

    Why it matters
    --------------
    Each score is better than 0, or than infinity. The state of the last epoch overwrites the best one, and early
    stopping never stops.

    Example
    -------
    import copy

    x = torch.randn(40, 4)
    y = (x.sum(1) > 0).long()
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best_loss, best = float("inf"), None
    for epoch in range(4):
        loss = torch.nn.functional.cross_entropy(model(x[:30]), y[:30])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        held_out = torch.nn.functional.cross_entropy(model(x[30:]), y[30:]).item()
        if held_out < best_loss:
            best = copy.deepcopy(model.state_dict())
    model.load_state_dict(best)

    Instead
    -------
    import copy

    x = torch.randn(40, 4)
    y = (x.sum(1) > 0).long()
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best_loss, best = float("inf"), None
    for epoch in range(4):
        loss = torch.nn.functional.cross_entropy(model(x[:30]), y[:30])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        held_out = torch.nn.functional.cross_entropy(model(x[30:]), y[30:]).item()
        if held_out < best_loss:
            best_loss = held_out
            best = copy.deepcopy(model.state_dict())
    model.load_state_dict(best)
    """

    code = "GV855"
    name = "best_never_updated"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for file, tree in own_files(case) if case.histories.reached_by else ():
            ran = LinesThatRan(case.dataflow, file)
            for best, loop in unmoved_bests(tree):
                is_trained = ran.has_backward(ran.rows_in(*best.loop)) and ran.runs_again(tree, loop)
                if is_trained and not (best.may_be_goal and _is_missed(ran, best, loop)):
                    yield self._finding(file, best)

    def _finding(self, file: str, best: UnmovedBest) -> Finding:
        return self.finding(
            f"{best.name} is {best.start} at line {best.set_at} and never changes: each {best.score} is compared with "
            "that, and not with the best one so far",
            symptom="none",
            why="every epoch counts as the best one, so the last state overwrites the best, and nothing stops early",
            fix=f"keep the score where it is better: {best.name} = {best.score}",
            location=Location(file, best.line),
            symptom_location=Location(file, best.set_at),
        )


def _is_missed(ran: LinesThatRan, best: UnmovedBest, loop: Loop) -> bool:
    """Whether some scores were not better: what they are compared with is a goal."""
    times = ran.moments(ran.rows_in(*best.kept))
    rounds = [ran.rows_in(*each) for each in own_statements(loop) if each[1] < best.line]
    return 0 < times < max((ran.moments(rows) for rows in rounds if not ran.has_backward(rows)), default=0)
