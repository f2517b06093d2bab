"""GV963."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.loops.counts_by_batches import CountByBatches, counts_by_batches
from gradviz.analysis.rules.bases.sources.own_files import own_files


class CountOverBatches(Rule):
    """An accuracy is the number of right samples divided by the number of batches.

    What it finds
    -------------
    A loop over a loader that adds up ``(prediction == label).sum()``, and ``len()`` of that loader, or a counter of its
    turns, as what the sum is divided by, where the comparison has more than one sample.

    Why it matters
    --------------
    ``len(loader)`` counts batches. What comes out is the mean number of right samples in a batch: it grows with the
    size of the batch, and two such scores can only be compared if their batches have one size.

    Example
    -------
    data = torch.utils.data.TensorDataset(torch.randn(32, 4), torch.arange(32) % 2)
    loader = torch.utils.data.DataLoader(data, batch_size=8)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        right = 0
        for x, y in loader:
            scores = model(x)
            loss = torch.nn.functional.cross_entropy(scores, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += (scores.argmax(dim=1) == y).sum().item()
        print(right / len(loader))

    Instead
    -------
    data = torch.utils.data.TensorDataset(torch.randn(32, 4), torch.arange(32) % 2)
    loader = torch.utils.data.DataLoader(data, batch_size=8)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        right = 0
        for x, y in loader:
            scores = model(x)
            loss = torch.nn.functional.cross_entropy(scores, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += (scores.argmax(dim=1) == y).sum().item()
        print(right / len(loader.dataset))
    """

    code = "GV963"
    name = "count_over_batches"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for file, tree in own_files(case) if case.histories.reached_by else ():
            ran = LinesThatRan(case.dataflow, file)
            for found in counts_by_batches(tree):
                if _has_samples(case, ran.rows_in(found.compared, found.compared)):
                    yield self._finding(file, found)

    def _finding(self, file: str, found: CountByBatches) -> Finding:
        loader = found.batches[len("len(") : -1] if found.batches.startswith("len(") else "loader"
        return self.finding(
            f"{found.name}, a number of right samples, is divided by {found.batches}, the number of batches",
            symptom="none",
            why="this is how many samples of a batch are right, not which part: it grows with the size of the batch",
            fix=f"divide by the number of samples: len({loader}.dataset), or a sum of len(y)",
            location=Location(file, found.divided),
            symptom_location=Location(file, found.compared),
        )


def _has_samples(case: Case, rows: list[int]) -> bool:
    """Whether most of some calls compare the samples of batches of one size: those of other sizes are sequences."""
    flow = case.dataflow
    compared = (flow.log.calls[row] for row in rows if plain_name(flow.log.calls[row].function) == "eq")
    shapes = (shape_of(flow, call.outputs[0].tensor) for call in compared if call.outputs)
    sizes = Counter(shape[0] if shape else 1 for shape in shapes)
    size, times = max(sizes.items(), key=lambda each: each[1], default=(1, 0))
    return size > 1 and 2 * times >= sizes.total()
