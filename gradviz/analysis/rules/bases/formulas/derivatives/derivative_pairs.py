"""Pairs of calls that computed the same derivative, though another one was possible."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.backward_calls import starts_from_ones
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.formulas.derivatives.recomputed_derivatives import results_of


class SamePair(Struct, frozen=True):
    """Two calls that computed the same derivative."""

    first: int
    second: int
    by: int
    others: tuple[int, ...]
    """Inputs that it depends on as well, and that it is not differentiated by."""


_MAX_CALLS = 400
_MAX_SHAPING = 4
_SLICES = frozenset({"getitem", "select", "narrow", "chunk", "split", "unbind", "tensor_split"})


def same_derivatives(case: Case) -> Iterator[SamePair]:
    """All pairs of one step that meet in a loss."""
    flow = case.dataflow
    by_step: dict[int, dict[tuple[tuple[object, ...], int], list[int]]] = defaultdict(lambda: defaultdict(list))
    for row in flow.rows_of_kind("backward")[:_MAX_CALLS]:
        call = flow.log.calls[row]
        if call.inside is None and len(call.roots) == 1 and starts_from_ones(flow, row):
            of = _differentiated(flow, call.roots[0].tensor, row)
            for use in call.asked:
                by_step[flow.step_before(row)][of, use.tensor].append(row)
    for of_step in by_step.values():
        for (of, by), rows in of_step.items():
            single = [row for row in rows if len(flow.log.calls[row].asked) == 1]
            if len(single) < _BOTH:
                continue
            known = {each for same, each in of_step if same == of}
            others = tuple(each for each in _inputs_behind(case, rows[0], by) if each not in known)
            pairs = combinations(single, _BOTH) if others and flow.has_step_after(rows[0]) else ()
            yield from (SamePair(one, other, by, others) for one, other in pairs if meet_in_a_loss(case, one, other))


def mixed_derivatives(flow: Dataflow) -> Iterator[tuple[int, int]]:
    """The last calls of each line that differentiate a derivative by another input, if nothing differentiates it by
    the same input again; each behind the call that computed that derivative."""
    asked: dict[int, set[int]] = defaultdict(set)
    last: dict[tuple[int | None, int | None], tuple[int, int]] = {}
    rows = [row for row in flow.rows_of_kind("backward")[:_MAX_CALLS] if flow.log.calls[row].inside is None]
    for row in rows:
        for root in flow.log.calls[row].roots:
            asked[root.tensor] |= {use.tensor for use in flow.log.calls[row].asked}
    for row in rows:
        call = flow.log.calls[row]
        if len(call.roots) != 1 or len(call.asked) != 1 or not flow.has_step_after(row):
            continue
        first = flow.newest_producer(call.roots[0].tensor, row)
        maker = None if first is None else next((each for each in rows if first - 1 <= each <= first), None)
        by = () if maker is None else [use.tensor for use in flow.log.calls[maker].asked]
        if maker is not None and len(by) == 1 and by[0] not in asked[call.roots[0].tensor]:
            last[call.call_site, flow.log.calls[maker].call_site] = maker, row
    yield from last.values()


_BOTH = 2


def _differentiated(flow: Dataflow, tensor: int, row: int) -> tuple[object, ...]:
    """A tensor, and the part of it, whose sum was differentiated."""
    part: list[object] = []
    for _ in range(_MAX_SHAPING):
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        name = "" if call is None else plain_name(call.function)
        is_passed = name in ("sum", "getitem", "select") and call is not None and len(call.inputs) == 1
        if made is None or call is None or not is_passed:
            break
        part.extend([] if name == "sum" and not call.scalars else [name, *sorted(map(str, call.scalars.items()))])
        row, tensor = made, call.inputs[0].tensor
    return (tensor, *part)


def _inputs_behind(case: Case, row: int, by: int) -> list[int]:
    """Inputs of the program that a differentiated output depends on: leaves, or parts of the same leaf as `by` is."""
    flow = case.dataflow
    above = flow.ancestors(flow.log.calls[row].roots[0].tensor, row, flow.step_before(row))
    used = dict.fromkeys(use.tensor for each in above for use in flow.log.calls[each].live_inputs)
    whole = _whole_of(flow, by, row)
    parts = [
        each for each in used if whole is not None and each not in (by, whole) and _whole_of(flow, each, row) == whole
    ]
    leaves = [
        each
        for each in used
        if each not in (by, whole)
        and flow.log.tensors[each].role == "tensor"
        and flow.log.tensors[each].is_leaf
        and each not in case.histories.trained
        and shape_of(flow, each) == shape_of(flow, by)
    ]
    return parts or leaves


def _whole_of(flow: Dataflow, tensor: int, row: int) -> int | None:
    made = flow.newest_producer(tensor, row)
    call = None if made is None else flow.log.calls[made]
    is_part = call is not None and plain_name(call.function) in _SLICES and len(call.live_inputs) == 1
    return call.inputs[0].tensor if call is not None and is_part else None


def meet_in_a_loss(case: Case, first: int, second: int) -> bool:
    """Whether one backward call starts from both derivatives."""
    flow = case.dataflow
    until = next((each for each in case.histories.backward_calls if each > second and _is_of_loss(flow, each)), None)
    if until is None or not all(flow.log.calls[row].outputs for row in (first, second)):
        return False
    return all(
        any(until in flow.descendants(each, row, until + 1, live=True) for each in results_of(flow, row))
        for row in (first, second)
    )


def _is_of_loss(flow: Dataflow, row: int) -> bool:
    return not flow.log.calls[row].asked
