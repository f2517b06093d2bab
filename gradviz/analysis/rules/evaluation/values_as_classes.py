"""GV956."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.graph.call_log import Call, TensorUse


class ValuesAsClasses(Rule):
    """Labels are compared with something that is no class of each sample: with scores, or with one index for all.

    What it finds
    -------------
    A comparison ``==`` of whole numbers, one for each sample, with the values that ``max(dim)`` returns beside the
    indexes, or with ``argmax()`` of a whole batch, which is a single number, where a layer computed the scores.

    Why it matters
    --------------
    A score is hardly ever equal to the number of a class, and one index for the whole batch is none for its samples:
    the accuracy is near zero, or by chance, whatever the model has learned.

    Example
    -------
    x, y = torch.randn(40, 4), torch.randint(0, 3, (40,))
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    predicted = model(x).max(1)[0]
    accuracy = (predicted == y).float().mean()

    Instead
    -------
    x, y = torch.randn(40, 4), torch.randint(0, 3, (40,))
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    predicted = model(x).max(1)[1]
    accuracy = (predicted == y).float().mean()
    """

    code = "GV956"
    name = "values_as_classes"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, ("eq",)) if case.histories.reached_by else ():
            made = None if call.call_site in told else _no_classes(flow, row, call)
            if made is not None:
                told.add(call.call_site)
                yield self._finding(flow, row, made)

    def _finding(self, flow: Dataflow, row: int, made: int) -> Finding:
        call = flow.log.calls[made]
        location, compared = two_lines(flow, made, row)
        is_of_all = plain_name(call.function) == "argmax"
        count = max(_length(flow, use) for use in flow.log.calls[row].inputs)
        return self.finding(
            f"{count:,} labels are compared with "
            + (
                "a single number: argmax() without dim looks for the largest of all scores of the batch"
                if is_of_all
                else "scores: the first of what max(dim) returns are the values, the second one are the indexes"
            ),
            symptom="none",
            why="the accuracy is near zero, or by chance, whatever the model has learned",
            fix="compare the class of each sample: scores.argmax(dim=1) == labels",
            location=location,
            symptom_location=compared,
        )


_BOTH = 2
_MAX_CALLS = 6


def _length(flow: Dataflow, use: TensorUse) -> int:
    return next(iter(shape_of(flow, use.tensor)), 1)


def _no_classes(flow: Dataflow, row: int, call: Call) -> int | None:
    """The call that made what labels are compared with, if these are values of scores, or one index for all samples."""
    for given, labels in (call.inputs, call.inputs[::-1]) if len(call.inputs) == _BOTH else ():
        shape, facts = shape_of(flow, labels.tensor), flow.log.tensors[labels.tensor].facts
        made = value_maker(flow, given.tensor, row) if len(shape) == 1 and "int" in facts.dtype else None
        if made is None or shape[0] < _BOTH or not made[1].inputs:
            continue
        scores = shape_of(flow, made[1].inputs[0].tensor)
        if len(scores) != _BOTH or scores[0] != shape[0] or not _is_of_layer(flow, *made):
            continue
        if _are_values(flow, given, made[1]) or _is_index_of_all(flow, given, made[1]):
            return made[0]
    return None


def _are_values(flow: Dataflow, given: TensorUse, call: Call) -> bool:
    is_first = plain_name(call.function) == "max" and len(call.outputs) == _BOTH
    return is_first and flow.log.tensors[given.tensor].facts.dtype.startswith(("float", "bfloat"))


def _is_index_of_all(flow: Dataflow, given: TensorUse, call: Call) -> bool:
    return plain_name(call.function) == "argmax" and shape_of(flow, given.tensor) == ()


def _is_of_layer(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether a layer with parameters computed the scores, perhaps with a softmax behind it."""
    makers = flow.makers(call.inputs[0].tensor, row, _MAX_CALLS)
    return any(flow.log.tensors[use.tensor].role == "parameter" for _, made in makers for use in made.inputs)
