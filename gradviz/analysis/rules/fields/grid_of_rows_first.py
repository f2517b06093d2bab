"""GV840."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.axis_sources import Label, sources_of_axis
from gradviz.analysis.rules.bases.formulas.grids.coordinates import counts_along
from gradviz.analysis.rules.bases.losses.loss_arguments import argument
from gradviz.graph.call_log import Call


class GridOfRowsFirst(Rule):
    """The positions that ``grid_sample`` gets have the row first, and it takes them for columns.

    What it finds
    -------------
    A grid whose coordinates, stacked or joined as its last axis, count along the rows first and along the columns
    after that (in three dimensions: depth, height, width), also where the output of a network was added to them.

    Why it matters
    --------------
    ``grid_sample`` reads ``(x, y)``: the first coordinate goes along the width, the last axis of the image
    (https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.grid_sample.html), while ``meshgrid`` with
    ``indexing="ij"`` returns the rows first. In the other order it samples the transposed image: nothing raises, and a
    flow of zero does not give the image back.

    Example
    -------
    model = torch.nn.Conv2d(2, 2, 3, padding=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    y, x = torch.meshgrid(torch.linspace(-1, 1, 8), torch.linspace(-1, 1, 8), indexing="ij")
    for step in range(3):
        first = torch.rand(4, 1, 8, 8)
        second = first.roll(1, 3)
        flow = model(torch.cat([first, second], 1))
        grid = torch.stack([y + flow[:, 1], x + flow[:, 0]], dim=-1)
        warped = torch.nn.functional.grid_sample(second, grid, align_corners=True)
        loss = (warped - first).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Conv2d(2, 2, 3, padding=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    y, x = torch.meshgrid(torch.linspace(-1, 1, 8), torch.linspace(-1, 1, 8), indexing="ij")
    for step in range(3):
        first = torch.rand(4, 1, 8, 8)
        second = first.roll(1, 3)
        flow = model(torch.cat([first, second], 1))
        grid = torch.stack([x + flow[:, 0], y + flow[:, 1]], dim=-1)
        warped = torch.nn.functional.grid_sample(second, grid, align_corners=True)
        loss = (warped - first).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV840"
    name = "grid_of_rows_first"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, _SAMPLERS):
            if call.call_site in told or not flow.has_step_after(row) or _samples_parameters(flow, call):
                continue
            told.add(call.call_site)
            joined = _joined_rows_first(flow, row, call)
            if joined is not None:
                yield self._finding(flow, joined, row)

    def _finding(self, flow: Dataflow, joined: int, row: int) -> Finding:
        location, other = two_lines(flow, joined, row)
        count = len(flow.log.calls[joined].inputs)
        return self.finding(
            f"the first of {count} coordinates counts along the rows of the grid, and grid_sample(){at_line(other)} "
            "goes along the columns with it: it reads the transposed image",
            symptom="grad_wrong",
            why="grid_sample() takes positions as (x, y), x along the last axis of the image; meshgrid() with "
            'indexing="ij" returns the rows first',
            fix="put x first: torch.stack([x, y], dim=-1)" if count == _PLANE else "turn the order round: x, y, z",
            location=location,
            symptom_location=other,
            evidence={"coordinates": count},
        )


_SAMPLERS = frozenset({"grid_sample", "grid_sampler"})
_PLANE = 2
_REORDER = frozenset({"flip", "roll", "index_select", "gather", "take_along_dim", "fliplr", "flipud", "rot90"})


def _samples_parameters(flow: Dataflow, call: Call) -> bool:
    """Whether a call samples trained values: a table of features may have its axes in any order."""
    return bool(call.inputs) and flow.log.tensors[call.inputs[0].tensor].role == "parameter"


def _joined_rows_first(flow: Dataflow, row: int, call: Call) -> int | None:
    """The call that joined coordinates in the order of the axes of the grid."""
    grid = argument(call, 1, "grid")
    if grid is None:
        return None
    rank = len(shape_of(flow, grid.tensor))
    if rank <= _PLANE or not call.outputs or _is_image_transposed(flow, row, call):
        return None
    labels = [sources_of_axis(flow, grid.tensor, axis, row) or frozenset() for axis in range(1, rank)]
    for tensor, axis in sorted(labels[-1], reverse=True):
        joined = flow.first_producer(tensor, row)
        if joined is None or not _joins_all(flow, joined, axis, count=rank - _PLANE):
            continue
        places = [_place(tensor, found) for found in labels[:-1]]
        order = None if None in places else _order(flow, joined, axis, [each for each in places if each is not None])
        if order == list(range(rank - _PLANE)) and not _is_reordered(flow, grid.tensor, joined, row):
            return joined
    return None


def _is_image_transposed(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether the image has its axes in another order than the program had them before: then x may be the first."""
    made = flow.newest_producer(call.inputs[0].tensor, row)
    return made is not None and plain_name(flow.log.calls[made].function) in _TRANSPOSES


_TRANSPOSES = frozenset({"transpose", "permute", "mT", "swapaxes", "movedim", "T", "t"})


def _joins_all(flow: Dataflow, row: int, axis: int, *, count: int) -> bool:
    """Whether a call makes an axis of one coordinate from each of its inputs."""
    call = flow.log.calls[row]
    rank = len(shape_of(flow, call.outputs[0].tensor))
    told = call.scalars.get("dim", call.scalars.get("1", 0))
    is_joined = plain_name(call.function) in ("stack", "cat") and len(call.inputs) == count
    return is_joined and type(told) is int and told % rank == axis


def _place(tensor: int, labels: frozenset[Label]) -> int | None:
    found = [axis for each, axis in labels if each == tensor]
    return found[0] if len(found) == 1 else None


def _order(flow: Dataflow, joined: int, axis: int, places: list[int]) -> list[int] | None:
    """For each coordinate, the number of the axis of the grid along which it counts; None if one counts along none, or
    along several."""
    call, order = flow.log.calls[joined], list[int]()
    is_new = plain_name(call.function) == "stack"
    axes = [place - (is_new and place > axis) for place in places]
    for use in call.inputs:
        along = counts_along(flow, use.tensor, axes, joined)
        if len(along) != 1:
            return None
        order.append(axes.index(along[0]))
    return order


def _is_reordered(flow: Dataflow, grid: int, joined: int, row: int) -> bool:
    """Whether the coordinates may have been put into another order: which ones a list chooses is not recorded."""
    derived = {use.tensor for use in flow.log.calls[joined].outputs}
    for each in flow.ancestors(grid, row, since=joined + 1):
        call = flow.log.calls[each]
        if derived.isdisjoint(use.tensor for use in call.inputs):
            continue
        if plain_name(call.function) in _REORDER or _is_chosen_by_list(flow, call):
            return True
        derived.update(use.tensor for use in call.outputs)
    return False


def _is_chosen_by_list(flow: Dataflow, call: Call) -> bool:
    if plain_name(call.function) != "getitem" or not call.outputs:
        return False
    given, made = (shape_of(flow, use.tensor) for use in (call.inputs[0], call.outputs[0]))
    return len(given) == len(made) and not any("." in place for place in call.scalars)
