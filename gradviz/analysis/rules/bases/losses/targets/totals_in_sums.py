"""Losses that are added up together with a total that already contains them."""

from __future__ import annotations

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.linear_terms import linear_rows
from gradviz.graph.call_log import Call, TensorUse


class Total(Struct, frozen=True):
    """A sum of several terms that is added to the same terms again."""

    made: int
    """The call that made the sum."""
    added: int
    """The call that adds it to them."""
    parts: int
    """How many terms count twice."""


_MIN_PARTS = 2
_MAX_ADDITIONS = 100
_PUTS_TOGETHER = frozenset({"stack", "cat", "hstack", "concat"})
_KEEPS_NUMBER = frozenset({"reshape", "view", "squeeze", "unsqueeze", "flatten", "clone", "to", "float"})


def part_of_another_root(flow: Dataflow, backward: int) -> int | None:
    """A loss from which a backward starts, and that another one, from which it starts too, contains as a term."""
    roots = {use.tensor for use in flow.log.calls[backward].roots}
    for root in roots if len(roots) > 1 else ():
        for row in linear_rows(flow, backward, root):
            for use in flow.log.calls[row].live_inputs:
                if use.tensor in roots and use.tensor != root:
                    return use.tensor
    return None


def total_beside_its_parts(flow: Dataflow, backward: int) -> Total | None:
    """The sum of at least two terms that a loss adds, without a factor, to each of these terms."""
    for root in flow.log.calls[backward].roots:
        if not _has_one_twice(flow, backward, root.tensor):
            continue
        for tensor, added in _added(flow, backward, root.tensor).items():
            made = flow.newest_producer(tensor, added)
            if made is None or not _adds(flow, flow.log.calls[made]):
                continue
            ends = [each for each in _added(flow, added, tensor) if not _is_sum(flow, each, added)]
            beside = _added(flow, backward, root.tensor, without=tensor)
            if len(ends) >= _MIN_PARTS and all(_is_beside(flow, each, made, beside) for each in ends):
                return Total(made, added, len(ends))
    return None


def _added(flow: Dataflow, before: int, root: int, without: int | None = None) -> dict[int, int]:
    """The terms and running sums that a sum adds up without factors, each with the call that adds it.

    Args:
        without: a tensor whose own terms are left out.
    """
    waiting, found = [(root, before)], dict[int, int]()
    while waiting and len(found) < _MAX_ADDITIONS:
        tensor, before = waiting.pop()
        row = flow.newest_producer(tensor, before)
        call = None if row is None else flow.log.calls[row]
        if row is None or call is None or not _adds(flow, call):
            continue
        for use in call.live_inputs:
            if use.tensor not in found and use.tensor != without:
                found[use.tensor] = row
                waiting.append((use.tensor, row))
    return found


def _has_one_twice(flow: Dataflow, backward: int, root: int) -> bool:
    """Whether a sum adds something in two places, with a weight or without."""
    seen = set[int]()
    added = {root: backward, **_added(flow, backward, root)}
    makers = {flow.newest_producer(tensor, before) for tensor, before in added.items()}
    for row in makers:
        if row is None or not _adds(flow, flow.log.calls[row]):
            continue
        for use in flow.log.calls[row].live_inputs:
            weighed = _weighed(flow, use.tensor, row)
            if not seen.isdisjoint((use.tensor, weighed)):
                return True
            seen.update((use.tensor, weighed))
    return False


def _weighed(flow: Dataflow, tensor: int, before: int) -> int:
    """What a term is, without the weight that it is multiplied by."""
    row = flow.newest_producer(tensor, before)
    call = None if row is None else flow.log.calls[row]
    is_weighted = call is not None and plain_name(call.function) in ("mul", "div") and len(call.live_inputs) == 1
    return call.live_inputs[0].tensor if call is not None and is_weighted else tensor


def _is_sum(flow: Dataflow, tensor: int, before: int) -> bool:
    row = flow.newest_producer(tensor, before)
    return row is not None and _adds(flow, flow.log.calls[row])


def _is_beside(flow: Dataflow, tensor: int, before: int, beside: dict[int, int]) -> bool:
    """Whether a term is added up as well, as it is or without the weight that the total gives it."""
    return tensor in beside or _weighed(flow, tensor, before) in beside


def _adds(flow: Dataflow, call: Call) -> bool:
    """Whether a call adds single numbers up, or puts them together or apart for that."""
    name = plain_name(call.function)
    if call.kind != "operation" or not call.live_inputs or call.scalars.get("alpha", 1) != 1:
        return False
    if name == "add" or name in _PUTS_TOGETHER:
        return all(_is_number(flow, use) for use in call.inputs) and len(call.live_inputs) == len(call.inputs)
    is_of_numbers = len(shape_of(flow, call.inputs[0].tensor)) <= 1
    return name in _KEEPS_NUMBER or (name == "sum" and is_of_numbers)


def _is_number(flow: Dataflow, use: TensorUse) -> bool:
    return shape_of(flow, use.tensor) in ((), (1,))
