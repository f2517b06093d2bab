"""The terms of a loss that fit a model to fixed targets, and whether their sign is the one that improves the fit."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.formulas.products import is_square
from gradviz.analysis.rules.bases.losses.log_probabilities import is_drawn, is_log_probability
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.analysis.rules.bases.losses.signed_terms import (
    PRODUCTS,
    Term,
    number_of,
    operands,
    signed_terms,
)
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
_SIZES = frozenset({"pow", "square", "abs", "norm", "vector_norm", "matrix_norm"})
_VARIES = frozenset({"var", "std", "var_mean", "std_mean"})
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
        elif name in _LOGARITHMS:
            yield from _of_ratio(flow, term, call)
        elif name == "logsumexp" and call.inputs:
            yield from _of_mixture(flow, term, call)
        else:
            yield from _of_size(flow, term, call)


def _of_size(flow: Dataflow, term: Term, call: Call) -> Iterator[Fit]:
    """The size of a difference, or what varies of it: its squares, its norm, its variance."""
    row, varies = term.row, False
    for _ in range(_MAX_AROUND):
        name = plain_name(call.function)
        is_averaged = row != term.row and name in ("sum", "mean")
        if not call.inputs or not (name in _SIZES or name in _VARIES or is_averaged or is_square(call)):
            return
        varies = varies or name in _VARIES
        made = flow.newest_producer(call.inputs[0].tensor, row)
        if made is None:
            return
        row, call = made, flow.log.calls[made]
        if plain_name(call.function) == "sub":
            shapes = {shape_of(flow, use.tensor) for use in call.inputs}
            # What varies around a centre of all samples is no error.
            if not varies or len(shapes) == 1:
                yield from _fit(flow, term, call, is_score=False)
            return


def _of_mixture(flow: Dataflow, term: Term, call: Call) -> Iterator[Fit]:
    """The logarithm of a mixture of densities, ``logsumexp(log_weights + log_prob)``: it grows with the fit.

    Without weights that sum to one, ``logsumexp()`` may be that of scores, as for what a sample should differ from.
    """
    parts = list(signed_terms(flow, term.row, call.inputs[0].tensor))
    if any(plain_name(flow.log.calls[each.row].function) == "log_softmax" and each.sign > 0 for each in parts):
        errors = (fit for each in parts if each.sign < 0 for fit in _of_size(flow, each, flow.log.calls[each.row]))
        yield from (Fit(term, True, fit.targets, fit.is_drawn) for fit in errors)


def _of_ratio(flow: Dataflow, term: Term, call: Call) -> Iterator[Fit]:
    """The logarithm of something over the squares of an error, as a signal-to-noise ratio is: it grows with the fit.

    That of the error itself falls with it.
    """
    for _, maker in flow.makers(call.inputs[0].tensor, term.row, _MAX_AROUND):
        if plain_name(maker.function) in ERRORS:
            yield from _fit(flow, term, maker, is_score=False)
        if plain_name(maker.function) not in _AROUND:
            break
    ratio = value_maker(flow, call.inputs[0].tensor, term.row, through=_AROUND - {"sum", "mean"})
    if ratio is None or plain_name(ratio[1].function) != "div" or not ratio[1].inputs:
        return
    before, divisor = ratio[0], ratio[1].inputs[-1]
    for row, maker in flow.makers(divisor.tensor, before, _MAX_AROUND):
        if plain_name(maker.function) in ERRORS:
            yield from _fit(flow, term, maker, is_score=True)
            return
        if is_square(maker):
            made = value_maker(flow, maker.inputs[0].tensor, row)
            targets = () if made is None else _targets_of_error(flow, *made)
            if targets:
                yield Fit(term, True, targets, is_drawn=False)
            return
        if plain_name(maker.function) not in _AROUND:
            return


def _targets_of_error(flow: Dataflow, row: int, call: Call) -> tuple[int, ...]:
    """The targets of ``estimate - target``, where the target may be multiplied with a scale that fits it."""
    if plain_name(call.function) != "sub" or len(call.inputs) != _BOTH or not call.live_inputs:
        return ()
    dead = tuple(use.tensor for use in call.inputs if not use.requires_grad)
    if dead:
        return dead
    scaled = (_undivided(flow, use.tensor, row) for use in call.inputs)
    return tuple(
        use.tensor
        for each in scaled
        if each is not None and plain_name(each.function) == "mul" and len(each.inputs) == len(each.live_inputs) + 1
        for use in each.inputs
        if not use.requires_grad
    )


def _undivided(flow: Dataflow, tensor: int, before: int) -> Call | None:
    """The call that made a tensor, or what was divided by something fixed: ``scale * y / y.square().sum()``."""
    for _, call in flow.makers(tensor, before, _BOTH):
        if plain_name(call.function) != "div" or not call.inputs[0].requires_grad or len(call.live_inputs) != 1:
            return call
    return None


_LOGARITHMS = frozenset({"log", "log2", "log10"})
_AROUND = frozenset({"add", "clamp", "clamp_min", "sum", "mean", "view", "reshape", "squeeze", "unsqueeze", "sqrt"})
_MAX_AROUND = 6


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
