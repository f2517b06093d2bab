"""GV965."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.rules.bases.sources.rates.better_by_origin import better_by_hand
from gradviz.analysis.rules.bases.sources.rates.plateaus_by_hand import Plateau, states_by_hand
from gradviz.analysis.sources.source_tree import SourceTree


class WorstStateKept(Rule):
    """The state of a model is kept where its score was worst, because a comparison is the wrong way round.

    What it finds
    -------------
    Lines that keep the state of a model together with a number, ``if loss > best: best, state = loss, ...``, where the
    number is a loss and the largest one is kept, or an accuracy and the smallest one is. What the number is, shows in
    what it was computed from: a loss function of torch, or a mean of comparisons with the right class; else in its
    name. Numbers that are turned around, ``score = -loss``, are left alone.

    Why it matters
    --------------
    What is loaded after the training, or saved, is the worst state of all, often that of the first epoch; and training
    that stops early stops while the model still gets better.

    Example
    -------
    import copy
    torch.manual_seed(0)
    x, y = torch.randn(40, 4), torch.randint(0, 3, (40,))
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best_loss = 0.0
    for epoch in range(4):
        loss = torch.nn.functional.cross_entropy(model(x[:30]), y[:30])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        held_out = torch.nn.functional.cross_entropy(model(x[30:]), y[30:]).item()
        if held_out > best_loss:
            best_loss = held_out
            best = copy.deepcopy(model.state_dict())
    model.load_state_dict(best)

    Instead
    -------
    import copy
    torch.manual_seed(0)
    x, y = torch.randn(40, 4), torch.randint(0, 3, (40,))
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best_loss = float("inf")
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

    code = "GV965"
    name = "worst_state_kept"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for file, tree in own_files(case) if case.histories.steps else ():
            ran = LinesThatRan(case.dataflow, file)
            for kept in states_by_hand(tree):
                better = None if _may_be_turned(tree, kept) else better_by_hand(case, ran, kept)
                if better is not None and better != kept.better:
                    yield self._finding(Location(file, kept.line), kept, is_loss=better == "min")

    def _finding(self, location: Location, kept: Plateau, *, is_loss: bool) -> Finding:
        what, wrong, right = ("a loss", "largest", "<") if is_loss else ("an accuracy or the like", "smallest", ">")
        begin = 'float("inf")' if is_loss else "0"
        return self.finding(
            f"{kept.name} is {what}, and this line takes the {wrong} one so far for the best: the state that is kept "
            "is the worst one",
            symptom="none",
            why="each better state counts as a setback, and what is loaded or saved in the end is the worst",
            fix=f"keep the state if {kept.name} {right} best, and begin with best = {begin}",
            location=location,
        )


_TURNS = re.compile(r"(?<![\w.\])])\s*-\s*[a-zA-Z_(]|\b1(\.0?)?\s*[-/]")
"""``-loss``, ``1 - error`` and ``1 / loss``."""
_ON_PURPOSE = re.compile(r"worst|hardest|peak|attack|advers|largest|max_loss|min_acc", re.IGNORECASE)


def _may_be_turned(tree: SourceTree, kept: Plateau) -> bool:
    """Whether the number is made of another one that is better on the other side, or the worst one is looked for."""
    lines = [tree.lines.get(line, "") for line in (kept.line, *kept.made)]
    return any(_TURNS.search(line) or _ON_PURPOSE.search(line) for line in lines)
