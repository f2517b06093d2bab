"""References that are the trained model itself: a difference or divergence whose two sides one model computed alike.

One side has a gradient, the other one was computed without: as by a reference, a teacher or an older self. But the same
parameters, without a step between, computed it from the same inputs, so both sides have the same values, always.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import inf

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import DIFFERENCES, callers, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.parameters.computed_alike import COPIES, DRAWS, Twins, is_kept_view, twins
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call, ValueFacts
from gradviz.graph.model import CallSite


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
    is_adapted: bool = False
    """Whether parameters that are not trained took part on both sides, as below adapters."""


_DIVERGENCES = frozenset({"kl_div", "cross_entropy"})
_NORMALIZE = COPIES | {"log_softmax", "softmax", "log", "exp"}
_OF_RATIOS = frozenset({"exp", "clamp"})
"""The ratio to the policy that acted, and what keeps near it, may be one and zero in a single update with each data."""
_SIDES = 2
_ROUNDING = 1e-5
"""A recurrent layer may compute in another order where no gradient is asked for."""
_MIN_STEPS = 3
_MOST_COMPARED = 4
_MOST_BACKWARDS = 4


def own_references(histories: ParameterHistories) -> Iterator[OwnReference]:
    """One for each line that compares."""
    flow = histories.flow
    lines: dict[tuple[int | None, str], list[int]] = defaultdict(list)
    for row, call in enumerate(flow.log.calls):
        name = plain_name(call.function)
        is_comparison = name in DIFFERENCES | _DIVERGENCES and call.inside is None and len(call.inputs) == _SIDES
        if is_comparison and call.outputs and len(call.live_inputs) == 1:
            lines[call.call_site, name].append(row)
    for rows in lines.values():
        if len({flow.step_before(row) for row in rows}) < _MIN_STEPS or not _have_equal_sides(flow, rows):
            continue
        # Of some steps, what ran without gradients was not recorded.
        known = [
            row for row in rows if all(flow.is_made(use.tensor, row) for use in flow.log.calls[row].inputs)
        ] or rows
        found = [_reference(histories, row) for row in known[-_MOST_COMPARED:]]
        if None not in found and found[-1] is not None and _is_in_a_loss(histories, known[-1]):
            made, both = found[-1]
            first, second = both.rows[0]
            line, other_line = _own_line(flow, second, first), _own_line(flow, first, second)
            trained = tuple(sorted(both.parameters & histories.trained))
            kept = _line_that_kept(flow, second)
            is_adapted = len(trained) < len(both.parameters)
            yield OwnReference(
                known[-1], made, kept or line, other_line, len(rows), trained, kept is not None, is_adapted
            )


def _line_that_kept(flow: Dataflow, row: int) -> CallSite | None:
    """The line that took what a call of the reference uses from a parameter, without a copy and before other steps."""
    for use in flow.log.calls[row].inputs:
        made = flow.newest_producer(use.tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or plain_name(call.function) not in COPIES or not call.inputs:
            continue
        if is_kept_view(flow, call.inputs[0].tensor, use.tensor, made, row):
            return flow.line_of(made)
    return None


def _have_equal_sides(flow: Dataflow, rows: list[int]) -> bool:
    """Whether the values allow that both sides are the same each time, and are not just zeros."""
    for row in rows:
        call = flow.log.calls[row]
        if plain_name(call.function) in _DIVERGENCES:
            continue
        values, side = call.outputs[0].values, flow.values_of(call.inputs[0], row)
        if values is None or side is None or side.zeros == side.count:
            return False
        if values.zeros != values.count and _size(values) > _ROUNDING * _size(side):
            return False
    return True


def _size(values: ValueFacts) -> float:
    """The largest absolute value; an endless one where it is unknown."""
    known = [each for each in (values.minimum, values.maximum) if each is not None]
    return max(map(abs, known)) if known and values.is_finite else inf


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
    both = twins(flow, sides[0], sides[1])
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
        is_draw = plain_name(call.function) in DRAWS and bool(call.outputs)
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
