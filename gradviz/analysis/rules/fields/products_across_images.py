"""GV879."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call


class ProductsAcrossImages(Rule):
    """A Gram matrix of channels also has the products of channels of different images.

    What it finds
    -------------
    Maps of several images, (N, C, H, W), that are viewed as (N * C, H * W) and multiplied with their own transpose.

    Why it matters
    --------------
    A Gram matrix says which channels of one image go together. Viewed like this, it is one matrix for the whole batch:
    most of it compares places of images that have nothing to do with each other, and the loss asks for images that
    look alike.

    Example
    -------
    conv = torch.nn.Conv2d(3, 4, 3)
    optimizer = torch.optim.SGD(conv.parameters(), lr=0.1)
    style = torch.eye(4)
    for step in range(3):
        maps = conv(torch.rand(2, 3, 8, 8))
        n, c, h, w = maps.shape
        rows = maps.view(n * c, h * w)
        gram = rows @ rows.T / (c * h * w)
        loss = (gram - style.repeat(n, n)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    conv = torch.nn.Conv2d(3, 4, 3)
    optimizer = torch.optim.SGD(conv.parameters(), lr=0.1)
    style = torch.eye(4)
    for step in range(3):
        maps = conv(torch.rand(2, 3, 8, 8))
        n, c, h, w = maps.shape
        rows = maps.view(n, c, h * w)
        gram = rows @ rows.transpose(1, 2) / (c * h * w)
        loss = (gram - style).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV879"
    name = "products_across_images"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, _PRODUCTS):
            if call.call_site in told or not call.live_inputs or not flow.has_step_after(row):
                continue
            viewed = _view_of_images(flow, row, call)
            if viewed is not None:
                told.add(call.call_site)
                yield self._finding(flow, row, viewed)

    def _finding(self, flow: Dataflow, row: int, viewed: int) -> Finding:
        location, product = location_of_call(flow, viewed), location_of_call(flow, row)
        images, channels = shape_of(flow, flow.log.calls[viewed].inputs[0].tensor)[:2]
        return self.finding(
            f"the maps of {images:,} images with {channels:,} channels are viewed as {images * channels:,} rows and "
            f"multiplied with each other{at_line(product)}: most products are those of different images",
            symptom="grad_wrong",
            why="a Gram matrix compares the channels of one image; those of different images have nothing in common",
            fix="keep the images apart: rows = maps.view(n, c, h * w), gram = rows @ rows.transpose(1, 2)",
            location=location,
            symptom_location=product if product != location else None,
        )


_PRODUCTS = frozenset({"matmul", "mm"})
_VIEWS = frozenset({"view", "reshape", "flatten"})
_TURNS = frozenset({"t", "T", "mT", "transpose", "permute"})
_BOTH = 2
_MAPS = 4


def _view_of_images(flow: Dataflow, row: int, call: Call) -> int | None:
    """The view as (N * C, H * W) of maps that a call multiplies with themselves."""
    if len(call.inputs) != _BOTH:
        return None
    rows, turned = (use.tensor for use in call.inputs)
    made = flow.newest_producer(turned, row)
    turn = None if made is None else flow.log.calls[made]
    if turn is None or plain_name(turn.function) not in _TURNS or turn.inputs[0].tensor != rows:
        return None
    made = flow.newest_producer(rows, row)
    view = None if made is None else flow.log.calls[made]
    if view is None or plain_name(view.function) not in _VIEWS or not view.inputs:
        return None
    shape = shape_of(flow, view.inputs[0].tensor)
    is_kernel = flow.log.tensors[view.inputs[0].tensor].role == "parameter"
    if is_kernel or len(shape) != _MAPS or min(shape) == 1:
        return None
    return made if shape_of(flow, rows) == (shape[0] * shape[1], shape[2] * shape[3]) else None
