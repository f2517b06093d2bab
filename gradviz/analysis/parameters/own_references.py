"""References that are the trained model itself: a difference or divergence whose two sides one model computed alike.

One side has a gradient, the other one was computed without: as by a reference, a teacher or an older self. But the same
parameters, without a step between, computed it from the same inputs, so both sides have the same values, always.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import callers, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call
from gradviz.graph.model import CallSite


class Twins(Struct, frozen=True):
    """Two computations of the same."""

    rows: tuple[tuple[int, int], ...]
    """Pairs of different calls that received parameters, the same ones in the same state."""
    parameters: frozenset[int]


class OwnReference(Struct, frozen=True):
    """Calls of one line that compare a model with itself."""

    call: int
    """The last of them."""
    made: int
    """The call that computed its reference."""
    line: CallSite | None
    """The line that kept the parameters for the reference without a copy; else that which computed the reference, and
    not the other side."""
    other_line: CallSite | None
    """The line that computed the other side, and not the reference."""
    times: int
    parameters: tuple[int, ...]
    is_kept: bool = False
    """Whether the reference has parameters that were kept without a copy."""


_DISTANCES = frozenset({"sub", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
_DIVERGENCES = frozenset({"kl_div", "cross_entropy"})
_COPIES = frozenset({"detach", "data", "clone", "contiguous", "requires_grad"})
_NORMALIZE = _COPIES | {"log_softmax", "softmax", "log", "exp"}
_OF_RATIOS = frozenset({"exp", "clamp"})
"""The ratio to the policy that acted, and what keeps near it, may be one and zero in a single update with each data."""
_DRAWS = frozenset({
    "multinomial", "normal", "randn", "randn_like", "bernoulli", "rand", "rand_like", "uniform", "randint", "randperm",
    "exponential", "rrelu",
})  # fmt: skip
_SIDES = 2
_MIN_STEPS = 3
_MOST_COMPARED = 4
_MOST_BACKWARDS = 4
_MAX_PAIRS = 2_000


def own_references(histories: ParameterHistories) -> Iterator[OwnReference]:
    """One for each line that compares."""
    flow = histories.flow
    lines: dict[tuple[int | None, str], list[int]] = defaultdict(list)
    for row, call in enumerate(flow.log.calls):
        name = plain_name(call.function)
        is_comparison = name in _DISTANCES | _DIVERGENCES and call.inside is None and len(call.inputs) == _SIDES
        if is_comparison and call.outputs and len(call.live_inputs) == 1:
            lines[call.call_site, name].append(row)
    for rows in lines.values():
        if len({flow.step_before(row) for row in rows}) < _MIN_STEPS or not _have_equal_sides(flow, rows):
            continue
        found = [_reference(histories, row) for row in rows[-_MOST_COMPARED:]]
        if None not in found and found[-1] is not None and _is_in_a_loss(histories, rows[-1]):
            made, both = found[-1]
            first, second = both.rows[0]
            line, other_line = _own_line(flow, second, first), _own_line(flow, first, second)
            trained = tuple(sorted(both.parameters & histories.trained))
            kept = _line_that_kept(flow, second)
            yield OwnReference(rows[-1], made, kept or line, other_line, len(rows), trained, kept is not None)


def _line_that_kept(flow: Dataflow, row: int) -> CallSite | None:
    """The line that took what a call of the reference uses from a parameter, without a copy and before other steps."""
    for use in flow.log.calls[row].inputs:
        made = flow.newest_producer(use.tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or plain_name(call.function) not in _COPIES or not call.inputs:
            continue
        if _is_kept_view(flow, call.inputs[0].tensor, use.tensor, made, row):
            return flow.line_of(made)
    return None


def _have_equal_sides(flow: Dataflow, rows: list[int]) -> bool:
    """Whether the values allow that both sides are the same each time, and are not just zeros."""
    for row in rows:
        call = flow.log.calls[row]
        if plain_name(call.function) in _DIVERGENCES:
            continue
        values, side = call.outputs[0].values, flow.values_of(call.inputs[0], row)
        if values is None or side is None or values.zeros != values.count or side.zeros == side.count:
            return False
    return True


def _reference(histories: ParameterHistories, row: int) -> tuple[int, Twins] | None:
    """The call that computed the side without a gradient, and how both sides were computed."""
    flow, call = histories.flow, histories.flow.log.calls[row]
    is_divergence = plain_name(call.function) in _DIVERGENCES
    live, dead = sorted(call.inputs, key=lambda use: not use.requires_grad)
    if is_divergence and not flow.log.tensors[dead.tensor].facts.dtype.startswith("float"):
        return None
    users = [flow.log.calls[user] for use in call.outputs[:1] for user in flow.users(use.tensor, row)]
    if plain_name(call.function) == "sub" and users and all(plain_name(user.function) in _OF_RATIOS for user in users):
        return None
    sides = [(live.tensor, row), (dead.tensor, row)]
    if is_divergence:
        sides = [_above(flow, *side) for side in sides]
    both = _twins(flow, sides[0], sides[1])
    made = flow.newest_producer(dead.tensor, row)
    if both is None or made is None or both.parameters.isdisjoint(histories.trained):
        return None
    return None if _made_the_data(flow, both, made) else (made, both)


def _above(flow: Dataflow, tensor: int, before: int) -> tuple[int, int]:
    """What was normalized to probabilities, or to their logarithms."""
    made = flow.newest_producer(tensor, before)
    while made is not None and plain_name(flow.log.calls[made].function) in _NORMALIZE and flow.log.calls[made].inputs:
        tensor, before = flow.log.calls[made].inputs[0].tensor, made
        made = flow.newest_producer(tensor, before)
    return tensor, before


def _made_the_data(flow: Dataflow, both: Twins, made: int) -> bool:
    """Whether the side without a gradient is of the very forward from which its data were drawn since the last step."""
    since, forward = flow.step_before(made), {other for _, other in both.rows}
    above = flow.ancestors(flow.log.calls[made].outputs[0].tensor, made + 1, since=since)
    for row in above:
        call = flow.log.calls[row]
        is_draw = plain_name(call.function) in _DRAWS and bool(call.outputs)
        if is_draw and forward <= set(flow.ancestors(call.outputs[0].tensor, row + 1, since=since)):
            return True
    return False


def _is_in_a_loss(histories: ParameterHistories, row: int) -> bool:
    """Whether a gradient of first order that a step uses is computed of it."""
    flow, looked = histories.flow, 0
    for backward in histories.backward_calls:
        call = flow.log.calls[backward]
        if backward < row or not _is_plain(call):
            continue
        if any(row in flow.ancestors(use.tensor, backward, since=row) for use in call.roots):
            return flow.has_step_after(backward)
        looked += 1
        if looked == _MOST_BACKWARDS:
            break
    return False


def _is_plain(call: Call) -> bool:
    return call.function.endswith(".backward") and not call.scalars.get("create_graph")


def _own_line(flow: Dataflow, row: int, other: int) -> CallSite | None:
    """The innermost line behind a call that is not behind another one."""
    known = {(line.file, line.line) for line in callers(flow, other)}
    own = (line for line in callers(flow, row) if (line.file, line.line) not in known)
    return next(own, flow.line_of(row))


# -- two computations of the same ------------------------------------------------------------------------------------


def _twins(flow: Dataflow, one: tuple[int, int], two: tuple[int, int]) -> Twins | None:
    """How two tensors, each as a call received it, were computed alike from parameters; None if they were not.

    What was drawn, such as the mask of a dropout, is not alike; nor is what a step has changed in between. Buffers may
    have changed: the statistics of a normalization do so in each forward.
    """
    pairs: list[tuple[int, int]] = []
    parameters: set[int] = set()
    waiting, seen = [(one, two)], set[tuple[int, int, int, int]]()
    while waiting:
        (tensor, row), (other, other_row) = _above_copies(flow, *waiting[-1][0]), _above_copies(flow, *waiting[-1][1])
        waiting.pop()
        made, other_made = flow.newest_producer(tensor, row), flow.newest_producer(other, other_row)
        if (tensor, -1 if made is None else made) == (other, -1 if other_made is None else other_made):
            continue
        if tensor == other and flow.log.tensors[tensor].role == "buffer":
            continue
        if made is None or other_made is None or not _are_alike(flow, made, tensor, other_made, other):
            return None
        if made == other_made or (made, other_made, tensor, other) in seen:
            continue
        seen.add((made, other_made, tensor, other))
        if len(seen) > _MAX_PAIRS:
            return None
        call, other_call = flow.log.calls[made], flow.log.calls[other_made]
        leaves = {use.tensor for use in call.inputs if use.is_live_leaf}
        others = {_above_copies(flow, use.tensor, other_made)[0] for use in other_call.inputs} if leaves else set()
        shared = leaves & others
        if shared:
            pairs.append((made, other_made))
            parameters |= shared
        for use, like in zip(call.inputs, other_call.inputs, strict=True):
            waiting.append(((use.tensor, made), (like.tensor, other_made)))
    return Twins(tuple(pairs), frozenset(parameters)) if pairs else None


def _above_copies(flow: Dataflow, tensor: int, before: int) -> tuple[int, int]:
    """The tensor that a tensor is a copy of, and the call before which it has the same values.

    What was kept of a parameter without a copy, before an earlier step, has the values that the parameter has now.
    """
    made = flow.newest_producer(tensor, before)
    while made is not None and plain_name(flow.log.calls[made].function) in _COPIES and flow.log.calls[made].inputs:
        source = flow.log.calls[made].inputs[0].tensor
        before = before if _is_kept_view(flow, source, tensor, made, before) else made
        tensor = source
        made = flow.newest_producer(tensor, before)
    return tensor, before


def _is_kept_view(flow: Dataflow, parameter: int, view: int, made: int, before: int) -> bool:
    """Whether a parameter and what an earlier step already found taken of it are one memory."""
    storages = {flow.log.tensors[each].storage for each in (parameter, view)}
    is_one_memory = len(storages) == 1 and None not in storages
    is_of_parameter = flow.log.tensors[parameter].role == "parameter" and made < flow.step_before(before)
    return parameter != view and is_one_memory and is_of_parameter and not flow.data_replacements(parameter)


def _are_alike(flow: Dataflow, row: int, tensor: int, other_row: int, other: int) -> bool:
    """Whether two calls do the same, and return two tensors at the same place."""
    call, like = flow.log.calls[row], flow.log.calls[other_row]
    return (
        call.kind in ("operation", "custom")
        and plain_name(call.function) == plain_name(like.function)
        and call.scalars == like.scalars
        and len(call.inputs) == len(like.inputs)
        and _places(call, tensor) == _places(like, other)
        and (row == other_row or (not _is_random(call) and (bool(call.inputs) or _have_the_same_values(call, like))))
    )


def _places(call: Call, tensor: int) -> list[str]:
    return [use.place for use in call.outputs if use.tensor == tensor]


def _is_random(call: Call) -> bool:
    name = plain_name(call.function)
    if "dropout" in name:
        return any(each is True for each in call.scalars.values())
    return name in _DRAWS


def _have_the_same_values(call: Call, like: Call) -> bool:
    known = [use.values for use in call.outputs]
    return known == [use.values for use in like.outputs] and None not in known
