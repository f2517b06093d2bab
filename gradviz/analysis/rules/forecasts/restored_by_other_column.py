"""GV982."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import (
    at_line,
    callers,
    calls_named,
    location_of_call,
    plain_name,
)
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.network_outputs import layer_behind, told_of_targets
from gradviz.graph.call_log import Call


class RestoredByOtherColumn(Rule):
    """Predictions of one column are brought back to its units with the deviation of another column.

    What it finds
    -------------
    A table whose columns are each divided by their own standard deviation, a model that is trained to predict one of
    these columns, and predictions of it that are multiplied by the deviation of another column.

    Why it matters
    --------------
    The predictions and the observations are both in wrong units: the error that is reported is too large or too small
    by the ratio of two deviations, and the model looks better or worse than it is.

    Example
    -------
    table = torch.randn(60, 3) * torch.tensor([9.0, 1.0, 4.0]) + torch.tensor([90.0, 1.0, 20.0])
    mean, std = table.mean(0), table.std(0)
    scaled = (table - mean) / std
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = torch.nn.functional.mse_loss(model(scaled[:39]).squeeze(1), scaled[1:40, 2])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        predicted = model(scaled[40:59]).squeeze(1) * std[0] + mean[0]
        print((predicted - (scaled[41:, 2] * std[0] + mean[0])).abs().mean())

    Instead
    -------
    table = torch.randn(60, 3) * torch.tensor([9.0, 1.0, 4.0]) + torch.tensor([90.0, 1.0, 20.0])
    mean, std = table.mean(0), table.std(0)
    scaled = (table - mean) / std
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = torch.nn.functional.mse_loss(model(scaled[:39]).squeeze(1), scaled[1:40, 2])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        predicted = model(scaled[40:59]).squeeze(1) * std[2] + mean[2]
        print((predicted - (scaled[41:, 2] * std[2] + mean[2])).abs().mean())
    """

    code = "GV982"
    name = "restored_by_other_column"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        columns = told_of_targets(flow, _column_above)
        for row, call in calls_named(flow, ("mul",)) if columns else ():
            if len(call.inputs) != _BOTH or call.call_site in told:
                continue
            for given, factor in (call.inputs, call.inputs[::-1]):
                picked = _picked(flow, factor.tensor, row)
                layer = None if picked is None else layer_behind(flow, given.tensor, row)
                column = None if layer is None else columns.get(layer)
                if picked and column and picked.deviations == column.deviations and picked.number != column.number:
                    told.add(call.call_site)
                    yield self._finding(case, row, picked, column)

    def _finding(self, case: Case, row: int, picked: _Column, column: _Column) -> Finding:
        location, target = _line_that_chooses(case, row), location_of_call(case.dataflow, column.row)
        return self.finding(
            f"predictions of column {column.number}, which the loss takes for its target{at_line(target)}, are "
            f"multiplied by the standard deviation of column {picked.number}",
            symptom="none",
            why="each column was divided by its own deviation: with that of another one, the values and their errors "
            "are in wrong units",
            fix=f"take the same column: predicted * std[{column.number}] + mean[{column.number}]",
            location=location,
            symptom_location=target if target != location else None,
            evidence={"predicted": column.number, "restored_by": picked.number},
        )


_BOTH = 2
_MAX_CALLS = 10
_DEVIATIONS = frozenset({"std", "std_mean"})
_SAFE = frozenset({"clamp", "clamp_min", "add", "to", "float", "squeeze", "unsqueeze", "view", "reshape", "where"})


class _Column(Struct, frozen=True):
    """One column of a table that was divided by the deviations of its columns, or its deviation."""

    row: int
    """The call that takes it."""
    number: int
    deviations: int
    """The call that computed the deviations of all columns."""


def _line_that_chooses(case: Case, row: int) -> Location | None:
    """The line with the number of the column: where a function takes it as an argument, the one that calls it."""
    lines = [location_of_line(site) for site in callers(case.dataflow, row)]
    has_number = _NUMBER.search(case.source_line(lines[0]) or "") if lines else None
    return lines[1] if len(lines) > 1 and has_number is None else next(iter(lines), None)


_NUMBER = re.compile(r"\[-?\d+\]")


def _column_above(flow: Dataflow, tensor: int, row: int) -> _Column | None:
    """The column of a scaled table that some values are.

    Its number is that of the table only if nothing in between has chosen among the columns, put others beside them, or
    made an axis of times the last one.
    """
    taken: tuple[int, int] | None = None
    columns = 0
    for made, call in flow.makers(tensor, row, _MAX_CALLS):
        name = plain_name(call.function)
        if taken is not None and not _has_all_columns(flow, call, columns):
            return None
        if name == "div":
            deviations = _deviations(flow, call.inputs[1].tensor, made) if len(call.inputs) == _BOTH else None
            return _Column(*taken, deviations) if taken is not None and deviations is not None else None
        is_of_table = name in ("getitem", "select") and len(shape_of(flow, call.inputs[0].tensor)) > 1
        number = _last_number(flow, call) if is_of_table else None
        if number is not None and taken is None:
            taken = made, number
            columns = shape_of(flow, call.inputs[0].tensor)[-1]
        elif name not in _KEEPS:
            return None
    return None


def _has_all_columns(flow: Dataflow, call: Call, columns: int) -> bool:
    """Whether a call leaves so many columns as they stood; ``table[:, [2, 0, 1]]``, of which no number is known, may
    give them another order."""
    if not call.inputs or not call.outputs:
        return False
    given, result = (shape_of(flow, use[0].tensor) for use in (call.inputs, call.outputs))
    indexes = [shape_of(flow, use.tensor) for use in call.inputs[1:]]
    is_alike = plain_name(call.function) == "getitem" and not call.scalars and given == result
    return result[-1:] == (columns,) and not (is_alike and all(each == given[-1:] for each in indexes))


_KEEPS = frozenset({
    "getitem", "stack", "cat", "view", "reshape", "squeeze", "unsqueeze", "flatten", "clone", "detach", "to", "float",
    "unfold", "contiguous", "narrow",
})  # fmt: skip


def _last_number(flow: Dataflow, call: Call) -> int | None:
    """The number by which a call takes one place of the last axis, counted from the front."""
    shape = shape_of(flow, call.inputs[0].tensor)
    last = len(shape) - 1
    places = ("1",) if last == 0 else (f"1[{last}]",)
    if plain_name(call.function) == "select":
        axis, number = call.scalars.get("1", call.scalars.get("dim")), call.scalars.get("2", call.scalars.get("index"))
        if axis not in (last, -1):
            return None
    else:
        number = next((call.scalars[each] for each in places if each in call.scalars), None)
    return number % shape[-1] if shape and type(number) is int and shape[-1] > 1 else None


def _picked(flow: Dataflow, tensor: int, row: int) -> _Column | None:
    """The deviation of one column."""
    for made, call in flow.makers(tensor, row, _MAX_CALLS):
        name = plain_name(call.function)
        number = _last_number(flow, call) if name in ("getitem", "select") else None
        if number is not None:
            deviations = _deviations(flow, call.inputs[0].tensor, made)
            return None if deviations is None else _Column(made, number, deviations)
        if name not in _SAFE:
            return None
    return None


def _deviations(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The call that computed the standard deviations of the columns of a table."""
    for made, call in flow.makers(tensor, row, _MAX_CALLS):
        name = plain_name(call.function)
        if name in _DEVIATIONS:
            return made
        is_whole = name == "getitem" and shape_of(flow, call.inputs[0].tensor)[-1:] == shape_of(
            flow, call.outputs[0].tensor
        )[-1:]  # fmt: skip
        if name not in _SAFE and not is_whole:
            return None
    return None
