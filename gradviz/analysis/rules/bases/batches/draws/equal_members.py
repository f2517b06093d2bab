"""Samples of a group that are one and the same, since each turn of a loop seeds the generator with the same number."""

from __future__ import annotations

import ast

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers, calls_named, plain_name
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.batches.draws.given_seeds import line_that_gives_one_seed
from gradviz.analysis.rules.bases.batches.fresh_operands import DRAWS
from gradviz.analysis.rules.bases.batches.seeded_again import MIN_NUMBERS
from gradviz.analysis.sources.source_tree import called_name, names_in, tree_of

_JOINS = frozenset({"cat", "concat", "concatenate", "stack", "vstack", "hstack"})
_DRAWS = DRAWS | {"multinomial", "bernoulli", "randint", "poisson"}
_GROUP = 3
_MIN_STEPS = 2


class EqualMembers(Struct, frozen=True):
    """Results of the turns of one loop that a call joins."""

    draw: int
    joined: int
    """The row of the call that joins them."""
    seeded: Location
    """The line that seeds before each, or that gives a function the seed."""


def equal_members(case: Case) -> list[EqualMembers]:
    """One for each line that seeds, where it is so at several steps: all joined results have the same values, each was
    drawn for itself, and the seed is the same at each turn."""
    flow, found = case.dataflow, dict[Location, list[EqualMembers]]()
    for row, call in calls_named(flow, _JOINS):
        values = {flow.values_of(use, row) for use in call.inputs} if len(call.inputs) >= _GROUP else set()
        known = values.pop() if len(values) == 1 else None
        if known is None or known.count < MIN_NUMBERS or known.minimum == known.maximum:
            continue
        since = flow.step_before(row)
        draws = [
            {
                each
                for each in flow.ancestors(use.tensor, row, since)
                if plain_name(flow.log.calls[each].function) in _DRAWS
            }
            for use in call.inputs
        ]
        last = [max(each, default=-1) for each in draws]
        is_drawn_each = len(set(last)) == len(last) and min(last) >= 0
        seeded = _seeding_line(case, last[-1]) or line_that_gives_one_seed(case, last[-1]) if is_drawn_each else None
        if seeded is not None:
            found.setdefault(seeded, []).append(EqualMembers(last[-1], row, seeded))
    return [each[-1] for each in found.values() if len({flow.step_before(one.joined) for one in each}) >= _MIN_STEPS]


def _seeding_line(case: Case, draw: int) -> Location | None:
    """The line of a loop around a draw that seeds a generator with what no turn changes."""
    for site in callers(case.dataflow, draw):
        tree = tree_of(case.capture.sources.get(site.file, {}))
        for loop in tree.repeated_around(site.line):
            changed = {
                each.id for each in ast.walk(loop) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
            }
            for call in ast.walk(loop):
                if isinstance(call, ast.Call) and called_name(call) == "manual_seed" and _is_fixed(call, changed):
                    return Location(site.file, call.lineno)
    return None


def _is_fixed(call: ast.Call, changed: set[str]) -> bool:
    given = [*call.args, *(each.value for each in call.keywords)]
    has_call = any(isinstance(part, ast.Call) for each in given for part in ast.walk(each))
    return not has_call and not any(names_in(each) & changed for each in given)
