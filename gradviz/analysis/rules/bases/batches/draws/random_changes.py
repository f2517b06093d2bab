"""What draws change: values to which noise is added, that a random mask hides, or that are turned or cut at random."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from math import prod

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.evaluations.random_transforms import TRANSFORMS
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.graph.call_log import Call
from gradviz.graph.model import Scalar

NORMAL = frozenset({"randn", "randn_like", "normal"})
MASK = frozenset({"rand", "rand_like", "bernoulli", "uniform"})
_COMPARE = frozenset({"lt", "le", "gt", "ge"})
ADD = frozenset({"add", "sub", "rsub"})
_HIDE = frozenset({"mul", "where", "masked_fill", "setitem"})
KEEPS = frozenset({"to", "float", "type_as", "type", "half", "double", "cuda", "cpu", "clone", "bool", "int", "long"})
_SCALE = frozenset({"mul", "div", "neg"})
_NOT = frozenset({"logical_not", "invert", "bitwise_not", "rsub"})
_FULL = frozenset({"full", "full_like", "ones", "ones_like", "new_full", "new_ones"})
_MAX_STEPS = 6


class Change(Struct, frozen=True):
    """What a draw changes."""

    row: int
    merged: int = -1
    """The call that changes other values by it; -1 if none does, or if the draw has another use as well."""
    clean: int = -1
    """The tensor that is changed."""
    result: int = -1
    scalars: tuple[Scalar, ...] = ()
    """The numbers with which the draw is scaled or compared."""


def changes_by_draw(case: Case) -> Iterator[list[Change]]:
    """What each line that draws changes, all that one function draws there together."""
    flow = case.dataflow
    by_line = defaultdict[tuple[Location | None, str], list[Change]](list)
    for row, call in calls_named(flow, NORMAL | MASK):
        if not any(use.requires_grad for use in call.outputs):
            by_line[location_of_call(flow, row), call.function].append(Change(row, *_merged(flow, row)))
    for row in _of_numpy(case):
        by_line[location_of_call(flow, row), "numpy"].append(Change(row, *_merged(flow, row, is_noise=True)))
    yield from by_line.values()


def transforms_on(flow: Dataflow, ran: LinesThatRan, line: Location) -> list[Change]:
    """The calls of a line that turn, shift or cut out what was taken of the data a moment before."""
    found = list[Change]()
    for row in ran.rows_in(line.line, line.line):
        call = flow.log.calls[row]
        if plain_name(call.function) not in TRANSFORMS or location_of_call(flow, row) != line or not call.inputs:
            continue
        given = call.inputs[0]
        made = flow.newest_producer(given.tensor, row)
        is_new = made is not None and made > (flow.backward_before(row) or -1)
        if is_new and len(call.outputs) == 1 and not given.requires_grad and len(shape_of(flow, given.tensor)) > 1:
            found.append(Change(row, row, given.tensor, call.outputs[0].tensor))
    return found


def _of_numpy(case: Case) -> Iterator[int]:
    """Calls that take noise of NumPy into torch, on the line that draws it, and convert or scale it."""
    flow = case.dataflow
    for row, call in calls_named(flow, KEEPS | _SCALE | {"tensor", "as_tensor"}):
        line = location_of_call(flow, row)
        if line is None or not call.outputs or any(flow.is_made(use.tensor, row) for use in call.inputs):
            continue
        if _NUMPY_NOISE.search(case.capture.sources.get(line.file, {}).get(line.line, "")):
            yield row


_NUMPY_NOISE = re.compile(r"\b(random|rng|generator)\.(normal|randn|standard_normal)\(")


def _merged(
    flow: Dataflow, row: int, *, is_noise: bool = False
) -> tuple[int, int, int, tuple[Scalar, ...]] | tuple[()]:
    """The call in which noise or a mask meets other values, and what it meets."""
    call = flow.log.calls[row]
    name, tensor, scalars = plain_name(call.function), call.outputs[0].tensor, list[Scalar]()
    is_mask, is_noise = name == "bernoulli" and _is_of_one_share(flow, call, row), is_noise or name in NORMAL
    at = row
    for _ in range(_MAX_STEPS):
        users = flow.users(tensor, at)
        if len(users) != 1:
            return ()
        at = users[0]
        user = flow.log.calls[at]
        name, others = plain_name(user.function), [use for use in user.inputs if use.tensor != tensor]
        wide = [use for use in others if prod(shape_of(flow, use.tensor)) > 1 or use.requires_grad]
        if len(user.outputs) != 1:
            return ()
        if not wide:
            if name in _COMPARE and not is_noise and not others:
                is_mask = True
            elif name not in KEEPS and not (name in _SCALE or (name in _NOT and is_mask)):
                return ()
            scalars += user.scalars.values()
            tensor = user.outputs[0].tensor
        elif (name in ADD and is_noise) or (name in _HIDE and is_mask):
            clean = max(wide, key=lambda use: prod(shape_of(flow, use.tensor)))
            is_whole = prod(shape_of(flow, clean.tensor)) == prod(shape_of(flow, user.outputs[0].tensor))
            return (at, clean.tensor, user.outputs[0].tensor, tuple(scalars)) if is_whole else ()
        else:
            return ()
    return ()


def _is_of_one_share(flow: Dataflow, call: Call, row: int) -> bool:
    """Whether each value of a random mask is drawn with the same probability."""
    if call.scalars:
        return True
    made = next(flow.makers(call.inputs[0].tensor, row, 1), None) if call.inputs else None
    while made is not None and plain_name(made[1].function) in (*_SCALE, *_NOT, "sub"):
        made = next(flow.makers(made[1].inputs[0].tensor, made[0], 1), None)
    return made is not None and plain_name(made[1].function) in _FULL
