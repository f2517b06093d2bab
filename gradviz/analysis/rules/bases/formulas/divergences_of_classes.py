"""Divergences of a fixed distribution of classes from a trained one, from which the same step draws classes."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.formulas.products import product_of
from gradviz.analysis.rules.bases.losses.log_probabilities import kind_of
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, argument, tensor_before
from gradviz.analysis.rules.bases.losses.signed_terms import Term, signed_terms
from gradviz.graph.call_log import TensorUse

_DRAWS = frozenset({"gumbel_softmax"})
_NOISE = frozenset({"rand", "rand_like", "exponential", "uniform"})
_LOGARITHMS = SHAPE_ONLY | {"log_softmax", "log", "softmax", "clamp", "add", "sub"}
_SCORES = _LOGARITHMS | {"exp", "div", "mul"}
_REPEATS = SHAPE_ONLY | {"repeat", "tile", "exp", "log"}
_MAX_MAKERS = 6
_MAX_FOLLOWED = 40
_BOTH = 2


def divergences_from_drawn(flow: Dataflow, backward: int, root: int) -> Iterator[tuple[int, int]]:
    """Each divergence of a fixed distribution from a trained one that a loss adds, as its call and the logarithms of
    the trained one, where the same step draws from the trained one."""
    for term in signed_terms(flow, backward, root):
        found = _fixed_and_trained(flow, term)
        if found is None:
            continue
        fixed, trained, before = found
        is_log = kind_of(flow, trained.tensor, before) == "log"
        if is_log and _is_fixed(flow, fixed, term.row) and _is_drawn_from(flow, trained.tensor, before, backward):
            yield term.row, trained.tensor


def _fixed_and_trained(flow: Dataflow, term: Term) -> tuple[TensorUse, TensorUse, int] | None:
    """The two distributions of ``kl_div(log_q, p)``, ``p * (log_p - log_q)`` or ``-p * log_q``; and the call that takes
    the second one."""
    call = flow.log.calls[term.row]
    if plain_name(call.function) == "kl_div":
        trained, fixed = argument(call, 0, "input"), argument(call, 1, "target")
        is_one_trained = trained is not None and fixed is not None and trained.requires_grad > fixed.requires_grad
        return (fixed, trained, term.row) if is_one_trained and term.sign > 0 and fixed and trained else None
    pair = product_of(call)
    if pair is None or len(call.live_inputs) != 1:
        return None
    (fixed,), (trained,) = [use for use in pair if not use.requires_grad], call.live_inputs
    made = flow.newest_producer(trained.tensor, term.row)
    difference = None if made is None else flow.log.calls[made]
    if made is None or difference is None or plain_name(difference.function) != "sub":
        return (fixed, trained, term.row) if term.sign < 0 else None
    if len(difference.inputs) != _BOTH or len(difference.live_inputs) != 1 or term.sign < 0:
        return None
    return (fixed, difference.inputs[1], made) if difference.inputs[1].requires_grad else None


def _is_fixed(flow: Dataflow, fixed: TensorUse, row: int) -> bool:
    """Whether a distribution of classes is the same for all samples."""
    shape, values = shape_of(flow, fixed.tensor), flow.values_of(fixed, row)
    if values is None or values.minimum is None or values.minimum < 0 or not shape or shape[-1] == 1:
        return False
    if values.minimum == values.maximum:
        return True  # all classes are as likely
    source = tensor_before(flow, fixed.tensor, row, _REPEATS)
    made = flow.newest_producer(source, row)
    if made is not None and plain_name(flow.log.calls[made].function) in ("expand_as", "broadcast_tensors"):
        source = flow.log.calls[made].inputs[0].tensor
    elements = flow.log.tensors[source].facts.elements
    return elements == shape[-1]


def _is_drawn_from(flow: Dataflow, trained: int, before: int, backward: int) -> bool:
    """Whether classes are drawn with the scores behind logarithms of probabilities."""
    since = flow.step_before(backward)
    waiting = [trained]
    for _, call in flow.makers(trained, before, _MAX_MAKERS):
        if plain_name(call.function) not in _LOGARITHMS or not call.inputs:
            break
        waiting.append(call.inputs[0].tensor)
    seen = set(waiting)
    while waiting and len(seen) < _MAX_FOLLOWED:
        given = waiting.pop()
        for user in flow.users(given, since):
            call = flow.log.calls[user]
            name = plain_name(call.function)
            if user >= backward:
                break
            if name in _DRAWS or (name in ("add", "sub") and _has_noise(flow, user, given)):
                return True
            new = [use.tensor for use in call.outputs if use.tensor not in seen and call.kind == "operation"]
            if name in _SCORES and len(call.inputs) == 1:
                waiting += new
                seen.update(new)
    return False


def _has_noise(flow: Dataflow, row: int, given: int) -> bool:
    """Whether the other operand comes from drawn numbers, as Gumbel noise does."""
    others = (use for use in flow.log.calls[row].inputs if use.tensor != given and not use.requires_grad)
    return any(
        plain_name(call.function) in _NOISE for use in others for _, call in flow.makers(use.tensor, row, _MAX_MAKERS)
    )
