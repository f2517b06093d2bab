"""GV903."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.memory.kept_memory import kept_bytes
from gradviz.analysis.rule import Rule
from gradviz.graph.number_words import byte_words


class NeedlessRetainGraph(Rule):
    """A graph was retained, and no later backward went through any of it.

    What it finds
    -------------
    Lines that call ``backward(retain_graph=True)``, or `torch.autograd.grad` with it, where no later call of the run
    goes through any operation of that graph.

    Why it matters
    --------------
    Without it each node frees what it saved as soon as it has run, so memory shrinks during backward. With it all of
    that stays until the loss is freed, often into the next step. It also hides the error that reports a graph which
    grows over steps.

    Example
    -------
    model = torch.nn.Linear(8, 1)
    for step in range(2):
        loss = model(torch.randn(16, 8)).square().mean()
        loss.backward(retain_graph=True)

    Instead
    -------
    model = torch.nn.Linear(8, 1)
    for step in range(2):
        loss = model(torch.randn(16, 8)).square().mean()
        loss.backward()
    """

    code = "GV903"
    name = "needless_retain_graph"
    severity = "note"

    def check(self, case: Case) -> Iterator[Finding]:
        uses = case.graph_uses
        if not uses.is_complete:
            return
        by_line: dict[Location | None, list[int]] = defaultdict(list)
        for row in uses.retained_needlessly:
            by_line[case.location_of_call(row)].append(row)
        needed = {case.location_of_call(row) for row in uses.retained_for_others}
        for location, rows in by_line.items():
            if location not in needed:
                yield self._finding(case, location, rows)

    def _finding(self, case: Case, location: Location | None, rows: list[int]) -> Finding:
        graphs = [case.graphs[number] for row in rows if (number := case.backward_calls.graph_of(row)) is not None]
        size = max((kept_bytes(graph, range(len(graph.nodes))) for graph in graphs), default=0)
        kept = f": {byte_words(size)} stay in memory until the loss is freed" if size else ""
        return self.finding(
            f"retain_graph=True keeps what the graph saved, and no later backward goes through any of it{kept}",
            why="without it each node frees what it saved as soon as it has run",
            fix="remove retain_graph=True; add up several losses of one graph and differentiate them together",
            location=location,
            evidence={"calls": len(rows), "saved_bytes": size},
        )
