"""Copies of trained parameters that compute a loss where the trained ones were meant: steps after it change nothing.

A copy is a parameter or a tensor whose values only come from copying and averaging another one: a target network, an
average of weights, an older self.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import callers, class_of, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow, passes_on
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call
from gradviz.graph.model import CallSite
from gradviz.graph.traversal import scopes_around

_COPIES = frozenset({
    "clone", "detach", "data", "deepcopy", "copy", "set", "lerp", "mul", "add", "sub", "div", "to", "float", "double",
    "contiguous", "requires_grad", "_foreach_copy", "_foreach_lerp", "_foreach_mul", "_foreach_add",
})  # fmt: skip
"""What copies a tensor, or makes an average of two."""
_CUTS = frozenset({"detach", "data", "numpy", "item", "tolist"})
_MIN_STEPS = 3
_MAX_WALK = 200
"""The most tensors from which a copy may come."""


class CopyUsed(Struct, frozen=True):
    """One loss that copies compute."""

    backward: int
    """The last backward call of that loss."""
    step: int
    """The step after it, which changes nothing."""
    copies: dict[int, int]
    """By parameter of that step: its copy."""
    rows: tuple[int, ...]
    """The calls that compute with the copies, for that backward."""
    steps: int
    is_new: bool
    """Whether the copies were made since the step before: as for each task of a meta step."""


def copies_used(histories: ParameterHistories) -> Iterator[CopyUsed]:
    """One for each optimizer whose steps, all of them, find no gradient of what their loss should train."""
    for optimizer, steps in histories.steps_by_optimizer.items():
        if optimizer is None or len(steps) < _MIN_STEPS or 0 in histories.log.optimizers[optimizer].highest_rates:
            continue
        silent = _never_moved(histories, steps)
        pairs = [(histories.backward_of_step(step), step) for step in steps] if silent else []
        known = [(backward, step) for backward, step in pairs if backward in histories.reached_by]
        if len(known) < len(pairs) or not known:
            continue
        if any(not silent.isdisjoint(histories.reached_by[backward]) for backward, _ in known):
            continue
        backward, step = known[-1]
        found = _copies_in_loss(histories, backward, silent)
        if found is not None and 2 * len(found[0]) >= len(silent):
            yield CopyUsed(backward, step, *found, len(steps), _is_new(histories, found[0], steps[-2]))


def _is_new(histories: ParameterHistories, copies: dict[int, int], since: int) -> bool:
    made = (histories.made_by(copy) for copy in copies.values())
    return all(row is not None and row > since for row in made)


def _never_moved(histories: ParameterHistories, steps: list[int]) -> frozenset[int]:
    """What required grad at the last step, and what no step has changed."""
    last = histories.log.calls[steps[-1]]
    return frozenset(use.tensor for use in last.live_inputs if histories.tensor(use.tensor).is_moved is False)


# -- the loss --------------------------------------------------------------------------------------------------------


def _copies_in_loss(
    histories: ParameterHistories, backward: int, trained: frozenset[int]
) -> tuple[dict[int, int], tuple[int, ...]] | None:
    """By trained tensor, its copy from which a loss was computed on a path that nothing cuts, and the calls that use
    these; None if the loss uses the trained ones, too."""
    flow = histories.flow
    rows = _rows_above(flow, backward, lambda call: _passes_gradients(flow, call))
    used: dict[int, list[int]] = {}
    for row in rows:
        for use in flow.log.calls[row].inputs:
            used.setdefault(use.tensor, []).append(row)
    shapes = {shape_of(flow, number) for number in trained}
    copies: dict[int, int] = {}
    for tensor in sorted(used, key=lambda each: -used[each][-1]):
        source = _source_of(flow, tensor, backward, trained) if shape_of(flow, tensor) in shapes else None
        if source is not None:
            copies.setdefault(source, tensor)
    every = _rows_above(flow, backward, passes_on, frozenset(copies.values())) if copies else []
    if not copies or any(use.tensor in trained for row in every for use in flow.log.calls[row].inputs):
        return None
    return copies, tuple(sorted({row for copy in copies.values() for row in used[copy]}.intersection(every)))


def _rows_above(
    flow: Dataflow, backward: int, passes: Callable[[Call], bool], at_most: frozenset[int] = frozenset()
) -> list[int]:
    """The calls of this step above a loss, up to those that do not pass; not above these tensors."""
    since = flow.step_before(backward)
    waiting = [(use.tensor, backward) for use in flow.log.calls[backward].roots]
    seen = set[int]()
    while waiting:
        row = flow.newest_producer(*waiting.pop())
        if row is None or row < since or row in seen or not passes(flow.log.calls[row]):
            continue
        seen.add(row)
        waiting += [(use.tensor, row) for use in flow.log.calls[row].inputs if use.tensor not in at_most]
    return sorted(seen)


def _passes_gradients(flow: Dataflow, call: Call) -> bool:
    is_on = call.kind == "operation" and call.grad_mode == "enabled" and plain_name(call.function) not in _CUTS
    return is_on and any(flow.log.tensors[use.tensor].facts.is_differentiable for use in call.outputs)


def _source_of(flow: Dataflow, tensor: int, before: int, among: frozenset[int]) -> int | None:
    """The tensor of the same shape, among these, that one was copied from; None if it is a view of one."""
    shape = shape_of(flow, tensor)
    waiting = [*dict.fromkeys((tensor, *flow.sharing_memory(tensor)))]
    if not among.isdisjoint(waiting):
        return None
    seen = set(waiting)
    while waiting and len(seen) < _MAX_WALK:
        for row in flow.producers(waiting.pop(), before)[-_LAST_CHANGES:]:
            call = flow.log.calls[row]
            for use in call.inputs if plain_name(call.function) in _COPIES else ():
                if use.tensor in among and shape_of(flow, use.tensor) == shape:
                    return use.tensor
                if use.tensor not in seen and shape_of(flow, use.tensor) == shape:
                    seen.add(use.tensor)
                    waiting.append(use.tensor)
    return None


_LAST_CHANGES = 4


# -- the line --------------------------------------------------------------------------------------------------------


def line_of_copy(flow: Dataflow, rows: tuple[int, ...]) -> CallSite | None:
    """The innermost line behind all of these calls that is outside of the module in which they ran."""
    scopes, calls = flow.log.scopes, flow.log.calls
    around = [[*scopes_around(scopes, calls[row].scope)] for row in rows]
    shared = set(around[0]).intersection(*around[1:])
    outer = shared - {next((each for each in around[0] if each in shared), None)}
    inner = {scopes[each].class_name for each in set().union(*around) - outer}
    common = set(callers(flow, rows[0])).intersection(*(callers(flow, row) for row in rows[1:]))
    lines = [line for line in callers(flow, rows[0]) if line in common]
    return next((line for line in lines if class_of(line) not in inner), next(iter(lines), flow.line_of(rows[0])))
