"""GV902."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.graph_uses import GraphUses, IdleRun
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.graph.number_words import counted

_MIN_SHARE = 0.05
"""Of all nodes that modules made; a test with one batch before training costs little."""


class IdleGraph(Rule):
    """A model ran with gradients on, and no backward used its graph.

    What it finds
    -------------
    Calls of modules, in a program that calls ``backward()``, where no backward goes through any of their operations:
    validation without ``torch.no_grad()``, or results of which only a detached copy is used. It does not report where a
    trained parameter gets no gradient at all: then other rules say what cut it off.

    Why it matters
    --------------
    With gradients on, every operation keeps what its backward needs until the result is freed: most of the memory of a
    training step, for a backward that never runs. This often makes validation run out of memory.

    Example
    -------
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        model(torch.randn(16, 8)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        score = model(torch.randn(64, 8)).square().mean().item()

    Instead
    -------
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        model(torch.randn(16, 8)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            score = model(torch.randn(64, 8)).square().mean().item()
    """

    code = "GV902"
    name = "idle_graph"
    severity = "note"

    def check(self, case: Case) -> Iterator[Finding]:
        uses = case.graph_uses
        if not uses.is_complete:
            return
        by_line: dict[tuple[str, Location | None], list[IdleRun]] = defaultdict(list)
        in_stages = {number for found in case.stage_cuts if not found.may_be_meant for number in found.tensors}
        cut_off = in_stages.union(case.missing_gradients.without_gradient)
        for run in uses.idle_runs:
            # A missing gradient is the fault of what cut it off, not of the module call.
            if run.leaves.isdisjoint(cut_off):
                by_line[run.path, run.location].append(run)
        for (path, location), runs in by_line.items():
            nodes = sum(run.nodes for run in runs)
            if nodes >= _MIN_SHARE * uses.nodes_made():
                yield self._finding(uses, path, location, len(runs), nodes)

    def _finding(self, uses: GraphUses, path: str, location: Location | None, runs: int, nodes: int) -> Finding:
        times = "" if runs == 1 else f" {runs:,} times"
        graphs = f"its graph of {counted(nodes, 'node')}" if runs == 1 else f"its graphs of {nodes:,} nodes together"
        return self.finding(
            f"{path} ran{times} with gradients on, and no backward used {graphs}",
            why="every operation keeps what its backward needs until its result is freed",
            fix="run it under torch.no_grad(), or torch.inference_mode()",
            location=location,
            evidence={"runs": runs, "nodes": nodes, "nodes of all models": uses.nodes_made()},
        )
