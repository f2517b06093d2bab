"""GV867."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, operation, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.products import is_square
from gradviz.analysis.rules.bases.losses.loss_arguments import calls_in_training, value_maker
from gradviz.graph.call_log import Call


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
_DISTANCES = frozenset({"cdist", "pairwise_distance"})
_NORMS = frozenset({"norm", "vector_norm"})
_REDUCE = frozenset({"sum", "mean"})
_MIDDLES = frozenset({"mean", "median", "nanmean", "nanmedian"})
_RISE = frozenset({"sqrt", "clamp", "clamp_min", "square", "relu", "log_softmax"})
"""The larger what they take, the larger their result, where nothing is negative."""
_SCALE = frozenset({"mul", "div"})
_EXAMINED = 4
_BOTH = 2
_MAX_MAKERS = 8


def _distances(flow: Dataflow, row: int) -> int | None:
    """The call that computed the distances which a loss of classes takes as they are, or times a positive number."""
    tensor, before, has_logarithms = flow.log.calls[row].inputs[0].tensor, row, False
    for _ in range(_MAX_MAKERS):
        made = value_maker(flow, tensor, before)
        if made is None:
            return None
        before, call = made
        name = plain_name(call.function)
        if _is_distance(flow, before, call):
            is_loss_of_scores = plain_name(flow.log.calls[row].function) == "cross_entropy" or has_logarithms
            return before if is_loss_of_scores and call.outputs[0].requires_grad else None
        has_logarithms |= name == "log_softmax"
        is_power = name == "pow" and _is_positive(call)
        if len(call.inputs) != 1 or not (name in _RISE or is_power or (name in _SCALE and _is_positive(call))):
            return None
        tensor = call.inputs[0].tensor
    return None


def _is_positive(call: Call) -> bool:
    """Whether the number beside the only tensor of a call is above zero, and does not divide by the tensor."""
    factor = call.scalars.get("1", call.scalars.get("other", call.scalars.get("exponent")))
    return isinstance(factor, int | float) and factor > 0


def _is_distance(flow: Dataflow, row: int, call: Call) -> bool:
    name = plain_name(call.function)
    if name in _DISTANCES:
        return True
    if name not in _NORMS | _REDUCE or len(call.inputs) != 1:
        return False
    made = value_maker(flow, call.inputs[0].tensor, row)
    if made is not None and name in _REDUCE:
        is_even = is_square(made[1]) or plain_name(made[1].function) == "abs"
        made = value_maker(flow, made[1].inputs[0].tensor, made[0]) if is_even else None
    is_difference = made is not None and plain_name(made[1].function) == "sub" and len(made[1].inputs) == _BOTH
    return is_difference and made is not None and not _is_from_own_mean(flow, *made)


def _is_from_own_mean(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether the mean of the same values is subtracted: how far each candidate is from all of them makes a good score
    for the odd one out."""
    values, mean = (use.tensor for use in call.inputs)
    made = value_maker(flow, mean, row)
    is_mean = made is not None and plain_name(made[1].function) in _MIDDLES
    return is_mean and made is not None and made[1].inputs[0].tensor == values
