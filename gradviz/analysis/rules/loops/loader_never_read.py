"""GV898."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.scoring_calls import is_scoring
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.loops.loaders import NamedLoader, named_loaders
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.rules.bases.sources.source_tree import SourceTree, last_line


class LoaderNeverRead(Rule):
    """A model is trained and scored with one loader, and another loader that was made is never read.

    What it finds
    -------------
    Two data loaders with names, of which one is read where the model is trained, and also where it runs without
    gradients; nothing reads the other one.

    Why it matters
    --------------
    The score is that of the samples that the model was trained with: it says nothing about others, and hides that a
    model learns them by heart. Or the model learns from the few samples that were held out, and not from the others.

    Example
    -------
    from torch.utils.data import DataLoader
    x = torch.randn(40, 4)
    loader, held_out = DataLoader(x[:32], batch_size=8, shuffle=True), DataLoader(x[32:], batch_size=8)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for batch in loader:
            loss = (model(batch) - batch[:, :1]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            error = sum((model(batch) - batch[:, :1]).abs().mean().item() for batch in loader)

    Instead
    -------
    from torch.utils.data import DataLoader
    x = torch.randn(40, 4)
    loader, held_out = DataLoader(x[:32], batch_size=8, shuffle=True), DataLoader(x[32:], batch_size=8)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for batch in loader:
            loss = (model(batch) - batch[:, :1]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            error = sum((model(batch) - batch[:, :1]).abs().mean().item() for batch in held_out)
    """

    code = "GV898"
    name = "loader_never_read"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        files = dict(own_files(case)) if case.histories.reached_by else {}
        for file, tree in files.items():
            loaders = list(named_loaders(tree, [each for each in files.values() if each is not tree]))
            used = [each for each in loaders if each.reads]
            if len(used) != 1 or len(loaders) == len(used):
                continue
            trained, scored = _uses(case, file, tree, used[0])
            for unread in loaders:
                if trained and scored and not unread.reads:
                    is_held_out = loaders.index(unread) > loaders.index(used[0])
                    yield self._finding(file, used[0], unread, is_held_out, (trained[0], scored[0]))

    def _finding(
        self, file: str, used: NamedLoader, unread: NamedLoader, is_held_out: bool, lines: tuple[int, int]
    ) -> Finding:
        trained, scored = lines
        return self.finding(
            f"nothing reads {unread.name}, which line {unread.line} makes: the model is trained with {used.name} at "
            f"line {trained}, and scored with {used.name} as well at line {scored}",
            symptom="none",
            why="a score on the samples of the training says nothing about others",
            fix=f"read {unread.name} where the model is {'scored' if is_held_out else 'trained'}, or take it out",
            location=Location(file, scored if is_held_out else trained),
            symptom_location=Location(file, unread.line),
        )


def _uses(case: Case, file: str, tree: SourceTree, loader: NamedLoader) -> tuple[list[int], list[int]]:
    """The lines that read a loader where what runs has a backward, and those where a layer with trained parameters
    runs without gradients, and no backward does."""
    ran = LinesThatRan(case.dataflow, file)
    trained, scored = list[int](), list[int]()
    for node in loader.reads:
        statement = next(each for each in tree.around(node) if isinstance(each, ast.stmt))
        rows = ran.rows_in(statement.lineno, last_line(statement))
        if ran.has_backward(rows):
            trained.append(node.lineno)
        elif any(is_scoring(case.histories, row) for row in rows):
            scored.append(node.lineno)
    return trained, scored
