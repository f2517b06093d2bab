"""GV962."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, calls_named, operation, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.labels_of_neighbours import compared_labels
from gradviz.analysis.rules.bases.formulas.distances import distances_behind
from gradviz.analysis.rules.bases.sources.arrays.nearest_by_hand import farthest_by_hand
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.graph.call_log import Call


class FarthestAsNearest(Rule):
    """An evaluation takes the labels of the farthest samples for those of the nearest ones.

    What it finds
    -------------
    ``topk()``, ``argmax()`` or a descending sort of distances: of ``cdist()``, of norms of differences, or of sums of
    their squares. The labels of what it finds are compared with the right ones, as for recall or the nearest
    neighbours. ``topk()`` takes the largest values unless ``largest=False`` is given.

    Why it matters
    --------------
    The score tells how often the farthest sample has the same label. It falls as the model gets better, and a
    checkpoint that is kept by it is the worst one.

    Example
    -------
    encoder = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    x, labels = torch.randn(30, 6), torch.arange(3).repeat(10)
    for step in range(3):
        z = encoder(x)
        loss = torch.nn.functional.triplet_margin_loss(z[:10], z[3:13], z[1:11])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        distances = torch.cdist(encoder(x[:10]), encoder(x[10:]))
        found = distances.topk(3, dim=1).indices
        print((labels[10:][found] == labels[:10, None]).any(dim=1).float().mean())

    Instead
    -------
    encoder = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    x, labels = torch.randn(30, 6), torch.arange(3).repeat(10)
    for step in range(3):
        z = encoder(x)
        loss = torch.nn.functional.triplet_margin_loss(z[:10], z[3:13], z[1:11])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        distances = torch.cdist(encoder(x[:10]), encoder(x[10:]))
        found = distances.topk(3, dim=1, largest=False).indices
        print((labels[10:][found] == labels[:10, None]).any(dim=1).float().mean())
    """

    code = "GV962"
    name = "farthest_as_nearest"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        seen: set[int | None] = set()
        for row, call in calls_named(flow, _INSTEAD):
            if call.call_site in seen or not _takes_largest(call):
                continue
            found = distances_behind(flow, call.inputs[0].tensor, row)
            if found is not None and any(compared_labels(flow, row, call)):
                seen.add(call.call_site)
                yield self._finding(flow, row, found[0])
        for file, tree in own_files(case) if not seen and case.histories.reached_by else ():
            ran = LinesThatRan(flow, file)
            yield from (self._of_arrays(file, line) for line in farthest_by_hand(tree) if not ran.rows_in(line, line))

    def _of_arrays(self, file: str, line: int) -> Finding:
        return self.finding(
            "the places of the largest distances are taken, and the labels of what is found there are read: those of "
            "the farthest samples",
            symptom="none",
            why="the score tells how often the farthest sample has the same label, and falls as the model gets better",
            fix="take the smallest distances: np.argsort(distances)[:k]",
            location=Location(file, line),
        )

    def _finding(self, flow: Dataflow, row: int, made: int) -> Finding:
        location, distances = two_lines(flow, row, made)
        name = plain_name(flow.log.calls[row].function)
        return self.finding(
            f"{name}() takes the largest of the distances of {operation(flow.log.calls[made])}(){at_line(distances)}, "
            "and the labels that it finds there are compared with the right ones: those of the farthest samples",
            symptom="none",
            why="the score tells how often the farthest sample has the same label, and falls as the model gets better",
            fix=f"take the smallest distances: {_INSTEAD[name]}",
            location=location,
            symptom_location=distances,
        )


_INSTEAD = {
    "topk": "topk(k, largest=False)",
    "argmax": "argmin()",
    "max": "min()",
    "argsort": "argsort() without descending",
    "sort": "sort() without descending",
}


def _takes_largest(call: Call) -> bool:
    name, told = plain_name(call.function), call.scalars
    if not call.outputs or len(call.inputs) != 1:
        return False
    if name == "topk":
        return told.get("largest", told.get("3", True)) is not False
    is_sorted = name in ("argsort", "sort")
    return not is_sorted or told.get("descending", told.get("2", False)) is True
