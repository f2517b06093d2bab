"""The outcome of each parameter at the end of the run: reached, frozen, unused, cut off; with a line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of, together
from gradviz.analysis.finding import Location, location_of_line
from gradviz.analysis.parameters.frozen_parameters import location_of_flag
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.parameters.whole_modules import whole_modules
from gradviz.graph.number_words import counted
from gradviz.graph.query.own_line import line_words_of

_MAX_NAMES = 8

OutcomeKind = Literal["reached", "frozen", "unused", "cut off", "of no influence", "not reached"]
"""``of no influence``: the loss depends on a derivative that does not depend on it."""


class Outcome(Struct, frozen=True):
    """The outcome of one parameter."""

    tensor: int
    """Its number in the log."""
    kind: OutcomeKind
    location: Location | None = None
    """Where it was frozen, cut off, or made, if nothing uses it."""


def outcomes(case: Case) -> tuple[Outcome, ...]:
    """The outcome of every parameter of modules and optimizers, in the order in which they were first seen.

    Old parameters that no module and no optimizer has, such as those of a copy or before a replacement, are left out,
    and so are those of a model that was loaded after training under the name of the trained one.
    """
    histories = case.histories
    own = [
        number
        for number, tensor in enumerate(histories.log.tensors)
        if number in histories.trained
        or (tensor.role == "parameter" and tensor.names and not histories.is_only_a_successor(number))
    ]
    return tuple(outcome_of(case, histories, number) for number in own)


def outcome_of(case: Case, histories: ParameterHistories, number: int) -> Outcome:
    """The outcome of one leaf."""
    if number in histories.without_influence:
        return Outcome(number, "of no influence")
    if number in histories.reached:
        return Outcome(number, "reached")
    if _is_frozen(histories, number):
        off = [row for row, flag in histories.flag_changes(number) if not flag]
        location = location_of_flag(histories, off[-1]) if off else location_of_line(histories.line_where_made(number))
        return Outcome(number, "frozen", location)
    cut = _cut_of(case, number)
    if cut is not None:
        return Outcome(number, "cut off", cut)
    if not histories.is_used(number):
        return Outcome(number, "unused", location_of_line(histories.line_where_made(number)))
    uses = histories.forward_uses(number)
    return Outcome(number, "not reached", location_of_call(histories.flow, uses[-1]) if uses else None)


def _is_frozen(histories: ParameterHistories, number: int) -> bool:
    tensor, changes = histories.tensor(number), histories.flag_changes(number)
    if tensor.end is not None:
        return not tensor.end.requires_grad
    return not (changes[-1][1] if changes else tensor.requires_grad)


def _cut_of(case: Case, number: int) -> Location | None:
    found = next((each for each in case.cut_off if number in each.tensors), None)
    return None if found is None else case.location_of_site(found.cut.call_site)


def counted_outcomes(case: Case) -> str:
    """The number of parameters by outcome: ``148 parameters: 140 reached, 8 frozen at train.py:12 (model.encoder)``."""
    found = outcomes(case)
    by_kind: dict[OutcomeKind, list[Outcome]] = defaultdict(list)
    for outcome in found:
        by_kind[outcome.kind].append(outcome)
    total = counted(len(found), "parameter")
    if not found:
        return ""
    if len(by_kind["reached"]) == len(found):
        return f"{total}, all reached"
    order: tuple[OutcomeKind, ...] = ("reached", "frozen", "cut off", "unused", "of no influence", "not reached")
    parts = [_part(kind, by_kind[kind]) + _modules(case, kind, by_kind) for kind in order if by_kind[kind]]
    return f"{total}: " + ", ".join(parts)


def _modules(case: Case, kind: OutcomeKind, by_kind: Mapping[OutcomeKind, list[Outcome]]) -> str:
    """Which modules get no gradient: they may be more than was meant, and nothing else tells so."""
    if kind == "reached":
        return ""
    flow = case.dataflow
    own = names_of(flow, (each.tensor for each in by_kind[kind]))
    every = names_of(flow, (each.tensor for group in by_kind.values() for each in group))
    words = together(whole_modules(own, every), _MAX_NAMES)
    return f" ({words})" if words else ""


def _part(kind: OutcomeKind, group: list[Outcome]) -> str:
    locations = {each.location for each in group}
    location = locations.pop() if len(locations) == 1 and kind in ("frozen", "cut off", "not reached") else None
    return f"{len(group):,} {kind}" + (
        f" at {line_words_of(location.file, location.line)}" if location is not None else ""
    )
