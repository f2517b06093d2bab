"""GV936."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from typing import TypeGuard

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.analysis.rules.bases.losses.signed_terms import is_number_first
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.graph.call_log import Call


class CornersNotExchanged(Rule):
    """A flip mirrors the corners of boxes and leaves them in their order: each box ends before it begins.

    What it finds
    -------------
    Boxes ``(x1, y1, x2, y2)`` whose columns 0 and 2, or 1 and 3, both become ``size - column`` and stay where they
    are. It is a warning where the program made the boxes by adding sizes to corners, else a note.

    Why it matters
    --------------
    The left edge of the mirrored box is the right edge of the old one: ``x1 = size - x2``. If both stay in their
    columns, the width is negative. Nothing raises: overlaps with these boxes are 0, and a regression learns, from half
    of the images, that the edges are the other way round.

    Example
    -------
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        x, corner, size = torch.rand(16, 8), torch.rand(16, 2) * 20, torch.rand(16, 2) * 10 + 1
        boxes = torch.cat([corner, corner + size], dim=1)
        boxes[:, [0, 2]] = 32 - boxes[:, [0, 2]]
        loss = torch.nn.functional.l1_loss(model(x.flip(1)), boxes / 32)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        x, corner, size = torch.rand(16, 8), torch.rand(16, 2) * 20, torch.rand(16, 2) * 10 + 1
        boxes = torch.cat([corner, corner + size], dim=1)
        boxes[:, [0, 2]] = 32 - boxes[:, [2, 0]]
        loss = torch.nn.functional.l1_loss(model(x.flip(1)), boxes / 32)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV936"
    name = "corners_not_exchanged"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for mirror in (*_written(case), *_stacked(flow)):
            site = flow.log.calls[mirror.row].call_site
            if site in told or not flow.has_step_after(mirror.row) or _is_put_right(flow, mirror):
                continue
            told.add(site)
            yield self._finding(flow, mirror)

    def _finding(self, flow: Dataflow, mirror: _Mirror) -> Finding:
        one, other = mirror.first, mirror.first + _APART
        return self.finding(
            f"columns {one} and {other} of boxes are mirrored and stay where they are: what was the first edge lies "
            "behind the second one",
            severity="warning" if _has_corners(flow, mirror.boxes, mirror.row) else "note",
            symptom="grad_wrong",
            why="the left edge of a mirrored box is the right edge of the old one: the two change places",
            fix=f"exchange them: boxes[:, [{one}, {other}]] = size - boxes[:, [{other}, {one}]]",
            location=location_of_call(flow, mirror.row),
        )


class _Mirror(Struct, frozen=True):
    """A call behind which two edges of boxes are mirrored in their places."""

    row: int
    boxes: int
    """The boxes as they were before."""
    result: int
    first: int
    """The column of the first edge."""


_COLUMNS = 4
_BOTH = 2
_APART = 2
_ORDERS = frozenset({"min", "minimum", "max", "maximum", "sort", "aminmax", "amin", "amax"})
_KEEPS = frozenset({
    "getitem", "clone", "to", "float", "double", "div", "mul", "index_select", "contiguous", "detach", "floor", "round",
    "clamp", "stack", "cat", "setitem",
})  # fmt: skip
_MAX_CALLS = 12


# -- mirrored in place -------------------------------------------------------------------------------------------------


def _written(case: Case) -> Iterator[_Mirror]:
    """``boxes[:, [0, 2]] = size - boxes[:, [0, 2]]``, or each of the two columns on its own."""
    flow, alone = case.dataflow, defaultdict[int, dict[int, int]](dict)
    lines = {(file, node.lineno): node for file, tree in own_files(case) for node in tree.nodes if _writes(node)}
    for row, call in calls_named(flow, ("setitem",)):
        read = _mirrored(flow, call.inputs[-1].tensor, row) if len(call.inputs) == _BOTH else None
        if read is None or not _has_four_columns(flow, call.inputs[0].tensor) or read[0] != call.inputs[0].tensor:
            continue
        boxes, column = read
        if column is not None and _column(call) == column:
            alone[boxes][column] = row
            first = column % _APART
            if {first, first + _APART} <= alone[boxes].keys():
                yield _Mirror(row, boxes, boxes, first)
            continue
        line = flow.line_of(row)
        node = None if line is None else lines.get((line.file, line.line))
        pair = None if node is None else _first_of_pair(node)
        if pair is not None and shape_of(flow, call.inputs[1].tensor)[-1:] == (_BOTH,):
            yield _Mirror(row, boxes, boxes, pair)


def _writes(node: ast.AST) -> TypeGuard[ast.Assign]:
    return isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript)


def _first_of_pair(node: ast.Assign) -> int | None:
    """The first of two columns that an assignment reads and writes in the same order, if they are two apart."""
    target = node.targets[0]
    if not isinstance(target, ast.Subscript):
        return None
    written = ast.dump(target.slice)
    reads = [each for each in ast.walk(node) if isinstance(each, ast.Subscript) and each is not target]
    if not any(ast.dump(each.slice) == written for each in reads):
        return None
    last = target.slice.elts[-1] if isinstance(target.slice, ast.Tuple) and target.slice.elts else target.slice
    text = ast.unparse(last).replace(" ", "")
    return next((first for first, spellings in _PAIRS.items() if text in spellings), None)


_PAIRS = {
    0: frozenset({"[0,2]", "(0,2)", "0::2", "::2", "0:4:2", ":4:2", "0:3:2"}),
    1: frozenset({"[1,3]", "(1,3)", "1::2", "1:4:2"}),
}
"""By the first column, how programs write two columns of boxes that are edges of one direction."""


def _mirrored(flow: Dataflow, tensor: int, row: int) -> tuple[int, int | None] | None:
    """The boxes of which columns were subtracted from a number; and the column, if it is known."""
    made = flow.newest_producer(tensor, row)
    call = None if made is None else flow.log.calls[made]
    if made is None or call is None or plain_name(call.function) != "sub":
        return None
    if not (is_number_first(call) if len(call.inputs) == 1 else shape_of(flow, call.inputs[0].tensor) == ()):
        return None
    read = flow.newest_producer(call.inputs[-1].tensor, made)
    taken = None if read is None else flow.log.calls[read]
    if taken is None or plain_name(taken.function) not in ("getitem", "select", "unbind"):
        return None
    if len(taken.inputs) != 1 or not _has_four_columns(flow, taken.inputs[0].tensor):
        return None
    index = next((at for at, use in enumerate(taken.outputs) if use.tensor == call.inputs[-1].tensor), None)
    return taken.inputs[0].tensor, index if plain_name(taken.function) == "unbind" else _column(taken)


def _column(call: Call) -> int | None:
    """The column that a call takes or writes: ``boxes[:, 2]``, ``boxes[..., 2]``."""
    told = [value for place, value in call.scalars.items() if place.startswith("1[") and "." not in place]
    value = told[-1] if len(told) == 1 and len(call.scalars) == 1 else None
    return value % _COLUMNS if type(value) is int and -_COLUMNS <= value < _COLUMNS else None


def _has_four_columns(flow: Dataflow, tensor: int) -> bool:
    return shape_of(flow, tensor)[-1:] == (_COLUMNS,) and not flow.log.tensors[tensor].requires_grad


# -- mirrored into new boxes -------------------------------------------------------------------------------------------


def _stacked(flow: Dataflow) -> Iterator[_Mirror]:
    """``torch.stack([size - x1, y1, size - x2, y2], dim=1)``."""
    for row, call in calls_named(flow, ("stack", "cat")):
        if len(call.inputs) != _COLUMNS or not _has_four_columns(flow, call.outputs[0].tensor):
            continue
        read = [_mirrored(flow, use.tensor, row) for use in call.inputs]
        for first in range(_BOTH):
            one, other = read[first], read[first + _APART]
            is_in_place = one is not None and other is not None and one[1] == first and other[1] == first + _APART
            if is_in_place and one is not None and other is not None and one[0] == other[0]:
                yield _Mirror(row, one[0], call.outputs[0].tensor, first)


# -- what says that they are boxes, and in order -----------------------------------------------------------------------


def _is_put_right(flow: Dataflow, mirror: _Mirror) -> bool:
    """Whether edges are compared or written once more behind the mirror: the program may put them in order."""
    until = flow.next_of_kind("backward", mirror.row)
    for row in flow.descendants(mirror.result, mirror.row, until):
        call = flow.log.calls[row]
        if call.live_inputs:
            continue
        is_written = plain_name(call.function) == "setitem" and _mirrored(flow, call.inputs[-1].tensor, row) is None
        if is_written or plain_name(call.function) in _ORDERS or _puts_columns_elsewhere(flow, row, call):
            return True
    return False


def _puts_columns_elsewhere(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether boxes get their columns in another order: ``boxes[:, [2, 1, 0, 3]]``, or joined from their columns."""
    name, given = plain_name(call.function), call.inputs[0].tensor
    if name in ("stack", "cat"):
        read = [_first_column_read(flow, use.tensor, row) for use in call.inputs]
        places = range(0, _COLUMNS, _COLUMNS // len(read)) if len(read) in (_BOTH, _COLUMNS) else ()
        return None not in read and set(read) == set(places) and read != list(places)
    if (
        not call.outputs
        or not _has_four_columns(flow, given)
        or shape_of(flow, call.outputs[0].tensor)[-1:] != (_COLUMNS,)
    ):
        return False
    rank = len(shape_of(flow, given))
    if name in ("index_select", "roll"):
        return axis_of(call, rank, "2" if name == "roll" else "1") == rank - 1
    is_whole = shape_of(flow, given) == shape_of(flow, call.outputs[0].tensor)
    if name != "getitem" or not is_whole:
        return False
    is_by_list = len(call.inputs) == 1 and flow.memory_of(given) != flow.memory_of(call.outputs[0].tensor)
    return is_by_list or any(use.place == f"1[{rank - 1}]" for use in call.inputs[1:])


def _first_column_read(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The first column that a call took of boxes, if one made the tensor."""
    made = flow.newest_producer(tensor, row)
    call = None if made is None else flow.log.calls[made]
    if call is None or len(call.inputs) != 1 or not _has_four_columns(flow, call.inputs[0].tensor):
        return None
    if plain_name(call.function) == "unbind":
        return next((at for at, use in enumerate(call.outputs) if use.tensor == tensor), None)
    if plain_name(call.function) not in ("getitem", "select"):
        return None
    starts = [value for place, value in call.scalars.items() if place.endswith(".start") and type(value) is int]
    is_half = shape_of(flow, tensor)[-1:] == (_BOTH,)
    return (starts[-1] if starts else 0) % _COLUMNS if is_half else _column(call)


def _has_corners(flow: Dataflow, boxes: int, row: int) -> bool:
    """Whether boxes were made of corners, and of these with positive sizes added."""
    for made, call in flow.makers_above(boxes, row, _MAX_CALLS, lambda call: call.inputs[:1] if _keeps(call) else ()):
        if plain_name(call.function) in ("stack", "cat") and len(call.inputs) in (_BOTH, _COLUMNS):
            half = len(call.inputs) // _BOTH
            pairs = [(call.inputs[at].tensor, call.inputs[at + half].tensor) for at in range(half)]
            if all(_is_further(flow, one, other, made) for one, other in pairs):
                return True
    return False


def _keeps(call: Call) -> bool:
    return plain_name(call.function) in _KEEPS


def _is_further(flow: Dataflow, first: int, second: int, row: int) -> bool:
    """Whether one tensor is another one plus something positive, which may be a half on both sides."""
    made = value_maker(flow, second, row)
    if made is None or plain_name(made[1].function) != "add":
        return False
    centre = {_part(flow, first, row)}
    other = flow.newest_producer(first, row)
    if other is not None and plain_name(flow.log.calls[other].function) == "sub":
        centre |= {_part(flow, use.tensor, other) for use in flow.log.calls[other].inputs[:1]}
    added = [use for use in made[1].inputs if _part(flow, use.tensor, made[0]) not in centre]
    if len(added) == len(made[1].inputs):
        return False
    values = [flow.values_of(use, made[0]) for use in added]
    return all(each is not None and each.minimum is not None and each.minimum > 0 for each in values)


def _part(flow: Dataflow, tensor: int, row: int) -> tuple[int, object]:
    """A tensor, or of which one it is which column."""
    made = flow.newest_producer(tensor, row)
    call = None if made is None else flow.log.calls[made]
    if call is None or plain_name(call.function) not in ("getitem", "select", "unbind"):
        return tensor, None
    index = next(at for at, use in enumerate(call.outputs) if use.tensor == tensor)
    return call.inputs[0].tensor, (index, *sorted(call.scalars.items()))
