"""The terms of a loss that fit a model to fixed targets, and whether their sign is the one that improves the fit."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.log_probabilities import is_drawn, is_log_probability
from gradviz.analysis.rules.bases.losses.signed_terms import PRODUCTS, Term, number_of, operands
from gradviz.graph.call_log import Call


class Fit(Struct, frozen=True):
    """A term that compares what a model computes with targets, which have no gradient."""

    term: Term
    is_score: bool
    """Whether it grows with the fit, as a log-probability does, and is no error."""
    targets: tuple[int, ...]
    is_drawn: bool
    """Whether the targets were drawn by the program, as actions are."""

    @property
    def is_worsened(self) -> bool:
        """Whether minimizing the loss makes the fit worse."""
        return (self.term.sign > 0) is self.is_score


ERRORS = frozenset({
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "kl_div", "gaussian_nll_loss", "poisson_nll_loss", "ctc_loss",
})  # fmt: skip
"""Loss functions of torch that compare a result with a target."""
_CLASS_WEIGHTS = ("weight", "2")
_SIZES = frozenset({"pow", "square", "abs", "mul", "norm", "vector_norm"})
_BOTH = 2


def fits_in(flow: Dataflow, terms: list[Term]) -> Iterator[Fit]:
    """Every fit among the terms of a loss."""
    for term in terms:
        call = flow.log.calls[term.row]
        name = plain_name(call.function)
        if name in ERRORS:
            yield from _fit(flow, term, call, is_score=False)
        elif name in ("gather", "getitem", "take_along_dim"):
            if is_log_probability(flow, call.inputs[0].tensor, term.row):
                yield from _fit(flow, term, call, is_score=True)
        elif name in _SIZES and call.inputs:
            is_size = name != "mul" or len({use.tensor for use in call.inputs}) < len(call.inputs)
            made = flow.newest_producer(call.inputs[0].tensor, term.row) if is_size else None
            if made is not None and plain_name(flow.log.calls[made].function) == "sub":
                yield from _fit(flow, term, flow.log.calls[made], is_score=False)


def _fit(flow: Dataflow, term: Term, call: Call, *, is_score: bool) -> Iterator[Fit]:
    dead = (use for use in call.inputs if not use.requires_grad)
    fixed = tuple(use.tensor for use in dead if is_score or use.place not in _CLASS_WEIGHTS)
    if len(call.live_inputs) == 1 and fixed:
        drawn = any(is_drawn(flow, tensor, term.row) for tensor in fixed)
        yield Fit(term, is_score, fixed, drawn)


# -- weights -----------------------------------------------------------------------------------------------------------


class Weight(Struct, frozen=True):
    """What a term of a loss is multiplied with, and has no gradient."""

    row: int
    tensor: int | None
    """None for a number that differs from step to step."""


def weights_of(flow: Dataflow, term: Term) -> list[Weight]:
    """The tensors and the varying numbers that a term is multiplied with, the outermost first."""
    found = []
    for row in term.path[:-1]:
        call = flow.log.calls[row]
        if plain_name(call.function) in PRODUCTS and len(call.live_inputs) == 1:
            dead = [use.tensor for use in call.inputs if not use.requires_grad]
            if dead or _is_varying(flow, row):
                found.append(Weight(row, dead[0] if dead else None))
    return found


def sign_without(flow: Dataflow, term: Term, weights: list[Weight]) -> int:
    """The sign of a term as it would be if these weights were positive."""
    skipped = {weight.row for weight in weights}
    pairs = zip(term.path, term.path[1:], strict=False)
    turns = sum(row not in skipped and turns_sign(flow, row, inner) for row, inner in pairs)
    return -1 if turns % 2 else 1


def turns_sign(flow: Dataflow, row: int, inner: int) -> bool:
    """Whether a call falls as the result of another one grows that it takes."""
    signs = (sign for use, sign, *_ in operands(flow, row) if flow.newest_producer(use.tensor, row) == inner)
    return next(signs, 1) < 0


def _is_varying(flow: Dataflow, row: int) -> bool:
    """Whether a call multiplies with another number than earlier calls of the same line."""
    call = flow.log.calls[row]
    number = _number(call)
    near = range(max(0, row - _FAR), row)
    return number is not None and any(
        other.call_site == call.call_site and other.function == call.function and _number(other) not in (None, number)
        for other in (flow.log.calls[each] for each in near)
    )


_FAR = 3_000


def _number(call: Call) -> float | None:
    return number_of(call, "1", "0", "other", missing=0.0) or None
