"""Parameters that an optimizer holds and nothing uses, and those that they were copied from."""

from __future__ import annotations

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


def _required_grad(histories: ParameterHistories, number: int) -> bool:
    """Whether it did when it was first seen, or when an optimizer got it."""
    given = (histories.first_given(optimizer).get(number) for optimizer in histories.optimizers_of(number))
    return histories.tensor(number).requires_grad or any(each is not None and each[1].requires_grad for each in given)
