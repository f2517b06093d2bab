"""GV874."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.parameters.creation_lines import line_of_layer
from gradviz.analysis.rule import Rule
from gradviz.graph.model import CallSite


class StatisticsOfLastBatch(Rule):
    """Batch normalization keeps the statistics of the last batch only: its momentum is the share that should be kept.

    What it finds
    -------------
    Batch normalization that trains with a ``momentum`` above one half and below 1, and that then also runs in
    evaluation mode, with the statistics that it has kept.

    Why it matters
    --------------
    In torch, ``momentum`` is the share of the new batch; in other libraries it is the share of the old average. With
    0.99, the running mean and variance are those of the last batch, so that what the model says in evaluation depends
    on which batch that was.

    Example
    -------
    norm, head = torch.nn.BatchNorm1d(4, momentum=0.99), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*norm.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        loss = (head(norm(torch.randn(16, 4))) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    norm.eval()
    with torch.no_grad():
        print(head(norm(torch.randn(16, 4))).mean())

    Instead
    -------
    norm, head = torch.nn.BatchNorm1d(4, momentum=0.01), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*norm.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        loss = (head(norm(torch.randn(16, 4))) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    norm.eval()
    with torch.no_grad():
        print(head(norm(torch.randn(16, 4))).mean())
    """

    code = "GV874"
    name = "statistics_of_last_batch"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        trained: dict[int, tuple[int, float]] = {}
        told: dict[tuple[CallSite | None, float], dict[int, int]] = {}
        for row, call in calls_named(flow, {"batch_norm"}):
            momentum, mean = call.scalars.get("momentum"), next((u.tensor for u in call.inputs if u.place == "1"), None)
            if mean is None or not isinstance(momentum, float) or not _HALF < momentum < 1:
                continue
            if call.scalars.get("training") is True and flow.has_step_after(row):
                trained.setdefault(mean, (row, momentum))
            elif call.scalars.get("training") is False and mean in trained:
                first, kept = trained[mean]
                told.setdefault((line_of_layer(flow, first), kept), {}).setdefault(mean, row)
        for (line, momentum), layers in told.items():
            yield self._finding(case, line, momentum, list(layers.values()))

    def _finding(self, case: Case, line: CallSite | None, momentum: float, rows: list[int]) -> Finding:
        used = location_of_call(case.dataflow, rows[0])
        location = location_of_line(line)
        return self.finding(
            f"batch normalization with momentum={momentum:g} takes {momentum:.0%} of its running statistics from each "
            "new batch, and evaluation mode then uses those of the last one",
            symptom="grad_wrong",
            why="in torch, momentum is the share of the new batch, not of the average that is kept",
            fix=f"write momentum={1 - momentum:.3g}, or leave it out: the default is 0.1",
            location=location,
            symptom_location=used if used != location else None,
            evidence={"layers": len(rows)},
        )


_HALF = 0.5
