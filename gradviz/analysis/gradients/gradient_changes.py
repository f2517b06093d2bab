"""Changes of ``.grad`` at the wrong time: after its step, before its backward, or before it is unscaled."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from math import isclose

from msgspec import Struct

from gradviz.analysis.cuts.cut_causes import is_gradient
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name, single_name
from gradviz.analysis.dataflow.clipping import is_clipping
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Location
from gradviz.analysis.gradients.gradient_events import Event
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call

Events = Mapping[int, list[tuple[int, Event]]]
"""By leaf: what happened to its gradient; see `GradientEvents.events`."""
TextOf = Callable[[Location | None], str | None]


class MisplacedChange(Struct, frozen=True):
    """Calls from one line that change gradients."""

    call: int
    """The first of them."""
    times: int
    tensors: tuple[int, ...]
    """The leaves; empty if there were no gradients."""
    step: int | None = None
    """The step before, or the call that unscales after it; None if there were no gradients, or only zeros."""


def changes_nobody_uses(histories: ParameterHistories, events: Events, text_of: TextOf) -> Iterator[MisplacedChange]:
    """Changes after the last use of a gradient and before it is cleared, and of gradients that are still zero."""
    lines: dict[Location | None, list[tuple[int, int, int | None]]] = defaultdict(list)
    useful: set[Location | None] = set()
    for row, leaf in changes_of_gradients(histories.flow):
        before, following = around(events.get(leaf, []), row)
        location = location_of_call(histories.flow, row)
        if following != "step" and before is not None and before[1] == "step":
            lines[location].append((row, leaf, before[0]))
        elif following == "backward" and (before is None or before[1] == "clear") and _leaves_zeros(histories, row):
            lines[location].append((row, leaf, None))
        else:
            useful.add(location)
    for location, found in lines.items():
        if location not in useful:
            rows = {row for row, _, _ in found}
            leaves = tuple(sorted({leaf for _, leaf, _ in found}))
            yield MisplacedChange(min(rows), len(rows), leaves, found[0][2])
    useful.update(lines)
    for location, empty in _clips_of_nothing(histories, text_of).items():
        # Behind a backward call the line is right: what brought no gradient is another mistake.
        is_behind = any(_follows_backward(histories, row) for row in empty)
        if (
            location not in useful
            and not is_behind
            and not any(_has_gradients(histories, events, row) for row in empty)
        ):
            yield MisplacedChange(empty[0], len(empty), ())


def _follows_backward(histories: ParameterHistories, row: int) -> bool:
    """Whether a ``backward()`` ran since the last step; what ``autograd.grad()`` returns is in no ``.grad``."""
    rows, since = histories.backward_calls, histories.flow.step_before(row)
    calls = (histories.log.calls[each] for each in rows[bisect_left(rows, since) : bisect_left(rows, row)])
    return any(not is_gradient(call) for call in calls)


def clips_without_parameters(
    histories: ParameterHistories, events: Events, text_of: TextOf
) -> Iterator[MisplacedChange]:
    """Clipping of no gradient at a time when trained parameters have gradients."""
    for rows in _clips_of_nothing(histories, text_of).values():
        given_none = [row for row in rows if _has_gradients(histories, events, row)]
        if given_none:
            yield MisplacedChange(given_none[0], len(given_none), ())


def clips_gradients_at(histories: ParameterHistories, location: Location | None) -> bool:
    """Whether a line changed any gradient at any time."""
    return any(location_of_call(histories.flow, row) == location for row, _ in changes_of_gradients(histories.flow))


def _has_gradients(histories: ParameterHistories, events: Events, row: int) -> bool:
    """Whether any parameter of the next step has a gradient when a call begins: backward made one, and nothing cleared
    it. Those of a model that has ended its training keep theirs."""
    step = histories.flow.next_of_kind("step", row)
    stepped = {use.tensor for call in histories.log.calls[step : step + 1] for use in call.inputs}
    befores = (around(each, row)[0] for leaf, each in events.items() if leaf in stepped or not stepped)
    return any(before is not None and before[1] != "clear" for before in befores)


def clips_of_sums(histories: ParameterHistories, events: Events) -> Iterator[MisplacedChange]:
    """Clipping between two backward calls, without a step or a clearing between them: of a sum that grows."""
    lines: dict[Location | None, list[tuple[int, int]]] = defaultdict(list)
    for row, leaf in changes_of_gradients(histories.flow):
        before, following = around(events.get(leaf, []), row)
        is_between = following == "backward" and before is not None and before[1] == "backward"
        if is_between and is_clipping(histories.flow, row):
            lines[location_of_call(histories.flow, row)].append((row, leaf))
    for found in lines.values():
        rows = {row for row, _ in found}
        if len(rows) >= _MIN_SUMS:
            yield MisplacedChange(min(rows), len(rows), tuple(sorted({leaf for _, leaf in found})))


_MIN_SUMS = 4
"""Fewer may be the clipping of two losses of a few steps."""


def changes_before_unscale(histories: ParameterHistories) -> Iterator[MisplacedChange]:
    """Clipping between the backward of a scaled loss and the call that unscales its gradients."""
    flow = histories.flow
    unscaling = _unscaling_calls(histories)
    found: dict[Location | None, list[tuple[int, int, int]]] = defaultdict(list)
    for row, leaf in changes_of_gradients(flow) if unscaling else ():
        if _factor(flow.log.calls[row]) is not None:
            continue  # what unscales, or another scale: no clipping
        backward = histories.backward_calls[bisect_left(histories.backward_calls, row) - 1]
        unscale = unscaling.get(backward)
        if backward < row and unscale is not None and row < unscale:
            found[location_of_call(flow, row)].append((row, leaf, unscale))
    for changes in found.values():
        rows = {row for row, _, _ in changes}
        leaves = tuple(sorted({leaf for _, leaf, _ in changes}))
        yield MisplacedChange(min(rows), len(rows), leaves, changes[0][2])


def steps_with_scaled(histories: ParameterHistories, least: int) -> Iterator[MisplacedChange]:
    """Steps that use the gradients of a loss that a scaler multiplied, before anything unscales them.

    Args:
        least: only lines that make as many such steps.
    """
    flow, calls = histories.flow, histories.log.calls
    unscaling = _unscaling_calls(histories)
    found: dict[Location | None, list[tuple[int, int]]] = defaultdict(list)
    for backward in histories.backward_calls:
        step = next((each for each in histories.steps if each > backward), None)
        if step is None or unscaling.get(backward, step) < step or not _is_scaled(histories, backward):
            continue
        between = [row for row, _ in changes_of_gradients(flow) if backward < row < step]
        if all(is_clipping(flow, row) for row in between) and not any(
            "amp_" in call.function for call in calls[backward:step]
        ):
            found[location_of_call(flow, step)].append((step, backward))
    for each in found.values():
        if len(each) >= least:
            leaves = tuple(sorted(histories.reached_by.get(each[0][1], ())))
            yield MisplacedChange(each[0][0], len(each), leaves, each[0][1])


def _is_scaled(histories: ParameterHistories, backward: int) -> bool:
    """Whether a root is a loss times a single number that ``GradScaler.scale`` filled: a constant, more than 1."""
    flow, calls = histories.flow, histories.log.calls
    for root in calls[backward].roots:
        for maker in flow.producers(root.tensor, backward)[-1:]:
            for use in calls[maker].inputs:
                first = flow.producers(use.tensor, maker)[:1]
                values = flow.values(use.tensor, maker)
                multiplied = _first_multiplication(flow, use.tensor)
                if (
                    not use.requires_grad
                    and first
                    and multiplied is not None
                    and calls[first[0]].function == "torch.full"
                    and flow.line_of(first[0]) == flow.line_of(multiplied)
                    and values is not None
                    and (values.maximum or 0) > 1
                ):
                    return True
    return False


def _first_multiplication(flow: Dataflow, tensor: int) -> int | None:
    """The first multiplication with a tensor."""
    return next((row for row in flow.users(tensor) if flow.log.calls[row].function == "torch.Tensor.mul"), None)


def changes_of_gradients(flow: Dataflow) -> Iterator[tuple[int, int]]:
    """Calls of the program that multiply or clamp a gradient in place, with its leaf."""
    functions = [function for function in flow.functions if can_clip(function)]
    for row in sorted(chain.from_iterable(map(flow.rows_of_function, functions))):
        call = flow.log.calls[row]
        if call.inside is None and call.kind == "operation":
            for use in call.changed:
                leaf = _leaf_of_gradient(flow, use.tensor)
                if leaf is not None:
                    yield row, leaf


def _leaf_of_gradient(flow: Dataflow, tensor: int) -> int | None:
    """The leaf whose gradient a tensor is, also by another name: ``p.grad.data``."""
    known = flow.log.tensors[tensor]
    made = None if known.producer is None else flow.log.calls[known.producer]
    if known.gradient_of is None and made is not None and plain_name(made.function) in _OTHER_NAMES and made.inputs:
        return flow.log.tensors[made.inputs[0].tensor].gradient_of
    return known.gradient_of


_OTHER_NAMES = frozenset({"data", "detach", "view", "flatten", "ravel"})
"""What gives the memory of a whole tensor another name."""


def can_clip(function: str) -> bool:
    return function.rpartition(".")[2] in _CLIP


_CLIP = frozenset({
    "_foreach_mul_", "mul_", "__imul__", "div_", "__itruediv__", "_foreach_div_", "clamp_", "clip_", "clamp_max_",
    "clamp_min_", "_foreach_clamp_max_", "_foreach_clamp_min_",
})  # fmt: skip


def around(events: list[tuple[int, Event]], row: int) -> tuple[tuple[int, Event] | None, Event | None]:
    """What happened to a gradient just before a call, and what happens next."""
    index = bisect_left(events, (row, "backward"))
    return (events[index - 1] if index else None), (events[index][1] if index < len(events) else None)


def _leaves_zeros(histories: ParameterHistories, row: int) -> bool:
    """Whether all that a call changed is zero afterwards, as far as its values are known."""
    known = [use.values for use in histories.log.calls[row].changed]
    return bool(known) and all(values is not None and values.zeros == values.count for values in known)


def _clips_of_nothing(histories: ParameterHistories, text_of: TextOf) -> dict[Location | None, list[int]]:
    """By line, calls of ``clip_grad_norm_`` before the last step that found no gradient: they make a zero."""
    flow, last = histories.flow, histories.steps[-1] if histories.steps else 0
    found: dict[Location | None, list[int]] = defaultdict(list)
    for row, call in enumerate(flow.log.calls[:last]):
        makes_zero = call.function == "torch.tensor" and call.scalars.get("0") == 0.0 and not call.inputs
        if makes_zero and "clip_grad_norm_" in (text_of(location_of_call(flow, row)) or ""):
            found[location_of_call(flow, row)].append(row)
    return dict(found)


def _unscaling_calls(histories: ParameterHistories) -> dict[int, int]:
    """For each backward of a loss times a scale: the next call that inverts the scale, or divides gradients by it."""
    calls, flow = histories.log.calls, histories.flow
    inverted: dict[int, list[int]] = defaultdict(list)
    for row, call in enumerate(calls):
        if call.function == "torch.Tensor.reciprocal" and not call.inputs[0].requires_grad:
            for maker in flow.producers(call.inputs[0].tensor, row)[-1:]:
                for use in calls[maker].inputs[:1]:
                    inverted[use.tensor].append(row)
    divisions = _divisions_by_numbers(flow)
    found: dict[int, int] = {}
    for backward in histories.backward_calls if inverted or divisions else ():
        for root in calls[backward].roots:
            for maker in flow.producers(root.tensor, backward)[-1:]:
                scale = _factor(calls[maker])
                after = [row for row, number in divisions if row > backward and _is_same(number, scale)]
                for use in calls[maker].inputs:
                    after += [row for row in inverted.get(use.tensor, ()) if row > backward and not use.requires_grad]
                if after:
                    found[backward] = min(after)
    return found


def _divisions_by_numbers(flow: Dataflow) -> list[tuple[int, float]]:
    """Calls that divide a gradient by a Python number greater than 1, in place, with that number."""
    changes = dict.fromkeys(row for row, _ in changes_of_gradients(flow))
    numbers = ((row, _factor(flow.log.calls[row])) for row in changes)
    return [(row, 1 / factor) for row, factor in numbers if factor is not None and 0 < factor < 1]


def _factor(call: Call) -> float | None:
    """The Python number by which a call multiplies its only input; None if there is none."""
    name, number = single_name(call), call.scalars.get("1", call.scalars.get("0"))
    if type(number) not in (int, float) or not number or name not in ("mul", "div"):
        return None
    return float(number) if name == "mul" else 1 / number  # type: ignore[operator]


def _is_same(number: float, scale: float | None) -> bool:
    return scale is not None and isclose(number, scale, rel_tol=1e-6)
