"""Cuts beside a live path of the same kind, with which they are combined: above them only a part of a gradient arrives.

The path comes from the same tensor and is added: ``x.detach() + block(x)``, ``x + block(x.detach())``. Or it is a twin,
another part of the same tensor, or a result of the same module: ``d[i] - d[j].detach()``, ``cat([z1.detach(), z2])``.
Or it is the other half of a straight-through estimator, and detached as well: ``z.detach() + (q - z).detach()``.
Or both use a draw that was made with ``rsample()`` to have a gradient: ``score(a)`` and ``log_prob(a.detach())``.
Programs cut on purpose where paths meet in a comparison or a product: targets, weights, scaled gradients. Some of the
others are meant at times, too: a refinement without a gradient of what it refines, a memory of the segment before, the
value of the next state.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from gradviz.analysis.cuts.cut_paths import CutPath
from gradviz.analysis.cuts.twin_calls import origin_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.normal_draws import is_scaled_noise
from gradviz.analysis.dataflow.reached_calls import reached_by
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call, TensorUse

_JOINS = frozenset({"add", "cat", "concat", "concatenate", "stack"})
_TURNS = frozenset({"sub", "neg"})
_MAX_CALLS = 200
_KINDS = frozenset({"detach", "data"})
"""Not `no_grad()`: who puts a part of a forward under it means it, as for the rounds of a search for a fixed point."""


def cut_beside_a_live_path(histories: ParameterHistories, cut_path: CutPath) -> Literal["skip", "other"] | None:
    """Which of two paths from one tensor, which meet in a sum, is cut off; None if none is.

    A ``skip`` has no trained parameters, and the other path has some. The other way round it may be meant.
    """
    flow, cut = histories.flow, cut_path.cut
    if cut.kind not in _KINDS or cut_path.doubt or len(cut.live_inputs) != 1:
        return None
    tensor, has_parameters = cut.live_inputs[0], False
    made = flow.newest_producer(tensor, cut.call)
    if made is None or _is_number(flow, tensor):
        return None
    before, path = cut.call, cut_path.calls[1:_MAX_CALLS]
    below = _alive_below(flow, tensor, made, path[-1]) if path else frozenset()
    for row in path:
        call = flow.log.calls[row]
        given = {use.tensor for use in flow.log.calls[before].outputs}
        others = [use for use in call.live_inputs if use.tensor not in given]
        meeting = [use for use in others if use.tensor in below]
        if meeting:
            if not _is_sum(flow, call) or not (
                has_parameters or _has_parameters(histories, meeting[0], row, tensor, made)
            ):
                return None
            if plain_name(call.function) != "add":
                # What modules computed of it and put beside other results may be an output of its own.
                return None if has_parameters else "other"
            return "other" if has_parameters else "skip"
        if plain_name(call.function) in _TURNS or any(_is_number(flow, use.tensor) for use in call.outputs):
            return None
        has_parameters = has_parameters or any(use.tensor in histories.trained for use in others)
        before = row
    return None


def joins_its_twin(flow: Dataflow, cut_path: CutPath) -> bool:
    """Whether what is cut off, or a part of it, is combined with another part of the same tensor, or put in one tensor
    with another result of the same module."""
    cut = cut_path.cut
    if cut.kind not in _KINDS or cut_path.doubt or len(cut.live_inputs) != 1:
        return False
    path = [row for row in cut_path.calls[1:] if plain_name(flow.log.calls[row].function) not in _PARTS]
    if not path or path[0] == cut_path.calls[-1]:
        return False
    join = flow.log.calls[path[0]]
    name = plain_name(join.function)
    if name not in _JOINS and (name != "sub" or _is_a_distance(flow, path[0])):
        return False
    # What is cut off may be chosen before and after the cut: `x[i].detach()`, `x.detach()[i]`.
    after = cut_path.calls[1 : cut_path.calls.index(path[0])]
    part = _part(flow, cut.live_inputs[0], cut.call, tuple(_choice(flow, row) for row in reversed(after)))
    shape = flow.log.tensors[join.inputs[0].tensor].facts.shape
    for use in join.live_inputs:
        other = _part(flow, use.tensor, path[0], ())
        is_alike = flow.log.tensors[use.tensor].facts.shape == shape
        if other.of == part.of and other.choices and part.choices and other.choices != part.choices and is_alike:
            return True
        if name in _JOINS - {"add"} and part.origin == other.origin is not None and other.of != part.of:
            return True
    return False


def _is_a_distance(flow: Dataflow, row: int) -> bool:
    """Whether a difference is only measured: then what is cut off is the target of the other side."""
    users = (flow.log.calls[user] for use in flow.log.calls[row].outputs for user in flow.users(use.tensor, row))
    return any(plain_name(call.function) in _DISTANCES for call in users)


_DISTANCES = frozenset({"square", "pow", "abs", "norm", "linalg_norm", "vector_norm", "mul"})


class _Part(NamedTuple):
    of: int
    """The tensor of which it is a part, or itself."""
    origin: object
    choices: tuple[object, ...]
    """Which part: the calls that chose it, with their arguments."""


def _part(flow: Dataflow, tensor: int, before: int, choices: tuple[object, ...]) -> _Part:
    while True:
        row = flow.newest_producer(tensor, before)
        if row is None or plain_name(flow.log.calls[row].function) not in _PARTS or not flow.log.calls[row].inputs:
            return _Part(tensor, origin_of(flow, row), choices)
        choices = (*choices, _choice(flow, row))
        tensor, before = flow.log.calls[row].inputs[0].tensor, row


def _choice(flow: Dataflow, row: int) -> object:
    call = flow.log.calls[row]
    index = tuple(use.tensor for use in call.inputs[1:])
    return plain_name(call.function), tuple(sorted(call.scalars.items(), key=str)), index


def splits_a_draw(flow: Dataflow, cut_path: CutPath, backward: int) -> bool:
    """Whether a reparametrized draw is cut off where it meets what it was drawn from, as in a log-probability, though
    the gradient goes through it in another use."""
    cut = cut_path.cut
    if cut.kind not in _KINDS or cut_path.doubt or len(cut.live_inputs) != 1:
        return False
    (tensor,) = cut.live_inputs
    made = flow.newest_producer(tensor, cut.call)
    if made is None or not _is_reparametrized(flow, made):
        return False
    calls = flow.log.calls
    drawn_from = {use.tensor for use in calls[made].live_inputs}
    if not any(use.tensor in drawn_from for row in cut_path.calls[1:] for use in calls[row].live_inputs):
        return False
    return not reached_by(flow, backward).members.isdisjoint(flow.users(tensor, made))


def _is_reparametrized(flow: Dataflow, row: int) -> bool:
    """Whether a call computes ``mean + scale * noise``, as ``rsample()`` does."""
    call = flow.log.calls[row]
    is_sum = plain_name(call.function) == "add"
    return is_sum and any(is_scaled_noise(flow, use.tensor, row) for use in call.inputs)


def is_dead_straight_through(flow: Dataflow, cut_path: CutPath) -> bool:
    """Whether it is the half of a straight-through estimator that should bring the gradient."""
    for row in cut_path.calls[:2]:
        call = flow.log.calls[row]
        is_dead = not any(use.requires_grad for use in call.outputs)
        for use in call.inputs if plain_name(call.function) == "add" and is_dead else ():
            halves = _difference_behind(flow, use.tensor, row)
            if len(halves) == _OPERANDS and halves[1].tensor in cut_path.cut.live_inputs:
                return True
    return False


def _difference_behind(flow: Dataflow, tensor: int, before: int) -> tuple[TensorUse, ...]:
    """The operands of the difference that a tensor is, without its history."""
    row = flow.newest_producer(tensor, before)
    if row is None or plain_name(flow.log.calls[row].function) != "detach":
        return ()
    made = flow.newest_producer(flow.log.calls[row].inputs[0].tensor, row)
    call = None if made is None else flow.log.calls[made]
    return call.inputs if call is not None and plain_name(call.function) == "sub" else ()


_OPERANDS = 2
_PARTS = frozenset({
    "getitem", "gather", "select", "narrow", "index_select", "take_along_dim", "chunk", "split", "unbind", "squeeze",
    "unsqueeze", "view", "reshape", "flatten",
})  # fmt: skip


def _alive_below(flow: Dataflow, tensor: int, made: int, until: int) -> frozenset[int]:
    """A tensor, and what a gradient would go through to reach it, up to a call."""
    rows = flow.descendants(tensor, made, until, live=True)
    return frozenset(
        {tensor, *(use.tensor for row in rows for use in flow.log.calls[row].outputs if use.requires_grad)}
    )


def _is_sum(flow: Dataflow, call: Call) -> bool:
    return plain_name(call.function) in _JOINS and not any(_is_number(flow, use.tensor) for use in call.outputs)


def _has_parameters(histories: ParameterHistories, use: TensorUse, row: int, tensor: int, made: int) -> bool:
    """Whether trained parameters, other than the tensor itself, went into a live operand after the call that made the
    tensor: ``0.1 * w + 0.9 * w.detach()`` scales a gradient."""
    calls = histories.log.calls
    return any(
        given.tensor in histories.trained and given.tensor != tensor
        for above in histories.flow.ancestors(use.tensor, row, made + 1)
        for given in calls[above].inputs
    )


def _is_number(flow: Dataflow, tensor: int) -> bool:
    return all(size == 1 for size in flow.log.tensors[tensor].facts.shape)
