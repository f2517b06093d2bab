"""Operations without a slope on one of several paths: the leaves above them get gradients, but none through them.

A leaf that gets only zeros is a case of `gradviz.analysis.numbers.zero_gradients`. Here an intermediate result gets
only zeros, because all that uses it rounds it, takes its sign, bounds all of it, or multiplies it by zeros: then
nothing learns from it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod

from msgspec import Struct

from gradviz.analysis.dataflow.backward_calls import BackwardCalls
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.values.origins import ValueOrigins, is_all_zero
from gradviz.analysis.numbers.gradient_origins import find_gradient_origins, state_of
from gradviz.analysis.numbers.zero_slopes import ZeroCause, is_flat_as_called
from gradviz.graph.call_log import Call
from gradviz.graph.model import Graph, Node

_BOUNDS = frozenset({"clamp", "clip", "clamp_min", "clamp_max", "hardtanh"})
_ADDS_UP = frozenset({"sum", "mean", "add", "sub", "mul", "div", "neg", "getitem", "squeeze", "view", "reshape"})
_MIN_STEPS = 3
"""Steps in which all values must be out of bounds: it may be an accident of one batch."""


class FlatBranch(Struct, frozen=True):
    """One line that sends only zeros to a result."""

    cause: ZeroCause
    graph: int
    node: int
    call: int
    steps: int
    may_be_meant: bool = False
    """Whether it is multiplied by the number 0: a weight that is switched off."""


def flat_branches(backward_calls: BackwardCalls) -> Iterator[FlatBranch]:
    """One for each line, with the last of its graphs."""
    flow = backward_calls.flow
    values = ValueOrigins(flow)
    found: dict[tuple[int | None, bool], list[tuple[int, int, int]]] = defaultdict(list)
    bounded: dict[int | None, int] = defaultdict(int)
    for number, graph in enumerate(backward_calls.graphs):
        origins = find_gradient_origins(graph).by_node
        for node in graph.nodes:
            row = flow.call_of_node(node)
            call = None if row is None else flow.log.calls[row]
            if row is None or call is None:
                continue
            is_ratio = is_single_by_its_sum(flow, row)
            is_flat = is_ratio or (is_flat_as_called(node, call) and not _is_taken_off_itself(flow, row, call))
            name = plain_name(call.function)
            if not is_flat and name not in _BOUNDS and name != "mul":
                continue
            bounded[call.call_site] += 1
            origin = origins.get(node.id)
            is_source = origin is not None and origin.state == "zero" and origin.by == "node" and not origin.is_aside
            if name == "mul":
                is_off = _is_times_zero(flow, call) or _is_times_made_zeros(flow, values, row)
            else:
                is_off = is_source and (is_flat or _is_in_use(flow, row))
            if is_ratio or (is_off and _takes_all(graph, node)):
                found[call.call_site, is_flat].append((number, node.id, row))
    for (site, is_flat), members in found.items():
        if is_flat or (len(members) == bounded[site] and len({number for number, *_ in members}) >= _MIN_STEPS):
            is_product = plain_name(flow.log.calls[members[-1][2]].function) == "mul"
            cause: ZeroCause = "zero_gradient_op" if is_flat else "masked_out" if is_product else "saturation"
            may_be_meant = is_product and _is_times_zero(flow, flow.log.calls[members[-1][2]])
            yield FlatBranch(cause, *members[-1], len(members), may_be_meant)


def is_single_by_its_sum(flow: Dataflow, row: int) -> bool:
    """Whether a call divides single values by their own sums, as ``x / x.sum(-1, keepdim=True)`` of shape (n, 1).

    Its gradient cancels out, but for rounding.
    """
    call = flow.log.calls[row]
    if plain_name(call.function) != "div" or len(call.live_inputs) != len(call.inputs) or len(call.inputs) != _BOTH:
        return False
    value, total = (use.tensor for use in call.inputs)
    made = flow.newest_producer(total, row)
    if made is None or plain_name(flow.log.calls[made].function) != "sum":
        return False
    is_own = [use.tensor for use in flow.log.calls[made].inputs] == [value]
    return is_own and prod(shape_of(flow, value)) == prod(shape_of(flow, total))


_BOTH = 2


def _is_taken_off_itself(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether rounded values are subtracted from the same values, perhaps computed once more: the rest, such as the
    distance of a point from its cell of a grid, has the gradient. Also ``x - length * round(x / length)``, the shortest
    distance in a periodic box."""
    if plain_name(call.function) not in _ROUNDS or not call.outputs:
        return False
    taken = [(call.inputs[0].tensor, row)]
    divided = flow.newest_producer(call.inputs[0].tensor, row)
    if divided is not None and plain_name(flow.log.calls[divided].function) in _SCALES:
        taken += [(use.tensor, divided) for use in flow.log.calls[divided].live_inputs]
    bounds = {_bounds(flow, *each) for each in taken} - {None}
    rounded = [(call.outputs[0].tensor, row)]
    for user in flow.users(*rounded[0])[:_MAX_CALLS]:
        if plain_name(flow.log.calls[user].function) in _SCALES:
            rounded += [(use.tensor, user) for use in flow.log.calls[user].outputs]
    return any(
        use.requires_grad and use.tensor != tensor and _bounds(flow, use.tensor, user) in bounds
        for tensor, since in rounded
        for user in flow.users(tensor, since)[:_MAX_CALLS]
        if plain_name(flow.log.calls[user].function) == "sub"
        for use in flow.log.calls[user].inputs
    )


_SCALES = frozenset({"mul", "div"})


def _bounds(flow: Dataflow, tensor: int, row: int) -> tuple[float, float] | None:
    values = flow.values(tensor, row)
    return (
        None if values is None or values.minimum is None or values.maximum is None else (values.minimum, values.maximum)
    )


_ROUNDS = frozenset({"floor", "ceil", "round", "trunc", "fix"})


def _takes_all(graph: Graph, node: Node) -> bool:
    """Whether its input gets nothing from anywhere else."""
    targets = [graph.nodes[edge.target] for edge in node.edges if edge is not None]
    return bool(targets) and all(state_of(target.arrived) == "zero" for target in targets)


def _is_times_zero(flow: Dataflow, call: Call) -> bool:
    """Whether several values are multiplied by the number 0. Single ones, terms of a loss, have another rule."""
    is_zero = any(type(each) in (int, float) and each == 0 for each in call.scalars.values())
    return is_zero and len(call.inputs) == 1 and prod(shape_of(flow, call.inputs[0].tensor)) > 1


def _is_times_made_zeros(flow: Dataflow, origins: ValueOrigins, row: int) -> bool:
    """Whether the other factor was made as zeros, and not computed: a mask of data may select nothing by accident."""
    call = flow.log.calls[row]
    if len(call.live_inputs) != 1:
        return False
    for use in origins.inputs_of_kind(row, is_all_zero):
        maker = flow.log.calls[origins.oldest_of_kind(use.tensor, row, is_all_zero).call]
        if not use.requires_grad:
            return plain_name(maker.function) in _MAKES_ZEROS
    return False


_MAKES_ZEROS = frozenset({"zeros", "zeros_like", "new_zeros", "full", "full_like", "new_full"})


def _is_in_use(flow: Dataflow, row: int) -> bool:
    """Whether a bound is the middle of a computation. One at the end, of a term of the loss, may be a free margin."""
    call = flow.log.calls[row]
    made = call.outputs[0]
    values = made.values
    if values is None or values.minimum != values.maximum or not values.maximum:
        return False
    if prod(shape_of(flow, made.tensor)) == 1:
        return _is_far_off(flow, call, row, abs(values.maximum))
    waiting, seen = [(made.tensor, row)], set[int]()
    while waiting and len(seen) < _MAX_CALLS:
        for user in flow.users(*waiting.pop()):
            later = flow.log.calls[user]
            if user in seen or not any(use.requires_grad for use in later.outputs):
                continue
            seen.add(user)
            if plain_name(later.function) not in _ADDS_UP or len(later.live_inputs) > 1 < prod(
                shape_of(flow, later.outputs[0].tensor)
            ):
                return True
            waiting += [(use.tensor, user) for use in later.outputs]
    return False


def _is_far_off(flow: Dataflow, call: Call, row: int, bound: float) -> bool:
    """Whether a number is so much smaller than its lower bound that it will not come near it."""
    taken = flow.values_of(call.inputs[0], row)
    return taken is not None and taken.maximum is not None and abs(taken.maximum) * _FAR < bound


_FAR = 1e3
_MAX_CALLS = 20
