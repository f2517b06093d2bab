"""GV793."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import (
    at_line,
    calls_named,
    line_in_function_of,
    line_that_gave,
    location_of_call,
    plain_name,
)
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import leaf_names_above
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.boxes.overlaps import PARTS_OF_BOXES, ends_of_overlap
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, calls_in_training, tensor_before
from gradviz.graph.call_log import TensorUse


class BoxesOfTwoForms(Rule):
    """An overlap of boxes takes them for corners, and one side or both are centres and sizes.

    What it finds
    -------------
    The overlap of predicted boxes with those of the data, where one side was converted before, such as from centres and
    sizes to corners (sums and differences of its columns that are joined again), and the other side was not, though
    another part of the loss compares both sides as they were before. Also the overlap of boxes of the data of which
    some end before they begin, at every step, where the loss subtracts their beginnings from their ends; likewise in an
    evaluation.

    Why it matters
    --------------
    A width is taken for a coordinate. Both have four columns, so nothing raises: half of the boxes seem to be empty,
    and the loss pulls the others to places where no object is.

    Example
    -------
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        boxes = torch.rand(16, 4) * 0.3 + 0.3
        predicted = torch.sigmoid(model(torch.randn(16, 8)))
        corners = torch.cat([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], dim=1)
        last = torch.min(predicted[:, 2:], corners[:, 2:])
        sides = (last - torch.max(predicted[:, :2], corners[:, :2])).clamp(min=0)
        loss = (predicted - boxes).abs().mean() - sides.prod(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        boxes = torch.rand(16, 4) * 0.3 + 0.3
        predicted = torch.sigmoid(model(torch.randn(16, 8)))
        first = torch.max(predicted[:, :2] - predicted[:, 2:] / 2, boxes[:, :2] - boxes[:, 2:] / 2)
        last = torch.min(predicted[:, :2] + predicted[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2)
        sides = (last - first).clamp(min=0)
        loss = (predicted - boxes).abs().mean() - sides.prod(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV793"
    name = "boxes_of_two_forms"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, ("sub",)):
            if call.call_site in told or not call.live_inputs or not flow.has_step_after(row):
                continue
            backward = case.histories.backward_after(row)
            found = None if backward is None else _two_forms(flow, row, backward)
            if found is not None:
                told.add(call.call_site)
                yield self._finding(flow, found)
        for rows in calls_in_training(flow, frozenset({"sub"})):
            if flow.log.calls[rows[0]].call_site not in told:
                ended = [_ends_before_it_begins(flow, row) for row in rows if flow.log.calls[row].live_inputs]
                if len(ended) >= _MIN_TIMES and all(each is not None for each in ended):
                    told.add(flow.log.calls[rows[0]].call_site)
                    yield self._no_corners(flow, rows[-1], ended[-1] or 0)
        scored = defaultdict[int | None, list[_Scored]](list)
        for row, call in calls_named(flow, ("sub",)) if case.histories.reached_by else ():
            if call.call_site not in told and not call.live_inputs and (overlap := _scored(flow, row)) is not None:
                scored[call.call_site].append(overlap)
        for overlaps in scored.values():
            ends = [_end_before_beginning(flow, each.wanted, each.row) for each in overlaps]
            if all(each is not None for each in ends):
                yield self._no_corners(flow, overlaps[-1].row, ends[-1] or 0, overlaps[-1].predicted)

    def _no_corners(self, flow: Dataflow, overlap: int, sides: int, predicted: int | None = None) -> Finding:
        live = flow.log.calls[overlap].live_inputs
        made = flow.newest_producer(live[0].tensor, overlap) if live else None
        boxes = predicted if made is None else _boxes(flow, flow.log.calls[made].live_inputs[0].tensor, made)
        given = None if boxes is None else flow.newest_producer(boxes, overlap)
        line = None if given is None else location_of_line(line_that_gave(flow, overlap, given))
        least = flow.log.calls[sides].outputs[0].values
        return self.finding(
            "an overlap takes the boxes of the data for corners, and some end before they begin: their sides go "
            f"down to {0 if least is None else least.minimum:.3g}",
            symptom="grad_wrong" if live else "none",
            why="boxes of a centre and a size have four columns, too: a size is subtracted as if it were a coordinate",
            fix="convert both sides before the overlap: giou(to_corners(predicted), to_corners(boxes))",
            location=line or location_of_call(flow, overlap),
            symptom_location=location_of_call(flow, sides),
        )

    def _finding(self, flow: Dataflow, found: _TwoForms) -> Finding:
        line = location_of_line(line_in_function_of(flow, found.overlap, found.compared))
        compared = location_of_call(flow, found.compared)
        one, other = ("predicted boxes", "boxes of the data")[:: 1 if found.is_of_prediction else -1]
        return self.finding(
            f"an overlap takes the {one} as they were converted, and the {other} as they are; the loss"
            f"{at_line(compared)} compares both before that",
            symptom="grad_wrong",
            why="the two sides have four columns of different meaning: a size is compared with a coordinate",
            fix="convert both sides before the overlap: giou(to_corners(predicted), to_corners(boxes))",
            location=line or location_of_call(flow, found.overlap),
            symptom_location=compared if compared != line else None,
            tensors=leaf_names_above(flow, found.predicted, found.overlap, since=flow.step_before(found.overlap)),
        )


class _TwoForms(Struct, frozen=True):
    overlap: int
    """The call that subtracts beginnings from ends."""
    compared: int
    """The call that compares both sides before one was converted."""
    is_of_prediction: bool
    """Whether it is the prediction that was converted."""
    predicted: int


_MIN_TIMES = 3
_COLUMNS = 4
_BOTH = 2
_MAX_CALLS = 12
_JOINS = frozenset({"stack", "cat"})
_SUMS = frozenset({"add", "sub"})
_ARITHMETIC = frozenset({"mul", "div"})
_PASSED = SHAPE_ONLY | PARTS_OF_BOXES
_COMPARES = frozenset({"l1_loss", "smooth_l1_loss", "mse_loss", "huber_loss", "sub"})


def _two_forms(flow: Dataflow, row: int, backward: int) -> _TwoForms | None:
    ends = ends_of_overlap(flow, row)
    uses = [flow.log.calls[end].inputs for end in ends or ()]
    if ends is None or any(len(each) != _BOTH or each[0].requires_grad == each[1].requires_grad for each in uses):
        return None
    predicted, wanted = (_boxes_of_side(flow, ends, uses, live=live) for live in (True, False))
    if predicted is None or wanted is None:
        return None
    before = _converted_from(flow, predicted, row), _converted_from(flow, wanted, row)
    if (before[0] is None) == (before[1] is None):
        return None
    pair = before[0] or _root(flow, predicted, row), before[1] or _root(flow, wanted, row)
    compared = _compared(flow, pair, flow.step_before(row), backward)
    return None if compared is None else _TwoForms(row, compared, before[0] is not None, predicted)


def _ends_before_it_begins(flow: Dataflow, row: int) -> int | None:
    """For the sides of an overlap, the call that subtracts the beginnings of the same boxes of the data from their
    ends, if some sides are negative."""
    ends = ends_of_overlap(flow, row)
    uses = [flow.log.calls[end].inputs for end in ends or ()]
    wanted = None if ends is None else _boxes_of_side(flow, ends, uses, live=False)
    return None if ends is None or wanted is None else _end_before_beginning(flow, wanted, row)


class _Scored(Struct, frozen=True):
    """An overlap that an evaluation computes."""

    row: int
    predicted: int
    wanted: int


def _scored(flow: Dataflow, row: int) -> _Scored | None:
    """The overlap of boxes that a network computes with boxes of the data, where no loss takes it."""
    ends = ends_of_overlap(flow, row)
    boxes = [{_boxes(flow, use.tensor, end) for use in flow.log.calls[end].inputs} for end in ends or ()]
    if len(boxes) != _BOTH or boxes[0] != boxes[1]:
        return None
    known = [each for each in boxes[0] if each is not None]
    predicted = [each for each in known if _is_of_network(flow, each, row)]
    wanted = [each for each in known if each not in predicted]
    return _Scored(row, predicted[0], wanted[0]) if len(predicted) == len(wanted) == 1 else None


def _is_of_network(flow: Dataflow, tensor: int, row: int) -> bool:
    above = flow.ancestors(tensor, row, since=flow.step_before(row))
    return any(
        flow.log.tensors[use.tensor].role == "parameter" for each in above for use in flow.log.calls[each].inputs
    )


def _end_before_beginning(flow: Dataflow, wanted: int, row: int) -> int | None:
    """The call that subtracts the beginnings of boxes from their ends, if some results are negative."""
    for part in flow.users(wanted, flow.step_before(row)):
        made = flow.log.calls[part].outputs[0].tensor if flow.log.calls[part].outputs else None
        for user in flow.users(made, part) if made is not None else ():
            call = flow.log.calls[user]
            values = call.outputs[0].values if plain_name(call.function) == "sub" and call.outputs else None
            is_own = len(call.inputs) == _BOTH and all(_boxes(flow, use.tensor, user) == wanted for use in call.inputs)
            if is_own and values is not None and values.minimum is not None and values.minimum < 0:
                return user
    return None


def _boxes_of_side(
    flow: Dataflow, ends: tuple[int, int], uses: list[tuple[TensorUse, ...]], *, live: bool
) -> int | None:
    """The boxes of which both ends of one side are parts: of the prediction, or of the data."""
    found = {
        _boxes(flow, use.tensor, end)
        for end, given in zip(ends, uses, strict=True)
        for use in given
        if use.requires_grad is live
    }
    return next(iter(found)) if len(found) == 1 else None


def _boxes(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The boxes of four columns of which a tensor is a part."""
    for _ in range(_MAX_CALLS):
        if shape_of(flow, tensor)[-1:] == (_COLUMNS,):
            return tensor
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or plain_name(call.function) not in _PASSED:
            return None
        tensor, row = call.inputs[0].tensor, made
    return None


def _root(flow: Dataflow, tensor: int, row: int) -> int:
    return tensor_before(flow, tensor, row, SHAPE_ONLY - PARTS_OF_BOXES)


def _converted_from(flow: Dataflow, boxes: int, row: int) -> int | None:
    """The boxes from whose columns others were made: parts are sums or differences, and are joined again."""
    made = flow.newest_producer(_root(flow, boxes, row), row)
    join = None if made is None else flow.log.calls[made]
    if made is None or join is None or plain_name(join.function) not in _JOINS or len(join.inputs) < _BOTH:
        return None
    found = {_source(flow, use.tensor, made) for use in join.inputs}
    source = next(iter(found))
    return source if len(found) == 1 else None


def _source(flow: Dataflow, part: int, row: int) -> int | None:
    """The boxes of which one column was added to another, or subtracted from it."""
    has_sum = False
    for _ in range(_MAX_CALLS):
        made = flow.newest_producer(part, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or not call.inputs:
            return None
        name = plain_name(call.function)
        has_sum = has_sum or (name in _SUMS and len(call.inputs) == _BOTH)
        if name not in _PASSED | _SUMS | _ARITHMETIC:
            return None
        part, row = call.inputs[0].tensor, made
        if shape_of(flow, part)[-1:] == (_COLUMNS,):
            return _root(flow, part, row) if has_sum else None
    return None


def _compared(flow: Dataflow, pair: tuple[int, int], since: int, until: int) -> int | None:
    """A call between two others that compares two tensors element by element."""
    for each, call in calls_named(flow, _COMPARES):
        if since < each < until and len(call.inputs) == _BOTH and call.live_inputs:
            roots = {_root(flow, use.tensor, each) for use in call.inputs}
            if roots == set(pair):
                return each
    return None
