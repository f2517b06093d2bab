"""GV897."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.scoring_calls import is_scoring
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.loops.loops_left_at_once import LoopLeft, lines_of, loops_left_at_once
from gradviz.analysis.rules.bases.sources.own_files import own_files


class LeftAtOnce(Rule):
    """A loop over batches ends in its first round, each time.

    What it finds
    -------------
    A ``return`` at the end of what a loop repeats, where it should stand behind the loop, as it returns what the rounds
    add up. Also a ``return`` or ``break`` at the end of a loop that trains, where the program evaluates between its
    rounds; elsewhere that is a note, as one batch for each round may be meant. An iterator that goes on where it was,
    and one that never ends, are left alone.

    Why it matters
    --------------
    All batches but the first are never used. With shuffled data the loss still falls, though slowly, and an accuracy of
    one batch looks like that of the data set.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = torch.randn(5, 8, 4)

    def train_epoch():
        total = 0.0
        for x in batches:
            loss = (model(x) - x[:, :1]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            return total / len(batches)

    for epoch in range(3):
        train_epoch()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = torch.randn(5, 8, 4)

    def train_epoch():
        total = 0.0
        for x in batches:
            loss = (model(x) - x[:, :1]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        return total / len(batches)

    for epoch in range(3):
        train_epoch()
    """

    code = "GV897"
    name = "left_at_once"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for file, tree in own_files(case) if case.histories.reached_by else ():
            ran = LinesThatRan(case.dataflow, file)
            for left in loops_left_at_once(tree):
                rows = ran.rows_in(*lines_of(left.loop))
                trains = [row for row in rows if case.dataflow.log.calls[row].kind == "backward"]
                if (left.sums and rows) or (len(trains) >= _MIN_TIMES and not left.goes_on):
                    yield self._finding(case, file, left, trains)

    def _finding(self, case: Case, file: str, left: LoopLeft, trains: list[int]) -> Finding:
        is_return = left.word == "return"
        times = f", each of {len(trains):,} times" if len(trains) >= _MIN_TIMES else ""
        place = "unindent it, so that it stands behind the loop"
        return self.finding(
            f"this {left.word} ends the loop over {left.over} in its first round{times}: no other batch is used",
            severity=self.severity if left.sums or _is_scored_between(case, trains) else "note",
            symptom="none",
            why=f"{', '.join(left.sums)} would add up all rounds, and {left.over} is left after one"
            if left.sums
            else "an epoch is one batch then, however many there are",
            fix=place if is_return else "leave it out, if every batch should be used",
            location=Location(file, left.line),
            symptom_location=Location(file, left.loop.lineno),
        )


_MIN_TIMES = 2


def _is_scored_between(case: Case, trains: list[int]) -> bool:
    return any(is_scoring(case.histories, row) for row in range(trains[0], trains[-1]))
