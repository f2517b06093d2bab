"""How each parameter came out of the run, in one word and one line: reached, frozen, unused, cut off."""

from __future__ import annotations

from collections import defaultdict
from typing import Literal

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import place_of_call
from gradviz.analysis.finding import Place, place_of_line
from gradviz.analysis.parameters.frozen import place_of_flag
from gradviz.analysis.parameters.parameter_fates import ParameterFates
from gradviz.graph.query.own_line import line_words_of
from gradviz.graph.words import counted

OutcomeKind = Literal["reached", "frozen", "unused", "cut off", "not reached"]


class Outcome(Struct, frozen=True):
    """Of one parameter."""

    tensor: int
    """Its number in the log."""
    kind: OutcomeKind
    place: Place | None = None
    """Where it was frozen, cut off, or made, if nothing uses it."""


def outcomes(case: Case) -> tuple[Outcome, ...]:
    """Of every parameter of modules and optimizers, in the order in which they were first seen.

    What a copy or a replacement left behind, so that no module and no optimizer has it, is left out.
    """
    fates = case.fates
    own = [
        number
        for number, tensor in enumerate(fates.log.tensors)
        if number in fates.trained or (tensor.role == "parameter" and tensor.names)
    ]
    return tuple(outcome_of(case, fates, number) for number in own)


def outcome_of(case: Case, fates: ParameterFates, number: int) -> Outcome:
    """How one leaf came out."""
    if number in fates.reached:
        return Outcome(number, "reached")
    if _is_frozen(fates, number):
        off = [row for row, flag in fates.flag_changes(number) if not flag]
        place = place_of_flag(fates, off[-1]) if off else place_of_line(fates.line_where_made(number))
        return Outcome(number, "frozen", place)
    cut = _cut_of(case, number)
    if cut is not None:
        return Outcome(number, "cut off", cut)
    if not fates.is_used(number):
        return Outcome(number, "unused", place_of_line(fates.line_where_made(number)))
    uses = fates.forward_uses(number)
    return Outcome(number, "not reached", place_of_call(fates.flow, uses[-1]) if uses else None)


def _is_frozen(fates: ParameterFates, number: int) -> bool:
    tensor, changes = fates.tensor(number), fates.flag_changes(number)
    if tensor.end is not None:
        return not tensor.end.requires_grad
    return not (changes[-1][1] if changes else tensor.requires_grad)


def _cut_of(case: Case, number: int) -> Place | None:
    found = next((each for each in case.cut_off if number in each.tensors), None)
    return None if found is None else case.place_of_site(found.cut.call_site)


def counted_outcomes(case: Case) -> str:
    """All of them in a few words: ``148 parameters: 140 reached, 8 frozen at train.py:12``."""
    found = outcomes(case)
    by_kind: dict[OutcomeKind, list[Outcome]] = defaultdict(list)
    for outcome in found:
        by_kind[outcome.kind].append(outcome)
    total = counted(len(found), "parameter")
    if not found:
        return ""
    if len(by_kind["reached"]) == len(found):
        return f"{total}, all reached"
    order: tuple[OutcomeKind, ...] = ("reached", "frozen", "cut off", "unused", "not reached")
    return f"{total}: " + ", ".join(_part(kind, by_kind[kind]) for kind in order if by_kind[kind])


def _part(kind: OutcomeKind, group: list[Outcome]) -> str:
    places = {each.place for each in group}
    place = places.pop() if len(places) == 1 and kind in ("frozen", "cut off") else None
    return f"{len(group):,} {kind}" + (f" at {line_words_of(place.file, place.line)}" if place is not None else "")
