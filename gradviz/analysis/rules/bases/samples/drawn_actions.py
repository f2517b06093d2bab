"""Actions that a policy computes and adds scaled random numbers to, in a loss that takes them for samples of a normal
distribution: it squares their distance from the mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.formulas.products import is_square
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.analysis.rules.bases.losses.signed_terms import signed_terms
from gradviz.graph.call_log import Call, TensorUse

_BOTH = 2
_MAX_MAKERS = 12
_SCALES = frozenset({"mul", "div"})
_CARRIES = SHAPE_ONLY | {"stack", "cat", "concat", "detach", "index_select", "data", "where"}


class DrawnAction(Struct, frozen=True):
    """A sum of a mean and random numbers, and the square in a loss that takes it."""

    draw: int
    """The call that drew the numbers."""
    square: int


def drawn_actions(case: Case, is_draw: Callable[[Call], bool]) -> Iterator[DrawnAction]:
    """Those of the last losses, whose mean the same parameters compute as the one in the loss.

    Args:
        is_draw: whether a call draws the kind of numbers that is looked for.
    """
    flow = case.dataflow
    for backward in case.histories.last_trained_backward_of_each_line:
        for use in flow.log.calls[backward].roots:
            for term in signed_terms(flow, backward, use.tensor):
                found = _difference_in(flow, term.row) if is_square(flow.log.calls[term.row]) else None
                if found is None:
                    continue
                row, action, mean = found
                leaves, _ = case.histories.live_leaves((mean.tensor,), row)
                draw = _draw_in(flow, action, row, is_draw, leaves)
                if draw is not None:
                    yield DrawnAction(draw, term.row)


def _difference_in(flow: Dataflow, row: int) -> tuple[int, TensorUse, TensorUse] | None:
    """The difference that a call squares, perhaps scaled, with what has no gradient and what has one."""
    for _ in range(_MAX_MAKERS):
        given = flow.log.calls[row].inputs
        made = flow.newest_producer(given[0].tensor, row) if given else None
        if made is None:
            return None
        call, row = flow.log.calls[made], made
        name = plain_name(call.function)
        if name == "sub" and len(call.inputs) == _BOTH:
            live, dead = sorted(call.inputs, key=lambda use: not use.requires_grad)
            return (row, dead, live) if live.requires_grad and not dead.requires_grad else None
        if name not in _SCALES | SHAPE_ONLY:
            return None
    return None


def _draw_in(
    flow: Dataflow, action: TensorUse, before: int, is_draw: Callable[[Call], bool], leaves: frozenset[int]
) -> int | None:
    """The draw behind an action ``mean + scale * draw``, whose mean was computed from some of the leaves."""
    tensor = action.tensor
    for _ in range(_MAX_MAKERS):
        row = flow.newest_producer(tensor, before)
        if row is None:
            return None
        call, before = flow.log.calls[row], row
        name = plain_name(call.function)
        if name in ("add", "addcmul") and len(call.inputs) > 1:
            return _draw_of_sum(flow, row, call, is_draw, leaves)
        if name not in _CARRIES or not call.inputs:
            return None
        tensor = call.inputs[0].tensor
    return None


def _draw_of_sum(
    flow: Dataflow, row: int, call: Call, is_draw: Callable[[Call], bool], leaves: frozenset[int]
) -> int | None:
    if plain_name(call.function) == "addcmul":
        sides = [(call.inputs[0], _first_draw(flow, call.inputs[1:], row, is_draw))]
    else:
        sides = [
            (mean, _draw_behind(flow, noise, row, is_draw)) for mean, noise in (call.inputs[:_BOTH], call.inputs[1::-1])
        ]
    return next((draw for mean, draw in sides if draw is not None and _is_of(flow, mean, row, leaves)), None)


def _draw_behind(flow: Dataflow, use: TensorUse, before: int, is_draw: Callable[[Call], bool]) -> int | None:
    """The draw that a summand is, or that it is a multiple of."""
    row = flow.newest_producer(use.tensor, before)
    call = None if row is None else flow.log.calls[row]
    if row is None or call is None:
        return None
    is_product = plain_name(call.function) == "mul"
    return _first_draw(flow, call.inputs, row, is_draw) if is_product else row if is_draw(call) else None


def _first_draw(
    flow: Dataflow, uses: tuple[TensorUse, ...], before: int, is_draw: Callable[[Call], bool]
) -> int | None:
    rows = (flow.newest_producer(use.tensor, before) for use in uses)
    return next((row for row in rows if row is not None and is_draw(flow.log.calls[row])), None)


def _is_of(flow: Dataflow, mean: TensorUse, row: int, leaves: frozenset[int]) -> bool:
    """Whether a mean was computed from some leaves, with a gradient or without."""
    above = flow.ancestors(mean.tensor, row, flow.step_before(row))
    return any(use.tensor in leaves for each in above for use in flow.log.calls[each].inputs)
