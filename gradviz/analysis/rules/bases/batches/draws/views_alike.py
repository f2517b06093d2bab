"""Two views of a batch that are one and the same, since the same random numbers are drawn for both."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.rules.bases.batches.fresh_operands import DRAWS
from gradviz.analysis.rules.bases.batches.seeded_again import MIN_NUMBERS
from gradviz.graph.call_log import TensorUse, ValueFacts

_MIN_STEPS = 3
_MOST_STEPS = 6
_MOST_DRAWS = 40
_JOINS = frozenset({"cat", "concat", "concatenate", "stack", "vstack"})
_BOTH = 2


def draws_of_equal_views(case: Case) -> list[tuple[int, int]]:
    """Two draws of the last step with the same numbers, of which a network makes results that the loss compares, though
    they are the same ones; none unless this is so in each step. Many a draw of one view may be among them."""
    flow = case.dataflow
    by_step: dict[int, list[int]] = defaultdict(list)
    for row, call in enumerate(flow.log.calls):
        if call.inside is None and plain_name(call.function) in DRAWS and call.outputs and not call.raised:
            by_step[flow.step_before(row)].append(row)
    steps = [rows for rows in by_step.values() if case.histories.backward_through(rows[0]) is not None]
    if len(steps) < _MIN_STEPS:
        return []
    found = list[list[tuple[int, int]]]()
    for rows in steps[-_MOST_STEPS:]:
        twins = [each for each in _twins(case, rows[:_MOST_DRAWS]) if _are_compared(case, *each)]
        if not twins:
            return []
        found.append(twins)
    return found[-1]


def _twins(case: Case, rows: list[int]) -> list[tuple[int, int]]:
    """Draws with the same numbers."""
    by_values: dict[tuple[str, ValueFacts], list[int]] = defaultdict(list)
    for row in rows:
        call = case.dataflow.log.calls[row]
        known = call.outputs[0].values
        if known is not None and known.count >= MIN_NUMBERS and not known.zeros and known.minimum != known.maximum:
            by_values[plain_name(call.function), known].append(row)
    return [pair for alike in by_values.values() for pair in pairwise(alike)]


def _are_compared(case: Case, one: int, other: int) -> bool:
    """Whether a network gets the same numbers twice, by way of these draws, and what it makes of both meets."""
    flow, histories = case.dataflow, case.histories
    backward = histories.backward_through(one)
    if backward is None or not other < backward or histories.backward_through(other) != backward:
        return False
    first, second = (_below(case, row, backward) for row in (one, other))
    of_both = {*first} & {*second}
    joined = min(of_both, default=None)
    if joined is not None and plain_name(flow.log.calls[joined].function) in _JOINS:
        inputs = _inputs_below(case, joined, first, one), _inputs_below(case, joined, second, other)
        alike = [a for a in inputs[0] for b in inputs[1] if a.tensor != b.tensor and _same_values(case, a, b, joined)]
        below = (flow.log.calls[row].function for row in first if row > joined)
        return bool(alike) and not flow.log.calls[joined].live_inputs and not any("dropout" in each for each in below)
    taken, again = (_first_of_network(case, rows) for rows in (first, second))
    if taken is None or again is None or taken[1] != again[1] or taken[0] == again[0]:
        return False
    parts = [[row for row in rows if row >= start] for rows, start in ((first, taken[0]), (second, again[0]))]
    shared = set(parts[0]) & set(parts[1])
    apart = [[row for row in rows if row not in shared] for rows in parts]
    return bool(shared) and _meet_as_rows(case, min(shared)) and _return_the_same(case, *apart)


def _below(case: Case, draw: int, backward: int) -> tuple[int, ...]:
    return case.dataflow.descendants(case.dataflow.log.calls[draw].outputs[0].tensor, draw, backward)


def _inputs_below(case: Case, row: int, rows: tuple[int, ...], draw: int) -> list[TensorUse]:
    """The inputs of a call that come of a draw."""
    calls = case.dataflow.log.calls
    made = {use.tensor for each in (draw, *rows) if each < row for use in calls[each].outputs}
    return [use for use in calls[row].inputs if use.tensor in made]


def _same_values(case: Case, one: TensorUse, other: TensorUse, row: int) -> bool:
    known = case.dataflow.values_of(one, row)
    return known is not None and known == case.dataflow.values_of(other, row)


def _first_of_network(case: Case, rows: tuple[int, ...]) -> tuple[int, int] | None:
    """The first of these calls that takes a trained parameter, and that parameter."""
    for row in rows:
        for use in case.dataflow.log.calls[row].inputs:
            if use.tensor in case.histories.trained:
                return row, use.tensor
    return None


def _meet_as_rows(case: Case, row: int) -> bool:
    """Whether a call takes several numbers of each: two losses that are added are one number each."""
    inputs = case.dataflow.log.calls[row].inputs
    return bool(inputs) and all(prod(shape_of(case.dataflow, use.tensor)) >= _BOTH for use in inputs)


def _return_the_same(case: Case, rows: list[int], others: list[int]) -> bool:
    """Whether a network does the same with both, up to where they go other ways: no dropout, no other condition."""
    calls = case.dataflow.log.calls
    is_known = False
    for row, other in zip(rows, others, strict=False):
        one, two = (calls[each].outputs[0].values if calls[each].outputs else None for each in (row, other))
        if calls[row].function != calls[other].function:
            break
        if one != two:
            return False
        is_known |= one is not None
    return is_known
