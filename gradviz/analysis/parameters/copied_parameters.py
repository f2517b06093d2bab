"""Parameters that an optimizer holds and nothing uses, and those that they were copied from."""

from __future__ import annotations

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.reached_calls import reached_by
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call, TensorUse


def forgotten_parameters(histories: ParameterHistories) -> list[int]:
    """Parameters that an optimizer steps, but that nothing has used since the optimizer was made."""
    return [
        n
        for n in sorted(histories.trained - histories.reached)
        if _required_grad(histories, n)
        and not histories.forward_uses(
            n, after=min(row for o in histories.optimizers_of(n) for row in histories.given_at(o))
        )
    ]


def copies_in_optimizers(histories: ParameterHistories, forgotten: list[int]) -> dict[int, int]:
    """What an optimizer has and nothing uses, with the parameter of the same shape that it was copied from, which no
    optimizer has."""
    originals = frozenset(histories.untrained)
    found = {number: original_of(histories, number, originals) for number in (forgotten if originals else ())}
    return {number: original for number, original in found.items() if original is not None}


def original_of(histories: ParameterHistories, number: int, among: frozenset[int]) -> int | None:
    """The parameter of the same shape that one was copied from, if it is among these."""
    flow = histories.flow
    # A parameter has the memory of the clone that it was made of.
    same = dict.fromkeys((number, *flow.sharing_memory(number)))
    rows = (row for tensor in same for row in flow.ancestors(tensor))
    above = (use.tensor for row in rows for use in histories.log.calls[row].inputs)
    shape = histories.tensor(number).facts.shape
    return next((n for n in above if n in among and n != number and histories.tensor(n).facts.shape == shape), None)


def is_anchor(histories: ParameterHistories, leaf: int) -> bool:
    """Whether the values of a leaf itself are only subtracted from those of a trained one of the same shape, as in the
    proximal term ``(w - w0).square()``: its gradient goes nowhere, and that of the other one is what was meant."""
    flow, waiting, is_subtracted = histories.flow, [leaf], False
    seen = {leaf}
    while waiting:
        tensor = waiting.pop()
        for row in histories.forward_uses(tensor):
            call = flow.log.calls[row]
            if not any(use.requires_grad for use in call.outputs):
                continue
            name = plain_name(call.function)
            if name in _DIFFERENCES:
                others = [use.tensor for use in call.inputs if use.tensor != tensor]
                if not any(_is_trained_leaf(histories, other, row) for other in others):
                    return False
                is_subtracted = True
            elif name in _ARRANGE and len(seen) < _MAX_ARRANGED:
                new = [use.tensor for use in call.outputs if use.tensor not in seen]
                seen.update(new)
                waiting += new
            else:
                return False
    return is_subtracted


def _is_trained_leaf(histories: ParameterHistories, tensor: int, before: int) -> bool:
    """Whether it is a trained leaf, or several that were put together."""
    flow = histories.flow
    if tensor in histories.trained:
        return True
    calls = [call for _, call in flow.makers_above(tensor, before, _MAX_ARRANGED, _arranged)]
    leaves = {use.tensor for call in calls for use in call.inputs if use.is_live_leaf}
    return bool(leaves & histories.trained) and all(plain_name(call.function) in _ARRANGE for call in calls)


def _arranged(call: Call) -> list[TensorUse]:
    return [use for use in call.inputs if not use.is_live_leaf] if plain_name(call.function) in _ARRANGE else []


_DIFFERENCES = frozenset({"sub", "mse_loss", "l1_loss", "dist", "pairwise_distance"})
_ARRANGE = frozenset({"view", "reshape", "flatten", "ravel", "cat", "stack"})
_MAX_ARRANGED = 100


def compared_copies(histories: ParameterHistories) -> list[int]:
    """Copies of trained parameters that nothing trains, and whose results a loss compares with those of the originals:
    targets. Where both only add terms to a loss, the copy was forgotten."""
    untrained = frozenset(histories.untrained)
    # A program may make a copy for each task, or for each round.
    last = {leaf: row for row, reached in sorted(histories.reached_by.items()) for leaf in reached & untrained}
    found: list[int] = []
    for leaf, backward in sorted(last.items()) if histories.steps else ():
        if histories.tensor(leaf).role == "parameter" and not is_anchor(histories, leaf):
            original = original_of(histories, leaf, histories.reached_by[backward] & histories.trained)
            if original is not None and _meet(histories.flow, backward, leaf, original):
                found.append(leaf)
    return found


def _meet(flow: Dataflow, backward: int, one: int, other: int) -> bool:
    """Whether a call before a backward combines several numbers computed with one leaf, and with another one."""
    ones, others = {one}, {other}
    for row in reached_by(flow, backward).rows:
        call = flow.log.calls[row]
        live = {use.tensor for use in call.live_inputs}
        made = {use.tensor for use in call.outputs if use.requires_grad}
        is_one, is_other = not live.isdisjoint(ones), not live.isdisjoint(others)
        if is_one and is_other:
            return any(size != 1 for tensor in live for size in flow.log.tensors[tensor].facts.shape)
        ones |= made if is_one else set()
        others |= made if is_other else set()
    return False


def _required_grad(histories: ParameterHistories, number: int) -> bool:
    """Whether it did when it was first seen, or when an optimizer got it."""
    given = (histories.first_given(optimizer).get(number) for optimizer in histories.optimizers_of(number))
    return histories.tensor(number).requires_grad or any(each is not None and each[1].requires_grad for each in given)
