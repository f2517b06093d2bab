"""GV988."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axes_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import DIFFERENCES, calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.boxes.flipped_alone import FlippedAlone, flipped_alone
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.graph.call_log import Call


class BoxesNotFlipped(Rule):
    """Some pictures are flipped at random, and the boxes or points in them stay where they were.

    What it finds
    -------------
    A condition that is drawn at random, under which a picture alone is flipped, in a function that returns it beside
    what is called boxes or points, or in a loop that has got both. Nothing changes these later, and a loss compares
    answers with four numbers for each box, or pairs of numbers for points. What is drawn decides on nothing else.
    Colours in another order and clips that run backwards are left alone: nothing changes its place by them.

    Why it matters
    --------------
    What stands left in a flipped picture has its box on the right. The model learns the middle of both, from as many
    wrong targets as are flipped, and nothing raises.

    Example
    -------
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, boxes in [(torch.rand(8, 1, 8, 8), torch.rand(8, 4)) for _ in range(6)]:
        if torch.rand(()) < 0.5:
            images = images.flip(3)
        loss = torch.nn.functional.l1_loss(model(images), boxes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, boxes in [(torch.rand(8, 1, 8, 8), torch.rand(8, 4)) for _ in range(6)]:
        if torch.rand(()) < 0.5:
            images = images.flip(3)
            boxes = torch.stack([1 - boxes[:, 2], boxes[:, 1], 1 - boxes[:, 0], boxes[:, 3]], dim=1)
        loss = torch.nn.functional.l1_loss(model(images), boxes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV988"
    name = "boxes_not_flipped"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for file, tree in own_files(case):
            for found in flipped_alone(tree):
                compared, place = _line_of_loss(case, found), Location(file, found.line)
                if compared is not None and _turns_places(case.dataflow, place):
                    yield self._finding(place, found, compared)

    def _finding(self, location: Location, found: FlippedAlone, compared: Location) -> Finding:
        return self.finding(
            f"{found.picture} is flipped at random, and {found.places} beside it is not",
            symptom="grad_wrong",
            why="what stands left in a flipped picture has a target on the right: the model learns the middle of both",
            fix="mirror the coordinates under the same condition: x1, y1, x2, y2 become width - x2, y1, width - x1, y2"
            if found.are_boxes
            else "mirror the coordinates under the same condition: x becomes width - 1 - x",
            location=location,
            symptom_location=compared if compared != location else None,
        )


_BOTH = 2
_COLUMNS_OF_BOXES = 4


def _line_of_loss(case: Case, found: FlippedAlone) -> Location | None:
    """The line of a training that compares answers with boxes, or with points."""
    flow = case.dataflow
    for row, call in calls_named(flow, DIFFERENCES):
        dead = [use for use in call.inputs if not use.requires_grad]
        if len(call.inputs) != _BOTH or len(dead) != 1 or not flow.has_step_after(row):
            continue
        shape = shape_of(flow, dead[0].tensor)
        columns = shape[-1] if len(shape) >= _BOTH else 0
        if columns == _COLUMNS_OF_BOXES if found.are_boxes else columns and columns % _BOTH == 0:
            return location_of_call(flow, row)
    return None


_AXES = {"fliplr": [1], "flipud": [0]}
_MOST_COLOURS = 4


def _turns_places(flow: Dataflow, place: Location) -> bool:
    """Whether a line flips the height or the width of pictures, as far as its calls were recorded: not the colours, the
    order of the frames of a clip, or that of the points of a cloud."""
    found = [row for row, _ in calls_named(flow, {"flip", *_AXES}) if location_of_call(flow, row) == place]
    return not found or any(_is_of_places(flow, flow.log.calls[row]) for row in found)


def _is_of_places(flow: Dataflow, call: Call) -> bool:
    shape = shape_of(flow, call.inputs[0].tensor)
    rank = len(shape)
    axes = _AXES.get(plain_name(call.function), axes_of(call, rank))
    has_colours_last = rank > _BOTH and shape[-1] <= _MOST_COLOURS
    places = {rank - 3, rank - 2} if has_colours_last else {rank - 2, rank - 1}
    return not places.isdisjoint(axes) and not _are_rows(flow, shape)


def _are_rows(flow: Dataflow, shape: tuple[int, ...]) -> bool:
    """Whether a layer takes the few numbers of the last axis for the features of a row, and nothing is a convolution:
    a set of points."""
    if not shape or shape[-1] > _MOST_COLOURS or any(_is_convolution(each) for each in flow.log.calls):
        return False
    layers = calls_named(flow, ("linear",))
    return any(shape_of(flow, call.inputs[0].tensor)[-1:] == shape[-1:] for _, call in layers)


def _is_convolution(call: Call) -> bool:
    return plain_name(call.function).startswith("conv")
