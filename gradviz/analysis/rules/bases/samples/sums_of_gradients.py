"""Gradients of ``torch.autograd.grad()`` that a program adds up by hand and gives an optimizer, without a division."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from statistics import median_low

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.backward_calls import starts_from_ones
from gradviz.analysis.dataflow.call_words import single_name
from gradviz.analysis.dataflow.clipping import is_clipping
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.gradients.accumulation import Accumulating, are_pieces, is_mean, steps_sometimes

_ADDS = frozenset({"add", "stack", "sum", "clone", "detach", "to", "copy"})
_EMPTY = frozenset({"zeros", "zeros_like", "zero", "empty_like", "new_zeros"})
_ASSIGNS = "torch.Tensor.grad.__set__"
_MAX_CALLS = 500


def undivided_sums(case: Case) -> Iterator[Accumulating]:
    """For each line that calls ``grad()`` for several batches of one step."""
    flow, calls = case.dataflow, case.dataflow.log.calls
    lines: dict[int | None, list[int]] = defaultdict(list)
    for row in flow.rows_of_kind("backward"):
        if calls[row].function == "torch.autograd.grad" and calls[row].inside is None:
            lines[calls[row].call_site].append(row)
    for rows in lines.values():
        by_step = _by_step(case, rows)
        step = next(iter(by_step), None)
        times = median_low([len(each) for each in by_step.values()]) if by_step else 0
        if step is None or len(by_step) < _MIN_STEPS or times < _MIN_BATCHES:
            continue
        of_first = by_step[step]
        last = of_first[-1]
        is_split = are_pieces(flow, of_first) or steps_sometimes(case, last, step)
        is_plain = is_split and is_mean(case, last) and all(starts_from_ones(flow, row) for row in of_first)
        if is_plain and _is_only_added(flow, of_first, step):
            yield Accumulating(last, step, times, of_first[0])


_MIN_STEPS = 2
_MIN_BATCHES = 2


def _by_step(case: Case, rows: list[int]) -> dict[int, list[int]]:
    """By the next step: these calls before it."""
    steps, found = case.histories.steps, defaultdict[int, list[int]](list)
    for row in rows:
        index = bisect_left(steps, row)
        if index < len(steps):
            found[steps[index]].append(row)
    return found


def _is_only_added(flow: Dataflow, rows: list[int], step: int) -> bool:
    """Whether what becomes a gradient is the plain sum of what these calls returned."""
    calls = flow.log.calls
    assigned = next((row for row in range(rows[-1], step) if calls[row].function == _ASSIGNS), None)
    if assigned is None or len(calls[assigned].inputs) < _BOTH:
        return False
    total = calls[assigned].inputs[1].tensor
    if any(not is_clipping(flow, row) for row in flow.changes(total, assigned, step)):
        return False
    return _added(flow, total, assigned, flow.step_before(rows[0])) == set(rows)


_BOTH = 2


def _added(flow: Dataflow, tensor: int, before: int, since: int) -> set[int]:
    """The backward calls whose results a tensor is the sum of; empty if it is more than a sum."""
    waiting, seen, found = [(tensor, before)], set[tuple[int, int]](), set[int]()
    while waiting and len(seen) < _MAX_CALLS:
        given, until = waiting.pop()
        for row in flow.producers(given, until):
            if row <= since or (row, given) in seen:
                continue
            seen.add((row, given))
            call = flow.log.calls[row]
            if call.kind == "backward":
                found.add(row)
            elif call.function != "torch.autograd.grad":
                above = _summands(flow, row, given)
                if above is None:
                    return set()
                waiting += [(each, row) for each in above]
    return found if len(seen) < _MAX_CALLS else set()


def _summands(flow: Dataflow, row: int, result: int) -> list[int] | None:
    """What a call adds up to a result; None if it does something else."""
    call = flow.log.calls[row]
    name = single_name(call)
    if name in _EMPTY:
        return []
    number = call.scalars.get("1", call.scalars.get("other", 0))
    is_plain = name != "add" or ("alpha" not in call.scalars and number == 0)
    if name not in _ADDS or not is_plain:
        return None
    each = flow.lists.single(row, result)
    uses = each.inputs[1:] if name == "copy" else each.inputs
    return [use.tensor for use in uses if use.tensor != result]
