"""GV898."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.scoring_calls import is_scoring
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.loops.named_parts import NamedPart, named_parts
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.source_tree import SourceTree, last_line


class PartNeverRead(Rule):
    """A model is trained and scored with one part of the data, and nothing reads the other part.

    What it finds
    -------------
    Two data loaders with names, or the parts of a split (``train_test_split()``, ``random_split()``, ``x[:n]`` and
    ``x[n:]``), of which one is read where the model is trained, and also where it runs without gradients; nothing reads
    the other one.

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
    name = "part_never_read"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        files = dict(own_files(case)) if case.histories.reached_by else {}
        for file, tree in files.items():
            for parts in named_parts(tree, [each for each in files.values() if each is not tree]):
                used, unread = [each for each in parts if each.reads], [each for each in parts if not each.reads]
                uses = [(each, *_uses(case, file, tree, each)) for each in used] if unread else []
                both = next(
                    ((part, (trained[0], scored[0])) for part, trained, scored in uses if trained and scored), None
                )
                if both is not None and all(trained for _, trained, _ in uses):
                    is_held_out = parts.index(unread[0]) > parts.index(both[0])
                    yield self._finding(file, both[0], unread[0], is_held_out, both[1])

    def _finding(
        self, file: str, used: NamedPart, unread: NamedPart, is_held_out: bool, lines: tuple[int, int]
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


def _uses(case: Case, file: str, tree: SourceTree, part: NamedPart) -> tuple[list[int], list[int]]:
    """The lines that read a part of the data where the model trains, in the statement itself or in the loop around it;
    and those where a layer with trained parameters runs without gradients, and no backward does."""
    ran = LinesThatRan(case.dataflow, file)
    trained, scored = list[int](), list[int]()
    for node in part.reads:
        statement = next(each for each in tree.around(node) if isinstance(each, ast.stmt))
        rows = ran.rows_in(statement.lineno, last_line(statement))
        loop = next(tree.loops_around(node), None)
        if ran.has_backward(rows):
            trained.append(node.lineno)
        elif any(is_scoring(case.histories, row) for row in rows):
            scored.append(node.lineno)
        elif rows and loop is not None and ran.has_backward(ran.rows_in(loop.lineno, last_line(loop.body[-1]))):
            trained.append(node.lineno)
    return trained, scored
