"""Categories that are turned into numbers once for the data of the training, and once more for those of a score."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.evaluations.numbered_categories import Numbered, numbered_at
from gradviz.analysis.rules.bases.sources.own_files import own_files

_LOOKUP = "torch.nn.functional.embedding"
_MAX_CALLS = 16
_MAX_ROWS = 64


class CodedParts(Struct, frozen=True):
    """What numbers the values which occur in what it is given, for two parts of the data."""

    coded: Location
    """The line that numbers them."""
    table: int
    """The weight of the embedding that looks both up."""


class _Numbers(Struct, frozen=True):
    """Numbers that come into torch."""

    line: Location
    """The line with the first call that gets them: what brings arrays into torch is not noted itself."""
    tensor: int


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
        made = _made_of(case, row) if table in case.histories.trained and len(known) < _MAX_ROWS else None
        if made is not None:
            known.add(made)
    for table in sorted(trained.keys() & scored.keys()):
        apart = {each for each in scored[table] if each.tensor not in {other.tensor for other in trained[table]}}
        coded = _line_that_codes(case, {each.line for each in trained[table]}, {each.line for each in apart})
        if coded is not None and coded not in told:
            told.add(coded)
            yield CodedParts(coded, table)


def _made_of(case: Case, row: int) -> _Numbers | None:
    """The first call of torch with the numbers of a lookup."""
    flow, oldest = case.dataflow, None
    for made, call in flow.makers(flow.log.calls[row].inputs[0].tensor, row, _MAX_CALLS):
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
