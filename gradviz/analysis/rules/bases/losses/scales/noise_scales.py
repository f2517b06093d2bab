"""The scale of the noise of a sample, and the variance whose divergence a loss measures."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.normal_draws import is_normal_draw
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.analysis.rules.bases.losses.scales.scale_logarithms import logarithms_in
from gradviz.analysis.rules.bases.losses.scales.scale_powers import Key, Power, powers_of
from gradviz.analysis.rules.bases.losses.signed_terms import Term, number_of
from gradviz.graph.call_log import Call

_TWO = 2
NOISE_PRODUCTS = frozenset({"mul", "addcmul"})


def variances_of_divergence(flow: Dataflow, terms: list[Term]) -> Iterator[list[Power]]:
    """The variances that a loss adds beside a square, and whose logarithm it subtracts, with what they are made of."""
    added = [term for term in terms if term.sign > 0 and term.is_sure]
    if not any(_is_square(flow.log.calls[term.row]) for term in added):
        return
    signs, _ = logarithms_in(flow, terms)
    for term in added:
        outputs = flow.log.calls[term.row].outputs
        powers = list(powers_of(flow, outputs[0].tensor, term.row + 1, 1.0)) if outputs else []
        if any(found.power > 0 and _is_subtracted(signs, found) for found in powers):
            yield powers


def _is_subtracted(signs: dict[Key, set[int]], found: Power) -> bool:
    key = next((key for key in found.key.and_wholes() if key in signs), None)
    return key is not None and signs[key] == {-1}


def _is_square(call: Call) -> bool:
    name = plain_name(call.function)
    is_power = name == "pow" and number_of(call, "1", "exponent", missing=0.0) == _TWO
    return bool(call.live_inputs) and (name == "square" or is_power)


def scales_of_noise(flow: Dataflow, row: int) -> Iterator[Power]:
    """What noise from a standard normal distribution is multiplied with, and what that is made of."""
    call = flow.log.calls[row]
    factors = call.inputs[-_TWO:]
    live = [use for use in factors if use.requires_grad]
    dead = [use for use in factors if not use.requires_grad]
    made = value_maker(flow, dead[0].tensor, row) if len(live) == len(dead) == 1 else None
    if made is not None and _is_standard_draw(made[1]):
        yield from powers_of(flow, live[0].tensor, row, 1.0)


def _is_standard_draw(call: Call) -> bool:
    places = ("1", "std") if call.function == "torch.normal" else ("2", "std")
    is_scaled = plain_name(call.function) == "normal" and number_of(call, *places, missing=1.0) != 1
    return is_normal_draw(call) and not is_scaled
