"""The scales whose logarithm is a term of a loss of its own, with its sign."""

from __future__ import annotations

from collections import defaultdict

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.scales.scale_powers import SELECT, Key, key_of, powers_of
from gradviz.analysis.rules.bases.losses.signed_terms import Term, is_linear, operands, signed_terms


def terms_of_sum(flow: Dataflow, backward: int, root: int) -> list[Term]:
    """The terms of a loss, where only sums and products with what has no gradient lie between them and the loss."""
    return [
        term
        for term in signed_terms(flow, backward, root)
        if all(is_linear(flow.log.calls[row]) for row in term.path[:-1])
    ]


def logarithms_in(flow: Dataflow, terms: list[Term]) -> tuple[dict[Key, set[int]], dict[Key, Term]]:
    """The signs with which a loss takes each tensor, and each logarithm of a scale; 0 where a sign is not known."""
    signs: dict[Key, set[int]] = defaultdict(set)
    first: dict[Key, Term] = {}
    for term in terms:
        call = flow.log.calls[term.row]
        sign = term.sign if term.is_sure else 0
        if plain_name(call.function) == "log" and call.live_inputs:
            for found in powers_of(flow, call.inputs[0].tensor, term.row, 1.0):
                signs[found.key].add(sign if found.power > 0 else -sign)
                first.setdefault(found.key, term)
        elif is_linear(call) and plain_name(call.function) not in SELECT:
            for use, of_use, is_sure, *_ in operands(flow, term.row):
                key = key_of(flow, use.tensor, term.row, is_log=True)
                signs[key].add(of_use * sign if is_sure else 0)
                first.setdefault(key, term)
    return signs, first
