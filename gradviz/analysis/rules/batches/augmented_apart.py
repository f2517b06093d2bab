"""GV798."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, callers, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.copies.chosen_flips import MADE_OF_A_DRAW, TURNS, chosen_flip, turned_axes
from gradviz.analysis.rules.bases.losses.loss_arguments import LOSSES_BY_SAMPLE, calls_in_training
from gradviz.graph.call_log import Call
from gradviz.graph.model import CallSite


class AugmentedApart(Rule):
    """A picture and the target for each of its pixels are flipped or cropped in two different ways.

    What it finds
    -------------
    A loss of each pixel whose input is flipped, or turned by ``rot90()``, at some steps and whose target is not at the
    same ones, or whose input and target are cut out at two different places, which are drawn apart. Also a batch of
    which a mask says which samples are flipped, where another mask says it of the targets, or where the targets are
    points, (n, k, 2) or (n, k, 4), that stay where they were. A model that turns its result back is left alone, and so
    are input and target that are always the same distance apart.

    Why it matters
    --------------
    Each pixel meets the target of another one. The model learns what is right on the average over all places, such as
    the most frequent class, and nothing raises.

    Example
    -------
    model = torch.nn.Conv2d(1, 2, 3, padding=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        picture = torch.randn(4, 1, 8, 8)
        mask = (picture > 0).long().squeeze(1)
        if step % 2:
            picture = picture.flip(-1)
        loss = torch.nn.functional.cross_entropy(model(picture), mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Conv2d(1, 2, 3, padding=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        picture = torch.randn(4, 1, 8, 8)
        mask = (picture > 0).long().squeeze(1)
        if step % 2:
            picture, mask = picture.flip(-1), mask.flip(-1)
        loss = torch.nn.functional.cross_entropy(model(picture), mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV798"
    name = "augmented_apart"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for rows in calls_in_training(flow, LOSSES_BY_SAMPLE):
            pairs = [pair for row in rows for pair in _pairs(flow, row)]
            flipped = [pair for pair in pairs if _are_turned_otherwise(*pair)]
            cropped = [pair for pair in pairs if _are_other_places(*pair)]
            chosen = [pair for pair in pairs if pair[0].choices != pair[1].choices]
            if len(chosen) >= _MIN_PAIRS:
                yield self._finding(flow, chosen, chosen[-1], "flipped", len(pairs))
            elif 0 < len(flipped) < len(pairs):
                # The pair in which least was done has no flip that both share.
                pair = min(reversed(flipped), key=lambda each: sum(len(motion.rows) for motion in each))
                yield self._finding(flow, flipped, pair, "flipped", len(pairs))
            elif len(cropped) >= _MIN_PAIRS and len({_distance(*pair) for pair in cropped}) > 1:
                yield self._finding(flow, cropped, cropped[-1], "cut out", len(pairs))
        for rows in calls_in_training(flow, _ERRORS_OF_POINTS):
            later = [row for row in rows if flow.step_before(row)]  # Before the first step, all data is new.
            turned = [flip for row in later if (flip := _points_left_behind(flow, row)) is not None]
            is_at_random = turned and (len(turned) < len(later) or chosen_flip(flow, turned[-1]) is not None)
            if is_at_random and len(turned) >= _MIN_PAIRS:
                yield self._of_points(flow, rows[-1], turned[-1])

    def _of_points(self, flow: Dataflow, row: int, flip: int) -> Finding:
        location, compared = two_lines(flow, flip, row)
        return self.finding(
            f"some pictures are flipped, and the points that the loss{at_line(compared)} compares are not",
            symptom="grad_wrong",
            why="what stands left in a flipped picture has a point on the right: the model learns the middle of both",
            fix="do the same to the points: torch.where(chosen, torch.stack([width - 1 - x, y], -1), points), or 1 - x "
            "for coordinates between 0 and 1",
            location=location,
            symptom_location=compared,
        )

    def _finding(self, flow: Dataflow, apart: list[_Pair], pair: _Pair, how: str, of: int) -> Finding:
        given, target = pair
        shared = _lines(flow, [each for each, _ in apart]) & _lines(flow, [each for _, each in apart])
        line, other = _line_of(flow, target, given, shared), _line_of(flow, given, target, shared)
        line, other = (line, other) if line is not None else (other, line)
        return self.finding(
            f"the input and the target of each pixel are {how} in two different ways in {len(apart):,} of {of:,} cases",
            symptom="grad_wrong",
            why="each pixel meets the target of another place",
            fix=_COUNT if line is not None and line == other else _DRAW,
            location=location_of_line(line),
            symptom_location=location_of_line(other) if other != line else None,
            evidence={"apart": len(apart), "cases": of},
        )


class _Motion(Struct, frozen=True):
    """What was done to one picture, or to a batch of them."""

    flips: frozenset[int] = frozenset()
    """The axes, counted from the end, along which it is turned round."""
    quarters: tuple[int, ...] = ()
    """Its quarter turns, the last one first."""
    crop: tuple[tuple[int, int], ...] = ()
    """Begin and end along each of the last two axes; empty if it is not cut out."""
    choices: frozenset[tuple[frozenset[int], int]] = frozenset()
    """The axes along which some samples of a batch are turned round, with the tensor that chose them."""
    rows: tuple[int, ...] = ()
    """The calls that did it."""


_DRAW = "draw once what is done, and do it to both: the picture and its mask"
_COUNT = "turn both along the same axes: count them from the end, flip(-1) or flip(-2), as a mask may lack the channels"
_Pair = tuple[_Motion, _Motion]
_AXES = 2
_MIN_PAIRS = 4
_MIN_RANK = 3
_QUARTERS = 4
_MAX_MAKERS = 12
_MOVES = TURNS | {"roll", "rot90", "grid_sample", "transpose", "permute", "fold", "pixel_shuffle"}
_KEEPS = frozenset({
    "to", "float", "long", "double", "squeeze", "unsqueeze", "clone", "contiguous", "div", "sub", "mul", "add", "clamp",
    "getitem", "detach", "gt", "ge", "lt",
})  # fmt: skip


def _pairs(flow: Dataflow, row: int) -> list[_Pair]:
    """What was done to each input of a loss of pixels and to its target; nothing where the model moves pixels."""
    call = flow.log.calls[row]
    if len(call.inputs) < _AXES or call.inputs[1].requires_grad:
        return []
    target = call.inputs[1].tensor
    size = shape_of(flow, target)[-_AXES:]
    if len(shape_of(flow, target)) < _MIN_RANK or min(size) == 1:
        return []
    above = flow.ancestors(call.inputs[0].tensor, row, flow.step_before(row))
    live = [each for each in above if any(use.requires_grad for use in flow.log.calls[each].inputs)]
    if not live or any(plain_name(flow.log.calls[each].function) in _MOVES for each in live):
        return []
    data = (use.tensor for use in flow.log.calls[live[0]].inputs if not use.requires_grad)
    given = next((each for each in data if shape_of(flow, each)[-_AXES:] == size), None)
    of_both = [_motions(flow, each, before) for each, before in ((given, live[0]), (target, row)) if each is not None]
    return list(zip(*of_both, strict=True)) if len(of_both) == _AXES and len(of_both[0]) == len(of_both[1]) else []


def _motions(flow: Dataflow, tensor: int, before: int) -> list[_Motion]:
    """One for each picture that was put into a batch one by one; else one for all."""
    flips, crop, rows = frozenset[int](), tuple[tuple[int, int], ...](), list[int]()
    quarters = tuple[int, ...]()
    choices = frozenset[tuple[frozenset[int], int]]()
    narrowed: dict[int, tuple[int, int]] = {}
    for row, call in _makers(flow, tensor, before):
        name, choice = plain_name(call.function), chosen_flip(flow, row)
        if name == "stack":
            own = [_motions(flow, use.tensor, row)[0] for use in call.inputs]
            return [
                _Motion(
                    flips ^ each.flips,
                    (*quarters, *each.quarters),
                    crop or each.crop,
                    choices | each.choices,
                    (*rows, *each.rows),
                )
                for each in own
            ]
        bounds = _bounds(call) if name == "getitem" else ()
        if choice is not None:
            choices |= {choice[:2]}
            rows.append(row)
        elif name in TURNS:
            flips ^= turned_axes(call, len(shape_of(flow, call.inputs[0].tensor)))
            rows.append(row)
        elif name == "rot90":
            turned = call.scalars.get("1", call.scalars.get("k", 1))
            quarters += (turned % _QUARTERS,) if type(turned) is int and turned % _QUARTERS else ()
            rows.append(row)
        elif name == "narrow":
            narrowed |= _narrowed(call, len(shape_of(flow, call.inputs[0].tensor)))
            crop = crop or tuple(narrowed[axis] for axis in (-_AXES, -1) if len(narrowed) == _AXES)
            rows.append(row)
        elif len(bounds) >= _AXES:
            crop = crop or bounds[-_AXES:]
            rows.append(row)
        elif name not in _KEEPS:
            break
    return [_Motion(flips, quarters, crop, choices, tuple(rows))]


def _makers(flow: Dataflow, tensor: int, before: int) -> Iterator[tuple[int, Call]]:
    """The newest call that made a picture, the one that made what this call took; and so on."""
    for _ in range(_MAX_MAKERS):
        made = flow.producers(tensor, before)
        if not made:
            return
        before = made[-1]
        call = flow.log.calls[before]
        yield before, call
        if not call.inputs:
            return
        choice = chosen_flip(flow, before)
        tensor = call.inputs[0].tensor if choice is None else choice[2].tensor


def _narrowed(call: Call, rank: int) -> dict[int, tuple[int, int]]:
    """Begin and end along the axis of ``narrow()``, one of the last two, counted from the end."""
    axis, begin, size = (
        call.scalars.get(place, call.scalars.get(name)) for place, name in zip("123", _NARROW, strict=True)
    )
    if type(axis) is not int or type(begin) is not int or type(size) is not int:
        return {}
    axis = axis if axis < 0 else axis - rank
    return {axis: (begin, begin + size)} if axis >= -_AXES else {}


_NARROW = ("dim", "start", "length")


def _bounds(call: Call) -> tuple[tuple[int, int], ...]:
    """Begin and end of each slice that names both."""
    slices = sorted(place.removesuffix(".start") for place in call.scalars if place.endswith(".start"))
    ends = ((call.scalars[f"{each}.start"], call.scalars.get(f"{each}.stop")) for each in slices)
    return tuple((begin, end) for begin, end in ends if type(begin) is int and type(end) is int)


def _are_turned_otherwise(given: _Motion, target: _Motion) -> bool:
    return (given.flips, given.quarters) != (target.flips, target.quarters)


def _are_other_places(given: _Motion, target: _Motion) -> bool:
    """Whether two pieces of one size were cut out at two places."""
    one, other = ([end - begin for begin, end in each.crop] for each in (given, target))
    return bool(one) and one == other and given.crop != target.crop


def _distance(given: _Motion, target: _Motion) -> tuple[int, ...]:
    return tuple(one[0] - other[0] for one, other in zip(given.crop, target.crop, strict=True))


def _lines(flow: Dataflow, motions: list[_Motion]) -> set[tuple[str, int]]:
    """The lines that moved any of these."""
    sites = {flow.log.calls[row].call_site: row for motion in motions for row in motion.rows}
    lines = (flow.line_of(row) for row in sites.values())
    return {(line.file, line.line) for line in lines if line is not None}


def _line_of(flow: Dataflow, motion: _Motion, other: _Motion, shared: set[tuple[str, int]]) -> CallSite | None:
    """The line that did it; of a function that does it to inputs and to targets, the one that calls the function, if
    it is not one call that does both."""
    lines, others = ([*callers(flow, each.rows[-1])] if each.rows else [] for each in (motion, other))
    is_shared = len(lines) > 1 and (lines[0].file, lines[0].line) in shared and lines != others
    return lines[1] if is_shared else next(iter(lines), None)


# -- points ------------------------------------------------------------------------------------------------------------

_ERRORS_OF_POINTS = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
_COORDINATES = (2, 4)
_RANK_OF_POINTS = 3
_RANK_OF_PICTURES = 4
_TURN_BACK = _MOVES | {"where", "rsub", "setitem"}
_KEEPS_POINTS = frozenset({
    "to", "float", "double", "clone", "contiguous", "getitem", "index_select", "detach", "view", "reshape", "flatten",
    "unsqueeze", "squeeze",
})  # fmt: skip


def _points_left_behind(flow: Dataflow, row: int) -> int | None:
    """The call that flips pictures of a batch, if a loss compares points of them that are as they were stored."""
    call = flow.log.calls[row]
    shapes = [shape_of(flow, use.tensor) for use in call.inputs[:_AXES]]
    are_points = all(len(shape) == _RANK_OF_POINTS and shape[-1] in _COORDINATES for shape in shapes)
    if len(shapes) < _AXES or not are_points or call.inputs[1].requires_grad:
        return None
    picture = _picture_read(flow, call.inputs[0].tensor, row)
    if picture is None or not _is_as_stored(flow, call.inputs[1].tensor, row):
        return None
    for made, maker in _makers(flow, *picture):
        choice = chosen_flip(flow, made)
        if choice is not None:
            return made if _chooses_only(flow, choice[1], made) else None
        if made > flow.step_before(row) and plain_name(maker.function) in TURNS:
            return made if turned_axes(maker, _RANK_OF_PICTURES) <= {-1, -_AXES} else None
    return None


def _is_as_stored(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a tensor is a part of what was there before this step, as it was."""
    since = flow.step_before(row)
    for _ in range(_MAX_MAKERS):
        made = flow.newest_producer(tensor, row)
        if made is None or made <= since:
            return True
        call = flow.log.calls[made]
        if plain_name(call.function) not in _KEEPS_POINTS or not call.inputs:
            return False
        tensor, row = call.inputs[0].tensor, made
    return False


def _picture_read(flow: Dataflow, tensor: int, row: int) -> tuple[int, int] | None:
    """The batch of pictures from which a prediction was computed, and the call that took it; None where the prediction
    may be turned back."""
    above = flow.ancestors(tensor, row, flow.step_before(row))
    live = [flow.log.calls[each] for each in above if flow.log.calls[each].live_inputs]
    if any(plain_name(call.function) in _TURN_BACK or call.function.endswith("rsub__") for call in live):
        return None
    for each in above:
        for use in flow.log.calls[each].inputs if flow.log.calls[each].live_inputs else ():
            if not use.requires_grad and len(shape_of(flow, use.tensor)) == _RANK_OF_PICTURES:
                return use.tensor, each
    return None


def _chooses_only(flow: Dataflow, drawn: int, flip: int) -> bool:
    """Whether what was drawn chooses nothing else: neither points nor results that are turned back."""
    waiting = [drawn]
    for tensor in waiting:
        for user in flow.users(tensor):
            call = flow.log.calls[user]
            is_of_it = call.inputs[0].tensor == tensor and plain_name(call.function) in MADE_OF_A_DRAW
            if is_of_it and call.outputs and len(waiting) < _MAX_MAKERS:
                waiting.append(call.outputs[0].tensor)
                continue
            is_of_pictures = any(len(shape_of(flow, use.tensor)) == _RANK_OF_PICTURES for use in call.inputs)
            if call.outputs and not (user == flip or is_of_pictures):
                return False
    return True
