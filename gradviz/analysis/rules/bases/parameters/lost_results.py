"""Where results are lost that no loss uses, and what to say of it."""

from __future__ import annotations

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.cuts import overwrites
from gradviz.analysis.dataflow.overwritten_variables import Overwriting
from gradviz.analysis.finding import Location, location_of_line
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.parameters.unused_parameters import UnusedParameters


def line_that_gets(case: Case, row: int) -> Location | None:
    """The line of a call; if it returns the result from a function, the line that gets it."""
    flow = case.dataflow
    line = flow.line_of(row)
    while line is not None and line.caller is not None:
        if not (case.source_line(location_of_line(line)) or "").lstrip().startswith("return "):
            break
        line = flow.log.call_sites[line.caller]
    return location_of_line(line)


def where_left_out(histories: ParameterHistories, number: int, row: int) -> Location | None:
    """The line of the last result computed from it, which the loss does not use; else where its neighbour is used.

    Programs list tensors in the order of their use: a bias after its weight, a weight before the next one.
    """
    rows = [
        each for each in histories.flow.descendants(number, until=row, live=True) if histories.log.calls[each].outputs
    ]
    asked = [use.tensor for use in histories.log.calls[row].asked]
    here = asked.index(number)
    before, behind = asked[:here][::-1], asked[here + 1 :]
    is_bias = len(histories.tensor(number).facts.shape) < 2
    beside = [*before, *behind] if is_bias else [*behind, *before]
    rows = rows or [each for other in beside for each in histories.forward_uses(other) if each < row][:1]
    return location_of_call(histories.flow, rows[-1]) if rows else None


def written_into_data(case: Case, group: UnusedParameters) -> str:
    """The parameter into whose ``.data`` the last call puts the result; "" if it does something else."""
    log = case.dataflow.log
    call = None if group.last is None else log.calls[group.last]
    if call is None or not overwrites(call):
        return ""
    changed = {log.tensors[use.tensor].storage: use.tensor for use in call.changed}
    found = (number for number in log.parameters if log.tensors[number].storage in changed)
    return next((case.histories.name(each) for each in found if each not in changed.values()), "")


def use_it(lost: Overwriting) -> str:
    name = lost.variable
    return f"use the earlier {name} too ({name} = {name} + ..., or as the input), or rename one of them"
