"""Gradients that the program gives to backward calls, and what is wrong with them."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.cuts import TAKES_ONLY_THE_SHAPE
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import name_of
from gradviz.graph.call_log import TensorUse

_RANDOM = frozenset(
    f"torch.{name}" for name in ("rand", "randn", "rand_like", "randn_like", "empty", "empty_like", "randint")
)
_NAMELESS = "the tensor"


class WrongGradient(NamedTuple):
    """What to report about the gradient that a backward call was given, or should have been given."""

    verdict: str
    why: str
    fix: str


def wrong_gradient(flow: Dataflow, row: int, root: int, gradient: TensorUse) -> WrongGradient | None:
    """What is wrong with the gradient that a backward call was given; None if it may be meant."""
    made = flow.producers(gradient.tensor, before=row)
    values = flow.values(gradient.tensor, row)
    if not made or values is None:
        return None  # the program passed none: torch made it
    count, name = prod(shape_of(flow, root)), name_or_pronoun(flow, root)
    remedy = f"{name if name != _NAMELESS else 'loss'}.mean().backward()"
    if values.zeros == values.count:
        return WrongGradient(
            f"backward of {name} starts from a gradient of zero",
            "it multiplies every gradient, so all of them are zero",
            "remove the argument",
        )
    if _is_value_of(flow, root, gradient.tensor, row):
        return WrongGradient(
            f"backward of {name} gets the values of {name} as its gradient",
            "every gradient is multiplied by the loss, so it is that of half the loss squared",
            "remove the argument; for several elements call mean() first",
        )
    if count > 1 and flow.log.calls[made[-1]].function in _RANDOM and len(made) == 1:
        return WrongGradient(
            f"backward of {name} starts from random numbers",
            "they decide how much each element counts, so the step goes in a random direction",
            remedy,
        )
    if count > 1 and values.minimum == values.maximum == 1.0 and _is_of_each_sample(flow, root, row):
        return WrongGradient(
            f"ones as the gradient of {name} add up its {count:,} elements: every gradient is {count:,} times that of "
            "their mean",
            "this avoids the error that a loss must be one number, but the step grows with the batch",
            remedy,
        )
    return None


def scaled_gradient(flow: Dataflow, row: int, root: int, gradient: TensorUse) -> WrongGradient | None:
    """What to say if one number gets a weight that makes the step larger than its gradient; smaller ones average."""
    values = flow.values(gradient.tensor, row)
    if values is None or values.count != 1 or values.maximum is None or abs(values.maximum) <= 1:
        return None
    name = name_or_pronoun(flow, root)
    return WrongGradient(
        f"backward of {name}, which is one number, gets {values.maximum:g} as its gradient, and nothing divides by it "
        "before the step",
        f"every gradient is {values.maximum:g} times that of {name}; clipping and the learning rate see that",
        "remove the argument; if it scales a loss against underflow, divide the gradients by it before the step",
    )


def _is_value_of(flow: Dataflow, root: int, gradient: int, row: int) -> bool:
    """Whether the gradient was computed from the root's values, and not from other gradients."""
    if root == gradient:
        return True
    rows = [
        above
        for above in flow.ancestors(gradient, before=row, since=flow.step_before(row))
        if flow.log.calls[above].function not in TAKES_ONLY_THE_SHAPE
    ]
    derived, is_taken = {root}, False
    for above in rows:
        call = flow.log.calls[above]
        is_own = any(use.tensor in derived for use in call.inputs)
        is_taken |= any(use.tensor == root for use in call.inputs)
        if call.kind == "backward" or (is_own and any(_is_data_beside(flow, use, derived) for use in call.inputs)):
            return False  # a gradient that was computed by hand
        derived.update(use.tensor for use in call.outputs if is_own)
    return is_taken


def _is_data_beside(flow: Dataflow, use: TensorUse, derived: set[int]) -> bool:
    """Whether it is another tensor of several values, which requires no grad."""
    return use.tensor not in derived and not use.requires_grad and prod(shape_of(flow, use.tensor)) > 1


def _is_of_each_sample(flow: Dataflow, root: int, row: int) -> bool:
    """False if the elements are losses that are one number each: then their sum is meant."""
    made = flow.producers(root, before=row)
    call = flow.log.calls[made[-1]] if made else None
    return call is not None and any(prod(shape_of(flow, use.tensor)) > 1 for use in call.inputs)


def name_or_pronoun(flow: Dataflow, tensor: int) -> str:
    """What a message calls a tensor."""
    return name_of(flow.log.tensors[tensor]) or _NAMELESS
