"""GV775."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.copies.flattened_rows import GRIDS, JOINS, TURN, orders_of_rows
from gradviz.analysis.rules.bases.losses.loss_arguments import LOSSES_BY_SAMPLE
from gradviz.graph.call_log import Call


class FlattenedOtherwise(Rule):
    """Two axes are flattened in one order for some values, and in the other order for values that meet them.

    What it finds
    -------------
    A loss or a product that combines, row by row, what comes of a tensor of shape ``(T, N, ...)`` whose first two axes
    were flattened with what comes of one of shape ``(N, T, ...)``: one of the two was transposed, or stacked along the
    other axis, before ``reshape()``, ``view()`` or ``flatten()``; or the time steps of a loop were joined with
    ``cat()``; or all pairs of two lists of coordinates were taken with ``cartesian_prod()``, the list of the inner axis
    first. Of both, the same rows may be taken later: by one index, list, slice or part, or by an array of one name.
    Where one of the two lines flattens several values of a step, the other one is told. Axes of the same length cannot
    be told apart.

    Why it matters
    --------------
    Row ``i`` is another step of another sequence on each side: an advantage weighs the action of another environment,
    a position meets the pixel of another one. All shapes fit.

    Example
    -------
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        seen = torch.randn(8, 4, 3)
        returns = seen.sum(2).flip(0).cumsum(0).flip(0)
        values = model(seen.reshape(32, 3)).squeeze(1)
        loss = torch.nn.functional.mse_loss(values, returns.transpose(0, 1).reshape(32))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        seen = torch.randn(8, 4, 3)
        returns = seen.sum(2).flip(0).cumsum(0).flip(0)
        values = model(seen.reshape(32, 3)).squeeze(1)
        loss = torch.nn.functional.mse_loss(values, returns.reshape(32))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV775"
    name = "flattened_otherwise"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[int]] = defaultdict(list)
        for row, call in enumerate(flow.log.calls):
            if _combines(call) and flow.has_step_after(row) and len(lines[call.call_site]) < _MAX_TRIED:
                lines[call.call_site].append(row)
        told = set[Location | None]()
        for rows in lines.values():
            found = [each for row in rows for each in _met_otherwise(case, row)]
            finding = self._finding(case, found[-1]) if found and len(found) >= min(_MIN_TIMES, len(rows)) else None
            if finding is not None and finding.location not in told:
                told.add(finding.location)
                yield finding

    def _finding(self, case: Case, met: _Met) -> Finding:
        flow = case.dataflow
        first, second = met.order
        location, other = two_lines(flow, met.edited, met.other)
        where = location_of_call(flow, met.row)
        return self.finding(
            f"two axes are flattened as ({first}, {second}) here and as ({second}, {first}){at_line(other)}, and the "
            f"rows of both meet{at_line(where)}",
            symptom="grad_wrong",
            why="row i of the one belongs to another step and another sequence than row i of the other",
            fix="flatten both in the same order of their axes: transpose both before it, or neither",
            location=location,
            symptom_location=where if where != location else other,
            evidence={"rows": first * second},
        )


_COMBINE = LOSSES_BY_SAMPLE | {"mul", "add", "sub", "gather"}
_MAX_TRIED = 3
_MIN_TIMES = 2
_BOTH = 2


class _Met(Struct, frozen=True):
    """A call that combines rows of both orders."""

    row: int
    edited: int
    """The call that flattens the axes in the order that is to be mended."""
    other: int
    order: tuple[int, int]
    """The lengths of the axes as the first of both flattens them."""


def _combines(call: Call) -> bool:
    is_live = any(use.requires_grad for use in call.outputs)
    return call.kind == "operation" and is_live and len(call.inputs) >= _BOTH and plain_name(call.function) in _COMBINE


def _met_otherwise(case: Case, row: int) -> Iterator[_Met]:
    """Whether a call combines rows in one order with as many in the other; once."""
    flow = case.dataflow
    one, other = (use.tensor for use in flow.log.calls[row].inputs[:_BOTH])
    count = shape_of(flow, one)[:1]
    if not count or shape_of(flow, other)[:1] != count:
        return
    left, right = orders_of_rows(case, one, row, count[0]), orders_of_rows(case, other, row, count[0])
    if len(left) != 1 or len(right) != 1:
        return
    (((order, taken), first),) = left.items()
    (((turned, also_taken), second),) = right.items()
    if order == turned[::-1] and order[0] != order[1] and taken == also_taken:
        both = _Met(row, first, second, order), _Met(row, second, first, turned)
        is_first = _is_turned(flow, first) and not _is_turned(flow, second)
        met, mirrored = both if is_first else both[::-1]
        yield mirrored if _is_usual(flow, met.edited, met.other) else met


def _is_usual(flow: Dataflow, row: int, other: int) -> bool:
    """Whether a line flattens several values of a step, as a function for this purpose does, and another one a single
    value: then the other one is the exception."""
    return _times(flow, row) > 1 == _times(flow, other)


def _times(flow: Dataflow, row: int) -> int:
    """How often the line of a call makes such a call between two steps."""
    calls, steps = flow.log.calls, flow.rows_of_kind("step")
    end = next((step for step in steps[bisect_left(steps, row) :]), row)
    place, name = location_of_call(flow, row), calls[row].function
    times = range(flow.step_before(row), end)
    return sum(calls[each].function == name and location_of_call(flow, each) == place for each in times)


def _is_turned(flow: Dataflow, row: int) -> bool:
    """Whether what is flattened was transposed before, or stacked along another axis than the first."""
    if plain_name(flow.log.calls[row].function) in JOINS | GRIDS:
        return True
    for _, call in flow.makers(flow.log.calls[row].inputs[0].tensor, row, 1):
        is_stacked = plain_name(call.function) == "stack" and call.scalars.get("1", call.scalars.get("dim", 0)) != 0
        return plain_name(call.function) in TURN or is_stacked
    return False
