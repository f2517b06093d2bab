"""GV867."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, operation, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.distances import distances_behind
from gradviz.analysis.rules.bases.losses.loss_arguments import calls_in_training


class DistancesAsScores(Rule):
    """A loss of classes takes distances for scores, so that the farthest class is the most probable one.

    What it finds
    -------------
    ``cross_entropy()``, or ``nll_loss()`` of ``log_softmax()``, of distances with a gradient: of ``cdist()``, of norms
    of differences, or of sums of their squares, also times a positive number, and never negated. Distances from the
    mean of all candidates are left alone: the right one may be the odd one out.

    Why it matters
    --------------
    The loss raises the score of the right class above the others. If the scores are distances, it moves a sample away
    from its own class and close to all others.

    Example
    -------
    encoder = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    labels = torch.arange(3).repeat(5)
    for step in range(3):
        prototypes, queries = encoder(torch.randn(3, 6)), encoder(torch.randn(15, 6))
        loss = torch.nn.functional.cross_entropy(torch.cdist(queries, prototypes), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    encoder = torch.nn.Linear(6, 4)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    labels = torch.arange(3).repeat(5)
    for step in range(3):
        prototypes, queries = encoder(torch.randn(3, 6)), encoder(torch.randn(15, 6))
        loss = torch.nn.functional.cross_entropy(-torch.cdist(queries, prototypes), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV867"
    name = "distances_as_scores"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for rows in calls_in_training(flow, _LOSSES):
            found = [_distances(flow, row) for row in rows[-_EXAMINED:]]
            if found[-1] is not None and all(each is not None for each in found):
                yield self._finding(flow, rows[-1], found[-1])

    def _finding(self, flow: Dataflow, row: int, made: int) -> Finding:
        location, loss = location_of_call(flow, made), location_of_call(flow, row)
        return self.finding(
            f"{plain_name(flow.log.calls[row].function)}(){at_line(loss)} takes the distances of "
            f"{operation(flow.log.calls[made])}() for scores: the farthest class is the most probable one",
            symptom="grad_wrong",
            why="the loss raises the score of the right class, which moves each sample away from its own class",
            fix="give it the negative distances: -distances",
            location=location,
            symptom_location=loss if loss != location else None,
        )


_LOSSES = frozenset({"cross_entropy", "nll_loss"})
_EXAMINED = 4


def _distances(flow: Dataflow, row: int) -> int | None:
    """The call that computed the distances which a loss of classes takes as they are, or times a positive number."""
    call = flow.log.calls[row]
    found = distances_behind(flow, call.inputs[0].tensor, row)
    if found is None or not flow.log.calls[found[0]].outputs[0].requires_grad:
        return None
    is_of_scores = plain_name(call.function) == "cross_entropy" or "log_softmax" in found[1]
    return found[0] if is_of_scores else None
