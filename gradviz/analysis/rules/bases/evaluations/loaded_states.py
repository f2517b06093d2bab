"""The calls that load stored values into parameters, by the line of the program that loads them."""

from __future__ import annotations

from collections import defaultdict

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call
from gradviz.analysis.finding import Location
from gradviz.graph.call_log import Call

_INTO_AND_FROM = 2


def loads_by_line(case: Case) -> dict[Location, list[int]]:
    """Each ``copy_()`` of values from a file or of another module into a parameter."""
    flow = case.dataflow
    lines: dict[Location, list[int]] = defaultdict(list)
    for row, call in calls_named(flow, {"copy"}):
        location = location_of_call(flow, row)
        if location is not None and _is_load(case, location, call):
            lines[location].append(row)
    return lines


def _is_load(case: Case, location: Location, call: Call) -> bool:
    flow = case.dataflow
    if len(call.inputs) < _INTO_AND_FROM or call.inside is not None:
        return False
    into, source = (flow.log.tensors[use.tensor] for use in call.inputs[:_INTO_AND_FROM])
    if not any(flow.log.tensors[each].role == "parameter" for each in flow.sharing_memory(call.inputs[0].tensor)):
        return False
    if "load_state_dict" in (case.source_line(location) or ""):
        return True
    return into.facts.shape == source.facts.shape and source.producer is None
