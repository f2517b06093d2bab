"""Categories that are turned into numbers once for the data of the training, and once more for those of a score: those
that an embedding looks up, and the classes of labels."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.evaluations.network_outputs import Layer, layer_behind
from gradviz.analysis.rules.bases.evaluations.numbered_categories import Numbered, lines_of_data_sets, numbered_at
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.analysis.rules.bases.sources.own_files import own_files

_LOOKUP = "torch.nn.functional.embedding"
_MAX_CALLS = 16
_MAX_ROWS = 64
_BOTH = 2
_BEST = frozenset({"argmax", "max", "topk"})


class CodedParts(Struct, frozen=True):
    """What numbers the values which occur in what it is given, for two parts of the data."""

    coded: Location
    """The line that numbers them."""
    table: int | None
    """The weight of the embedding that looks both up; None for classes."""


class _Numbers(Struct, frozen=True):
    """Numbers that come into torch."""

    line: Location
    """The line with the first call that gets them: what brings arrays into torch is not noted itself."""
    tensor: int


class _Labels(Struct):
    """The classes that losses or scores compare with what one layer computed."""

    numbers: set[_Numbers]
    largest: dict[int, float]
    """The largest class that is known of each tensor of numbers; -1 for those of which the origin is unknown."""


def coded_parts(case: Case) -> Iterator[CodedParts]:
    """One for each line that numbers the values which an embedding is trained with, and those that it is scored with
    once more."""
    trained: dict[int, set[_Numbers]] = {}
    scored: dict[int, set[_Numbers]] = {}
    told = set[Location]()
    for row in case.dataflow.rows_of_function(_LOOKUP) if case.histories.reached_by else ():
        call = case.dataflow.log.calls[row]
        table, group = call.inputs[-1].tensor, trained if call.grad_mode == "enabled" else scored
        known = group.setdefault(table, set())
        made = (
            _made_of(case, row, call.inputs[0].tensor)
            if table in case.histories.trained and len(known) < _MAX_ROWS
            else None
        )
        if made is not None:
            known.add(made)
    for table in sorted(trained.keys() & scored.keys()):
        apart = {each for each in scored[table] if each.tensor not in {other.tensor for other in trained[table]}}
        coded = _line_that_codes(case, {each.line for each in trained[table]}, {each.line for each in apart})
        if coded is not None and coded not in told:
            told.add(coded)
            yield CodedParts(coded, table)


def coded_classes(case: Case) -> Iterator[CodedParts]:
    """The same of labels: those of a loss in training, and others with which predictions are compared, if one of the
    two has more classes."""
    trained, scored = dict[Layer, _Labels](), dict[Layer, _Labels]()
    flow = case.dataflow
    for row, call in calls_named(flow, ("cross_entropy", "nll_loss", "eq")) if case.histories.reached_by else ():
        compared = _prediction_and_label(flow, row)
        layer = None if compared is None else layer_behind(flow, compared[0], row)
        if compared is not None and layer is not None:
            group = trained if call.live_inputs else scored
            if call.live_inputs or call.grad_mode != "enabled":
                _note_labels(case, group.setdefault(layer, _Labels(set(), {})), compared[1], row)
    for layer in trained.keys() & scored.keys():
        own, other = trained[layer], scored[layer]
        apart = {each for each in other.numbers if each.tensor not in own.largest}
        if apart and _largest(own) != max(other.largest[each.tensor] for each in apart):
            coded = _line_that_codes(case, {each.line for each in own.numbers}, {each.line for each in apart})
            if coded is not None:
                yield CodedParts(coded, None)
                return
        if _largest(own) != _largest(other):
            for file, tree in own_files(case):
                yield from (CodedParts(Location(file, line), None) for line in lines_of_data_sets(tree))
            return


def _largest(labels: _Labels) -> float:
    return max(labels.largest.values(), default=-1)


def _prediction_and_label(flow: Dataflow, row: int) -> tuple[int, int] | None:
    """The scores of a layer and the classes that a loss compares with them; or that ``eq`` does with the best ones."""
    call = flow.log.calls[row]
    if len(call.inputs) < _BOTH or not _is_whole_number(flow, call.inputs[1].tensor):
        return None
    if plain_name(call.function) != "eq":
        return call.inputs[0].tensor, call.inputs[1].tensor
    first, second = (use.tensor for use in call.inputs[:_BOTH])
    for best, label in ((first, second), (second, first)):
        made = value_maker(flow, best, row)
        if made is not None and plain_name(made[1].function) in _BEST and made[1].inputs:
            return made[1].inputs[0].tensor, label
    return None


def _is_whole_number(flow: Dataflow, tensor: int) -> bool:
    return "int" in (flow.log.tensors[tensor].facts.dtype or "")


def _note_labels(case: Case, labels: _Labels, label: int, row: int) -> None:
    """Adds the classes of one call."""
    made = _made_of(case, row, label) if len(labels.numbers) < _MAX_ROWS else None
    if made is not None:
        labels.numbers.add(made)
    known = [case.dataflow.values(label, row)]
    known += [] if made is None else [case.dataflow.values(made.tensor, row)]
    place = -1 if made is None else made.tensor
    largest = [each.maximum for each in known if each is not None and each.maximum is not None]
    labels.largest[place] = max([labels.largest.get(place, -1), *largest])


def _made_of(case: Case, row: int, numbers: int) -> _Numbers | None:
    """The first call of torch with the numbers that a call gets."""
    flow, oldest = case.dataflow, None
    for made, call in flow.makers(numbers, row, _MAX_CALLS):
        oldest = made if len(call.inputs) <= 1 or plain_name(call.function) == "stack" else None
    line = None if oldest is None else location_of_call(flow, oldest)
    if oldest is None or line is None:
        return None
    given = flow.log.calls[oldest].inputs or flow.log.calls[oldest].outputs
    return _Numbers(line, given[0].tensor) if given else None


def _line_that_codes(case: Case, trained: set[Location], scored: set[Location]) -> Location | None:
    """The line that numbers values for both: one that is given each, or that of the scored ones beside another."""
    trees = dict(own_files(case))
    found: dict[Location, Numbered | None] = {}
    for line in trained | scored:
        tree = trees.get(line.file)
        statements = [] if tree is None else tree.statements_at(line.line)
        values = (
            [each for each in ast.iter_child_nodes(statements[-1]) if isinstance(each, ast.expr)] if statements else []
        )
        numbered = (numbered_at(tree, each) for each in values) if tree is not None else ()
        found[line] = next((each for each in numbered if each is not None), None)
    others = [each for each in (found[line] for line in trained) if each is not None]
    if len(others) < len(trained) and not case.dataflow.log.loaders:
        return None  # of a loader, only the first batches have calls that made them
    for line in sorted(scored, key=lambda each: (each.file, each.line)):
        coded = found[line]
        is_same = coded is not None and coded.is_of_argument and line in trained
        is_apart = line not in trained and all(coded is not None and each.entry is not coded.entry for each in others)
        if coded is not None and others and (is_same or is_apart):
            return Location(line.file, coded.line)
    return None
