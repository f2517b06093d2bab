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
from gradviz.graph.call_log import Call, TensorUse
from gradviz.graph.model import CallSite
from gradviz.graph.traversal import scopes_around

_COPIES = frozenset({
    "clone", "detach", "data", "deepcopy", "copy", "set", "lerp", "mul", "add", "sub", "div", "to", "float", "double",
    "contiguous", "requires_grad", "_foreach_copy", "_foreach_lerp", "_foreach_mul", "_foreach_add",
})  # fmt: skip
"""What copies a tensor, or makes an average of two."""
_PUT_TOGETHER = frozenset({
    "stack", "cat", "concat", "concatenate", "view", "reshape", "flatten", "ravel", "unflatten", "getitem", "select",
    "unbind", "split", "chunk", "narrow", "squeeze", "unsqueeze", "parameters_to_vector", "alias",
})  # fmt: skip
"""What puts copies of several tensors into one, and takes them out again: then the shapes are others."""
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
    leaves: tuple[int, ...] = ()
    """Those of the copies, or the tensors that hold them, that get a gradient in place of what they were made of, where
    nothing else uses that."""


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
            is_new, leaves = _is_new(histories, found[0], steps[-2]), _leaves_instead(histories, found[0], steps[0])
            yield CopyUsed(backward, step, *found, len(steps), is_new, leaves)


def _is_new(histories: ParameterHistories, copies: dict[int, int], since: int) -> bool:
    made = (histories.made_by(copy) for copy in copies.values())
    return all(row is not None and row > since for row in made)


def _leaves_instead(histories: ParameterHistories, copies: dict[int, int], step: int) -> tuple[int, ...]:
    """The leaves that hold these copies, if nothing uses what they were copied from after the first step."""
    flow = histories.flow
    if any(histories.forward_uses(number, after=step) for number in copies):
        return ()
    holders = (
        next((each for each in flow.sharing_memory(copy) if _is_live_leaf(histories, each)), None)
        for copy in copies.values()
    )
    found = tuple(dict.fromkeys(each for each in holders if each is not None))
    follows = any(flow.changes(each, step, len(flow.log.calls)) for each in found)  # An average; it has no optimizer.
    return found if not follows and not histories.trained.intersection(found) else ()


def _is_live_leaf(histories: ParameterHistories, number: int) -> bool:
    makers = [histories.tensor(number).first_seen, *histories.flow.producers(number)]
    uses = (use for row in makers if row is not None for use in _uses(histories.log.calls[row]))
    return any(use.tensor == number and use.is_live_leaf for use in uses)


def _uses(call: Call) -> Iterator[TensorUse]:
    yield from call.inputs
    yield from call.outputs


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
        if shape_of(flow, tensor) in shapes or flow.log.tensors[tensor].requires_grad:
            for source in _sources_of(flow, tensor, backward, trained):
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
        row = _maker(flow, *waiting.pop())
        if row is None or row < since or row in seen or not passes(flow.log.calls[row]):
            continue
        seen.add(row)
        waiting += [(use.tensor, row) for use in flow.log.calls[row].inputs if use.tensor not in at_most]
    return sorted(seen)


def _passes_gradients(flow: Dataflow, call: Call) -> bool:
    is_on = call.kind == "operation" and call.grad_mode == "enabled" and plain_name(call.function) not in _CUTS
    return is_on and any(flow.log.tensors[use.tensor].facts.is_differentiable for use in call.outputs)


def _maker(flow: Dataflow, tensor: int, before: int) -> int | None:
    """The call that made a tensor. ``torch.func.vmap()`` gives on what a call inside of it returned as another tensor,
    with the same memory."""
    made = flow.newest_producer(tensor, before)
    if made is not None or flow.log.tensors[tensor].role == "parameter":
        return made
    return max((row for each in flow.sharing_memory(tensor) for row in flow.producers(each, before)), default=None)


def _sources_of(flow: Dataflow, tensor: int, before: int, among: frozenset[int]) -> list[int]:
    """The tensors, among these, that one was copied from: one of the same shape, or all of which it has a part;
    none if it is a view of one."""
    shape = shape_of(flow, tensor)
    waiting = [(each, False) for each in dict.fromkeys((tensor, *flow.sharing_memory(tensor)))]
    seen = {each for each, _ in waiting}
    if not among.isdisjoint(seen):
        return []
    found: list[int] = []
    at_most = len(seen) + _MAX_WALK  # at each step, `vmap` makes one more tensor with the same memory
    while waiting and len(seen) < at_most:
        number, has_parts = waiting.pop()
        for row in flow.producers(number, before)[-_LAST_CHANGES:]:
            call = flow.log.calls[row]
            is_of_parts = plain_name(call.function) in _PUT_TOGETHER
            for use in call.inputs if is_of_parts or plain_name(call.function) in _COPIES else ():
                is_alike = is_of_parts or has_parts or shape_of(flow, use.tensor) == shape
                if use.tensor in among and is_alike:
                    found.append(use.tensor)
                elif use.tensor not in seen and is_alike:
                    seen.add(use.tensor)
                    waiting.append((use.tensor, has_parts or is_of_parts))
                if found and not (has_parts or is_of_parts):
                    return found
    return found


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
