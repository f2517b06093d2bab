"""The calls that load stored values into parameters, by the line of the program that loads them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers, calls_named, location_of_call
from gradviz.analysis.finding import Location

_INTO_AND_FROM = 2


def loads_by_line(case: Case) -> dict[Location, list[int]]:
    """Each ``copy_()`` of values from a file or of another module into a parameter."""
    return _copies_by_line(case, lambda _row, source: case.dataflow.log.tensors[source].producer is None)


def handed_over_by_line(case: Case) -> dict[Location, list[int]]:
    """The same, and each ``copy_()`` of values that another function computed."""
    return _copies_by_line(case, lambda row, source: _is_handed_over(case, row, source))


def _copies_by_line(case: Case, is_stored: Callable[[int, int], bool]) -> dict[Location, list[int]]:
    flow = case.dataflow
    lines: dict[Location, list[int]] = defaultdict(list)
    for row, call in calls_named(flow, {"copy"}):
        location = location_of_call(flow, row)
        if location is None or len(call.inputs) < _INTO_AND_FROM or call.inside is not None:
            continue
        into, source = (use.tensor for use in call.inputs[:_INTO_AND_FROM])
        if not any(flow.log.tensors[each].role == "parameter" for each in flow.sharing_memory(into)):
            continue
        is_alike = flow.log.tensors[into].facts.shape == flow.log.tensors[source].facts.shape
        if "load_state_dict" in (case.source_line(location) or "") or (is_alike and is_stored(row, source)):
            lines[location].append(row)
    return lines


def _is_handed_over(case: Case, row: int, source: int) -> bool:
    producer = case.dataflow.log.tensors[source].producer
    if producer is None:
        return True
    here, there = (next(callers(case.dataflow, each), None) for each in (row, producer))
    return here is not None and there is not None and (here.file, here.function) != (there.file, there.function)
