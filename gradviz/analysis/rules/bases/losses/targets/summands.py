"""What the target of an error adds up, and which of it is discounted: ``reward + 0.99 * (1 - end) * best``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, number_of
from gradviz.graph.call_log import Call, TensorUse

_BOTH = 2


class Summand(Struct, frozen=True):
    """Something that a target is made of, and the call that made it."""

    use: TensorUse
    made: int
    is_added: bool
    """Whether another tensor is added to it on the way."""
    is_discounted: bool
    """Whether it is multiplied by a number between 0 and 1."""


def summands(
    flow: Dataflow,
    use: TensorUse,
    row: int,
    onward: Callable[[Call], Iterable[TensorUse]],
    discounts: Callable[[int, Call], bool],
    at_most: int,
) -> Iterator[Summand]:
    """Everything from which a tensor was computed, as far as calls go on.

    Args:
        use: the tensor, as the call `row` received it.
        onward: the inputs of a call that are followed further.
        discounts: whether a product, by its row, multiplies by a number between 0 and 1.
    """
    waiting, count = [(use, row, False, False)], 0
    while waiting and count < at_most:
        count += 1
        given, before, is_added, is_discounted = waiting.pop()
        made = flow.newest_producer(given.tensor, before)
        if made is None:
            continue
        yield Summand(given, made, is_added, is_discounted)
        call = flow.log.calls[made]
        name = plain_name(call.function)
        for each in onward(call):
            # Of ``addcmul(a, b, c, value=0.9)`` and ``add(a, b, alpha=0.9)`` only what is added is discounted.
            is_added_part = (name == "addcmul" or "alpha" in call.scalars) and each is not call.inputs[0]
            is_product = name == "mul" or is_added_part
            discounted = is_discounted or (is_product and discounts(made, call))
            waiting.append((each, made, is_added or _adds(name, call), discounted))


def _adds(name: str, call: Call) -> bool:
    """Whether a call adds up two tensors."""
    return (name in ("add", "sub") and len(call.inputs) == _BOTH) or name == "addcmul"


def is_discount(call: Call) -> bool:
    """Whether a product, or a sum with one, has a number between 0 and 1 as its factor."""
    return 0 < number_of(call, *OPERAND, "value", "alpha", missing=1.0) < 1
