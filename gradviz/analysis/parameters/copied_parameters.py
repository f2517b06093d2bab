"""Parameters that an optimizer holds and nothing uses, and those that they were copied from."""

from __future__ import annotations

from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.reached_calls import reached_by
from gradviz.analysis.parameters.parameter_histories import ParameterHistories


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


def compared_copies(histories: ParameterHistories) -> list[int]:
    """Copies of trained parameters that nothing trains, and whose results a loss compares with those of the originals:
    targets. Where both only add terms to a loss, the copy was forgotten."""
    untrained = frozenset(histories.untrained)
    found: dict[int, None] = {}
    for backward in histories.last_backward_of_each_line:
        reached = histories.reached_by[backward]
        for leaf in sorted(reached & untrained) if histories.steps else ():
            is_parameter = histories.tensor(leaf).role == "parameter"
            original = original_of(histories, leaf, reached & histories.trained) if is_parameter else None
            if original is not None and _meet(histories.flow, backward, leaf, original):
                found[leaf] = None
    return list(found)


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
