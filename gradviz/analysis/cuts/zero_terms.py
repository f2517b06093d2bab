"""Terms of a loss that are 0 at every step, because they compare the same values or a hinge holds them there."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, isclose

from msgspec import Struct
from msgspec.structs import replace

from gradviz.analysis.cuts.dead_terms import live_terms, sum_rows
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import TensorUse

_COMPARE = frozenset({"sub", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div"})
_PAIRS = frozenset({
    "triplet_margin_loss", "triplet_margin_with_distance_loss", "pairwise_distance", "cosine_similarity",
})  # fmt: skip
"""What compares its first two inputs, and returns something else than 0 for the same: a margin, or 1."""
_HOLD = frozenset({"relu", "clamp", "clamp_min", "clip", "maximum", "threshold"})
_HINGES = _HOLD | {"softplus", "logsigmoid"}
_REDUCE = frozenset({"mean", "sum", "mul", "div", "neg"})
SIDES = 2
_MIN_STEPS = 4
_MAX_CALLS = 40
_ROUNDING = 1e-6
"""A divergence of equal distributions is not exactly 0."""


class ZeroTerm(Struct, frozen=True):
    """A term of a loss that is 0."""

    made: int
    """The call that made a 0 of something else."""
    added: int
    """The call that adds the term to the loss."""
    is_held: bool
    """Whether that is a hinge, not a comparison."""
    times: int = 1
    """How often its line was 0: each time."""


def zero_terms(histories: ParameterHistories) -> Iterator[ZeroTerm]:
    """One for each line that makes a 0 of something else at every step."""
    flow = histories.flow
    found = dict[int | None, ZeroTerm]()
    for backward in histories.last_backward_of_each_line:
        for use in flow.log.calls[backward].roots if flow.has_step_after(backward) else ():
            for term in _zeros_of(flow, backward, use.tensor):
                found.setdefault(flow.log.calls[term.made].call_site, term)
    for site, term in found.items():
        rows = _calls_of_line(flow, site, term)
        steps = {flow.step_before(row) for row in rows}
        if len(steps) >= _MIN_STEPS and all(_is_nothing(flow, row) for row in rows):
            yield replace(term, times=len(rows))


def _zeros_of(flow: Dataflow, backward: int, root: int) -> Iterator[ZeroTerm]:
    terms = live_terms(flow, backward, root)
    ends = terms if len(terms) > 1 else []
    for tensor, added in (*ends, *(inner for term in terms for inner in _terms_in_hinge(flow, *term))):
        made = _where_it_becomes_zero(flow, tensor, added)
        if made is None:
            continue
        call = flow.log.calls[made]
        name = plain_name(call.function)
        if name in _HOLD and _count(flow, call.outputs[0], made) > 1:
            yield ZeroTerm(made, added, is_held=True)
        elif name in _PAIRS or (name in _COMPARE and len(call.inputs) == SIDES and _sides_are_alike(flow, made, name)):
            yield ZeroTerm(made, added, is_held=False)


def _terms_in_hinge(flow: Dataflow, tensor: int, before: int) -> Iterator[tuple[int, int]]:
    """What is added up in a hinge above a term; the term itself if it is a triplet loss."""
    for _ in range(_MAX_CALLS):
        row = flow.newest_producer(tensor, before)
        live = flow.log.calls[row].live_inputs if row is not None else ()
        if row is None or not live:
            return
        name = plain_name(flow.log.calls[row].function)
        if name in _PAIRS:
            yield tensor, before
        if name in _HINGES:
            rows = sum_rows(flow, row, live[0].tensor)
            yield from ((use.tensor, each) for each in rows for use in flow.log.calls[each].live_inputs)
        if name not in _REDUCE or len(live) > 1:
            return
        tensor, before = live[0].tensor, row


def _where_it_becomes_zero(flow: Dataflow, tensor: int, before: int) -> int | None:
    """The uppermost call above a term of which all results are 0, and an input that needs a gradient is not."""
    found = None
    for _ in range(_MAX_CALLS):
        made = flow.newest_producer(tensor, before)
        if made is None or flow.log.calls[made].kind != "operation" or not _is_nothing(flow, made):
            break
        found, before = made, made
        live = flow.log.calls[made].live_inputs
        if not live:
            return None
        tensor = live[0].tensor
    return found


def _is_nothing(flow: Dataflow, row: int) -> bool:
    """Whether a call returned 0, or what it returns where it gets the same values twice."""
    name = plain_name(flow.log.calls[row].function)
    if name not in _PAIRS:
        return _is_zero(flow, row)
    return _sides_are_alike(flow, row, name) and _is_of_the_same(flow, row, name)


def _is_of_the_same(flow: Dataflow, row: int, name: str) -> bool:
    """Whether a result can be that of the same rows twice: rows in another order have the same bounds."""
    expected = _OF_THE_SAME.get(name)
    outputs = flow.log.calls[row].outputs
    values = flow.values_of(outputs[0], row + 1) if outputs else None
    if expected is None or values is None or values.minimum is None or values.maximum is None:
        return True
    return abs(values.minimum - expected) < _NEARLY and abs(values.maximum - expected) < _NEARLY


_OF_THE_SAME = {"cosine_similarity": 1.0, "pairwise_distance": 0.0}
_NEARLY = 1e-3


def _is_zero(flow: Dataflow, row: int) -> bool:
    """Whether all that a call returned is 0, as good as it can be computed."""
    call = flow.log.calls[row]
    values = flow.values_of(call.outputs[0], row + 1) if call.outputs else None
    if values is None or values.minimum is None or values.maximum is None or not values.is_finite:
        return False
    bound = _ROUNDING if values.count == 1 else 0.0
    return -bound <= values.minimum and values.maximum <= bound


def _sides_are_alike(flow: Dataflow, row: int, name: str) -> bool:
    """Whether both sides have as many numbers, between the same bounds, and not all are the same one."""
    call = flow.log.calls[row]
    one, other = (flow.values_of(use, row) for use in call.inputs[:SIDES])
    if one is None or other is None or one.count != other.count or one.count == 1:
        return False
    bounds = (one.minimum, one.maximum), (other.minimum, other.maximum)
    logarithms, given = (tuple(each for each in pair if each is not None) for pair in bounds)
    if len(logarithms) != SIDES or len(given) != SIDES or logarithms[0] == logarithms[1]:
        return False
    if name in _PAIRS:
        return logarithms == given
    if name != "kl_div":
        return call.outputs[0].values is not None and call.outputs[0].values.minimum == 0 and logarithms == given
    wanted = logarithms if call.scalars.get("log_target") else tuple(map(exp, logarithms))
    return all(isclose(each, like, abs_tol=_ROUNDING) for each, like in zip(wanted, given, strict=True))


def _calls_of_line(flow: Dataflow, site: int | None, term: ZeroTerm) -> list[int]:
    """The calls like that of the term on its line that a step may use."""
    function = flow.log.calls[term.made].function
    return [
        row
        for row, call in enumerate(flow.log.calls)
        if call.call_site == site and call.function == function and flow.has_step_after(row) and call.live_inputs
    ]


def _count(flow: Dataflow, use: TensorUse, row: int) -> int:
    values = flow.values_of(use, row + 1)
    return 0 if values is None else values.count
