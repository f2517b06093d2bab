"""GV849."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import DIFFERENCES, at_line, calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.graph.call_log import Call


class FlowEnlargedOnly(Rule):
    """Displacements in pixels are brought to a grid of another size, and keep their values.

    What it finds
    -------------
    Two maps of displacements that are added to the numbers of the pixels of a grid (``arange``), or are differences
    from these, then resized with ``interpolate()``, and taken without a factor: added to the numbers of the pixels of
    the other grid, or compared with data there.

    Why it matters
    --------------
    A shift by one pixel is one by two pixels in a grid that is twice as fine. Without the factor, each level of a
    pyramid begins at half the distance, and looks for what is missing where it cannot be seen.

    Example
    -------
    coarse, fine = torch.nn.Conv2d(2, 2, 3, padding=1), torch.nn.Conv2d(2, 2, 3, padding=1)
    optimizer = torch.optim.SGD([*coarse.parameters(), *fine.parameters()], lr=0.01)
    def moved(image, flow):
        n = image.shape[-1]
        y, x = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
        grid = torch.stack([x + flow[:, 0], y + flow[:, 1]], dim=-1)
        return torch.nn.functional.grid_sample(image, 2 * grid / (n - 1) - 1, align_corners=True)
    for step in range(3):
        pair = torch.rand(4, 2, 16, 16)
        small = torch.nn.functional.avg_pool2d(pair, 2)
        flow = coarse(small)
        loss = (moved(small[:, 1:], flow) - small[:, :1]).abs().mean()
        flow = torch.nn.functional.interpolate(flow, scale_factor=2, mode="bilinear")
        flow = flow + fine(torch.cat([moved(pair[:, 1:], flow), pair[:, :1]], dim=1))
        loss = loss + (moved(pair[:, 1:], flow) - pair[:, :1]).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    coarse, fine = torch.nn.Conv2d(2, 2, 3, padding=1), torch.nn.Conv2d(2, 2, 3, padding=1)
    optimizer = torch.optim.SGD([*coarse.parameters(), *fine.parameters()], lr=0.01)
    def moved(image, flow):
        n = image.shape[-1]
        y, x = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
        grid = torch.stack([x + flow[:, 0], y + flow[:, 1]], dim=-1)
        return torch.nn.functional.grid_sample(image, 2 * grid / (n - 1) - 1, align_corners=True)
    for step in range(3):
        pair = torch.rand(4, 2, 16, 16)
        small = torch.nn.functional.avg_pool2d(pair, 2)
        flow = coarse(small)
        loss = (moved(small[:, 1:], flow) - small[:, :1]).abs().mean()
        flow = 2 * torch.nn.functional.interpolate(flow, scale_factor=2, mode="bilinear")
        flow = flow + fine(torch.cat([moved(pair[:, 1:], flow), pair[:, :1]], dim=1))
        loss = loss + (moved(pair[:, 1:], flow) - pair[:, :1]).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV849"
    name = "flow_enlarged_only"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, _RESIZES):
            if call.call_site in told or not call.live_inputs or not call.outputs or not flow.has_step_after(row):
                continue
            given, made = shape_of(flow, call.inputs[0].tensor), shape_of(flow, call.outputs[0].tensor)
            is_flow = len(given) == _RANK and given[1] == _PLANE and given[-1] != made[-1]
            used = _use_as_pixels(flow, call.outputs[0].tensor, row) if is_flow else None
            if used is not None and _is_in_pixels(flow, call.inputs[0].tensor, row):
                told.add(call.call_site)
                yield self._finding(flow, row, used, made[-1] / given[-1])

    def _finding(self, flow: Dataflow, row: int, used: int, factor: float) -> Finding:
        location, other = location_of_call(flow, row), location_of_call(flow, used)
        is_beside = other != location
        return self.finding(
            f"displacements in pixels are brought to a grid of {factor:.3g} times the size, and keep their values"
            f"{at_line(other) if is_beside else ''}: there they are pixels of another size",
            symptom="grad_wrong",
            why=f"what was a shift by one pixel is one by {factor:.3g} pixels of the new grid",
            fix=f"multiply them by the same factor: {factor:.3g} * F.interpolate(flow, ...)",
            location=location,
            symptom_location=other if is_beside else None,
            evidence={"factor": factor},
        )


_RESIZES = frozenset({"interpolate", "upsample", "upsample_bilinear"})
_COUNTS = frozenset({"meshgrid", "stack", "cat", "repeat", "tile", "flip"})
_RANK = 4
_PLANE = 2
_MAX_FOLLOWED = 30
_MAX_MAKERS = 12


def _counts_pixels(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a tensor has the numbers of pixels, as ``arange()`` counts them, and nothing has scaled them."""
    for _, call in flow.makers(tensor, row, _MAX_MAKERS):
        name = plain_name(call.function)
        if name == "arange":
            return _is_one_by_one(call)
        if name not in _COUNTS and name not in SHAPE_ONLY:
            return False
    return False


def _is_one_by_one(call: Call) -> bool:
    values = call.outputs[0].values if call.outputs else None
    if values is None or values.minimum is None or values.maximum is None:
        return False
    return values.maximum - values.minimum == values.count - 1


def _sums(flow: Dataflow, tensor: int, row: int) -> Iterator[int]:
    """The calls that add the values of a tensor to something, or compare them, before a step and without a factor."""
    until = flow.next_of_kind("step", row)
    waiting, seen = [tensor], set[int]()
    while waiting and len(seen) < _MAX_FOLLOWED:
        for user in flow.users(waiting.pop(), row):
            call = flow.log.calls[user]
            if user in seen or user >= until or call.kind != "operation" or not call.outputs:
                continue
            seen.add(user)
            name = plain_name(call.function)
            if name == "add" or name in DIFFERENCES:
                yield user
            elif name in SHAPE_ONLY or name == "unbind":
                waiting += [use.tensor for use in call.outputs]


def _use_as_pixels(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The call that adds displacements to the numbers of pixels, or compares them with data of the same shape."""
    for user in _sums(flow, tensor, row):
        call = flow.log.calls[user]
        if flow.changes(tensor, row, user):
            return None
        others = [use for use in call.inputs if not use.requires_grad]
        is_added = plain_name(call.function) == "add"
        if is_added and any(_counts_pixels(flow, use.tensor, user) for use in others):
            return user
        if not is_added and any(shape_of(flow, use.tensor) == shape_of(flow, tensor) for use in others):
            return None if any(_counts_pixels(flow, use.tensor, user) for use in others) else user
    return None


def _is_in_pixels(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether displacements, or what they were refined from, were added to the numbers of the pixels of their grid, or
    are a difference from these."""
    since, size = flow.step_before(row), shape_of(flow, tensor)
    waiting, seen = [(tensor, row)], set[int]()
    while waiting and len(seen) < _MAX_MAKERS:
        part, before = waiting.pop()
        seen.add(part)
        for user in _sums(flow, part, since):
            reader = flow.log.calls[user]
            others = [use for use in reader.inputs if not use.requires_grad]
            if plain_name(reader.function) == "add" and any(_counts_pixels(flow, use.tensor, user) for use in others):
                return True
        made = flow.newest_producer(part, before)
        call = None if made is None or made < since else flow.log.calls[made]
        if made is None or call is None:
            continue
        name = plain_name(call.function)
        if name == "sub" and _counts_pixels(flow, call.inputs[-1].tensor, made):
            return True
        if name == "add" or (name in SHAPE_ONLY and shape_of(flow, call.inputs[0].tensor) == size):
            waiting += [(use.tensor, made) for use in call.live_inputs if use.tensor not in seen]
    return False
