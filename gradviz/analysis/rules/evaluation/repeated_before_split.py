"""GV986."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, line_in_function_of, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.rows_by_number import becomes_list, tables_read_apart
from gradviz.analysis.rules.bases.evaluations.network_outputs import SAME_VALUES
from gradviz.analysis.rules.bases.evaluations.scoring_calls import calls_on_data
from gradviz.analysis.rules.bases.samples.parts_of_permutations import parts_of_permutation
from gradviz.analysis.rules.bases.sources.arrays.oversampled_tables import RepeatedBefore, repeated_before_split
from gradviz.analysis.rules.bases.sources.own_files import own_files


class RepeatedBeforeSplit(Rule):
    """Rows are repeated before a random split, so copies of the same rows are trained on and held out.

    What it finds
    -------------
    Inputs and labels of which the same rows were taken several times, as those of a rare class are: there are more of
    them than there were, or a table and a part of it were put together. A permutation then decides which rows are
    trained on and which are held out. Repeated values that meet other inputs or other labels are left alone.

    Why it matters
    --------------
    A held-out row whose copy was trained on is known by heart. The score, of the rare class most of all, is far better
    than that on new rows; and the held-out part has another share of classes than the data.

    Example
    -------
    x = torch.randn(80, 4)
    y = (x[:, 0] > 1).float()
    rare = (y == 1).nonzero().squeeze(1)
    rows = torch.cat([torch.arange(80), rare.repeat(4)])
    x, y = x[rows], y[rows]
    order = torch.randperm(len(y))
    train, held_out = order[20:], order[:20]
    x_train, y_train, x_test, y_test = x[train], y[train], x[held_out], y[held_out]
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x_train).squeeze(1), y_train)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        accuracy = ((model(x_test).squeeze(1) > 0) == (y_test == 1)).float().mean()

    Instead
    -------
    x = torch.randn(80, 4)
    y = (x[:, 0] > 1).float()
    order = torch.randperm(len(y))
    train, held_out = order[20:], order[:20]
    x_train, y_train, x_test, y_test = x[train], y[train], x[held_out], y[held_out]
    rare = (y_train == 1).nonzero().squeeze(1)
    rows = torch.cat([torch.arange(60), rare.repeat(4)])
    x_train, y_train = x_train[rows], y_train[rows]
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x_train).squeeze(1), y_train)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        accuracy = ((model(x_test).squeeze(1) > 0) == (y_test == 1)).float().mean()
    """

    code = "GV986"
    name = "repeated_before_split"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, first_backward = case.dataflow, next(iter(case.dataflow.rows_of_kind("backward")), 0)
        times = Counter(flow.log.calls[row].call_site for row, _ in calls_named(flow, ("randperm",)))
        for drawn, parts in parts_of_permutation(flow) if case.histories.reached_by else ():
            if times[flow.log.calls[drawn].call_site] > 1 or drawn > first_backward or len(parts) not in _PARTS:
                continue
            tables = [_tables_of(flow, drawn, part, first_backward) for part in parts]
            repeated = _repeated(flow, tables)
            if repeated is not None and all(calls_on_data(case)):
                yield self._finding(flow, repeated, drawn)
                return
        for drawn, taken in _split_as_lists(flow, first_backward) if case.histories.reached_by else ():
            repeated = _repeated(flow, [taken])
            if repeated is not None and repeated.row < drawn:
                yield self._finding(flow, repeated, drawn)
                return
        for file, tree in own_files(case) if case.histories.reached_by else ():
            for found in repeated_before_split(tree):
                yield self._of_arrays(file, found)

    def _of_arrays(self, file: str, found: RepeatedBefore) -> Finding:
        return self.finding(
            f"rows of {found.name} are repeated, and line {found.split} splits it at random afterwards: copies of the "
            "same rows are trained on and held out",
            symptom="none",
            why="the model was trained on copies of held-out rows: their score is too good, and says nothing about "
            "new rows",
            fix="split first, and repeat rows of the part that is trained on only",
            location=Location(file, found.repeated),
            symptom_location=Location(file, found.split),
        )

    def _finding(self, flow: Dataflow, repeated: _Repeated, drawn: int) -> Finding:
        location = location_of_line(line_in_function_of(flow, repeated.row, drawn))
        split = location_of_line(line_in_function_of(flow, drawn, repeated.row))
        return self.finding(
            f"rows are repeated, {repeated.before:,} become {repeated.after:,}, and a random split comes afterwards: "
            "copies of the same rows are trained on and held out",
            symptom="none",
            why="the model was trained on copies of held-out rows: their score is too good, and says nothing about "
            "new rows",
            fix="split first, and repeat rows of the part that is trained on only",
            location=location,
            symptom_location=split if split != location else None,
            evidence={"before": repeated.before, "after": repeated.after},
        )


_PARTS = (2, 3)
_TAKES = frozenset({"getitem", "index_select"})
_BOTH = 2
_MIN_ROWS = 30
"""A small table, as the four cases of an exclusive or, has all cases that there are."""
_MAX_CALLS = 6


class _Repeated(Struct, frozen=True):
    """How the rows of a table were repeated. Equal keys mean in the same way."""

    row: int
    key: tuple[object, ...]
    before: int
    after: int


def _tables_of(flow: Dataflow, drawn: int, part: int, until: int) -> dict[int, int]:
    """The tables of which a part of a permutation takes rows before the first backward, with the call."""
    found: dict[int, int] = {}
    for user in flow.users(part, drawn):
        call = flow.log.calls[user]
        is_take = plain_name(call.function) in _TAKES and len(call.inputs) == _BOTH and call.inputs[1].tensor == part
        if is_take and user < until:
            found[call.inputs[0].tensor] = user
    return found


def _split_as_lists(flow: Dataflow, until: int) -> Iterator[tuple[int, dict[int, int]]]:
    """The permutations that left torch as a list, as those of ``random_split()``, with the tables that have as many
    rows, of which some are trained on and others held out."""
    seen = set[int]()
    for row, call in calls_named(flow, ("randperm",)):
        count = _rows(flow, call.outputs[0].tensor) if row < until else 0
        if count > _MIN_ROWS and count not in seen and becomes_list(flow, row):
            seen.add(count)
            yield row, dict(tables_read_apart(flow, count))


def _repeated(flow: Dataflow, tables: list[dict[int, int]]) -> _Repeated | None:
    """How the rows of all these tables, inputs and labels, were repeated, if it was in the same way."""
    if len(tables[0]) < _BOTH or any(each.keys() != tables[0].keys() for each in tables):
        return None
    found = [_how_repeated(flow, table, row) for table, row in tables[0].items()]
    known = [each for each in found if each is not None]
    is_same = len(known) == len(found) and len({each.key for each in known}) == 1
    return known[0] if is_same and known[0].before >= _MIN_ROWS else None


def _how_repeated(flow: Dataflow, tensor: int, row: int) -> _Repeated | None:
    """How the rows of a table were repeated, with nothing added to them since."""
    for made, call in flow.makers(tensor, row, _MAX_CALLS):
        name, after = plain_name(call.function), _rows(flow, call.outputs[0].tensor) if call.outputs else 0
        if not call.inputs or not after:
            return None
        before = _rows(flow, call.inputs[0].tensor)
        if name == "cat" and len(call.inputs) >= _BOTH:
            counts = [_rows(flow, use.tensor) for use in call.inputs]
            return _joined(flow, made, counts) if sum(counts) == after else None
        if name in _TAKES and len(call.inputs) == _BOTH and before < after:
            return _Repeated(made, ("taken", call.inputs[1].tensor), before, after)
        if name in ("repeat", "repeat_interleave", "tile") and before < after:
            return _Repeated(made, (name, before, after), before, after)
        if name not in SAME_VALUES or before != after:
            return None
    return None


def _joined(flow: Dataflow, row: int, counts: list[int]) -> _Repeated | None:
    """How rows are repeated by putting several tables together: one of them twice, one with rows of its own, or one
    whose rows were repeated before."""
    given = [use.tensor for use in flow.log.calls[row].inputs]
    twice = len(set(given)) < len(given)
    own = any(_taken_from(flow, each, row) in given for each in given)
    parts = [None if twice or own else _how_repeated(flow, each, row) for each in given]
    if not twice and not own and not any(parts):
        return None
    keys = tuple(each and each.key for each in parts)
    places = tuple(given.index(each) for each in given)
    before = sum(each.before if each is not None else count for each, count in zip(parts, counts, strict=True))
    if twice:
        before = sum(dict(zip(given, counts, strict=True)).values())
    elif own:
        before = max(counts)
    return _Repeated(row, ("joined", keys, places, own, *counts), before, sum(counts))


def _taken_from(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The table of which a tensor has rows that indexes or a mask chose."""
    made = flow.newest_producer(tensor, row)
    call = None if made is None else flow.log.calls[made]
    if call is None or plain_name(call.function) not in _TAKES or len(call.inputs) != _BOTH:
        return None
    return call.inputs[0].tensor


def _rows(flow: Dataflow, tensor: int) -> int:
    return next(iter(shape_of(flow, tensor)), 0)
