"""The lines of a program that freeze parameters, tie them to frozen ones, or should have unfrozen them."""

from __future__ import annotations

import ast

from msgspec import Struct
from msgspec.structs import replace

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.parameters.frozen_parameters import TiedToFrozen, location_of_flag
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.names.conditions_on_names import parts_of
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import SourceTree, called_name
from gradviz.graph.modules_and_schedules import IdleAttribute


def switch_without_effect(case: Case, frozen: list[int]) -> tuple[IdleAttribute, Location] | None:
    """What should have unfrozen all of these, and only sets an attribute that nothing reads; with its only line."""
    for each in case.dataflow.log.idle_attributes:
        if each.value and set(frozen).issubset(each.tensors):
            places = [Location(*line) for line in each.lines]
            lines = [place for place in places if "True" in (case.source_line(place) or "")]
            return (each, lines[0]) if len(lines) == 1 else None
    return None


def told_at_switch(found: Finding, switch: IdleAttribute, line: Location) -> Finding:
    call = f"{switch.owner or 'module'}.requires_grad_(True)"
    return replace(
        found,
        message=f"{found.message}: {switch.name} = True on {switch.owner or 'a module'} unfreezes nothing",
        why=f"{'modules' if switch.is_of_module else 'parameters'} have no switch {switch.name}: Python makes a new "
        "attribute, which nothing reads",
        fix=f"call {call}",
        location=line,
        symptom_location=found.location,
    )


class UsedUp(Struct, frozen=True):
    """An iterator over parameters of which the loop that freezes them leaves nothing for the one that unfreezes."""

    name: str
    kept: Location
    """Where the program keeps the iterator, or else the first loop."""
    second: Location


def used_up_iterator(case: Case, freezing: Location) -> UsedUp | None:
    """What kept the second of two loops over one iterator from unfreezing what the first one froze."""
    source = case.program_source
    loops = [node for node in source.tree.nodes if isinstance(node, ast.For)] if source.tree.module.body else []
    inside = (each for each in loops if _place(case, each.body[0]) == freezing)
    first = next((each for each in inside if isinstance(each.iter, (ast.Name, ast.Attribute))), None)
    if first is None:
        return None
    name = ast.unparse(first.iter)
    for second in loops:
        is_other = second is not first and ast.unparse(second.iter) == name and _is_beside(source.tree, first, second)
        if not is_other or not _unfreezes(second) or not _is_iterator(source.tree, first):
            continue
        place, end = _place(case, second), _place(case, second.body[-1])
        if not LinesThatRan(case.dataflow, place.file).rows_in(place.line + 1, end.line):
            owner = next((each for each in source.tree.around(first) if isinstance(each, ast.ClassDef)), first)
            sets = (each for each in ast.walk(owner) if isinstance(each, ast.Assign))
            kept = next((each for each in sets if name in map(ast.unparse, each.targets)), first)
            return UsedUp(name, _place(case, kept), place)
    return None


def _place(case: Case, node: ast.stmt) -> Location:
    return case.program_source.location(node.lineno)


def _is_beside(tree: SourceTree, one: ast.For, other: ast.For) -> bool:
    """Whether two loops are in one function, or in methods of one class where they go over an attribute."""
    kinds = (ast.ClassDef,) if isinstance(one.iter, ast.Attribute) else FUNCTIONS
    around = [next((each for each in tree.around(loop) if isinstance(each, kinds)), None) for loop in (one, other)]
    return around[0] is not None and around[0] is around[1]


def _unfreezes(loop: ast.For) -> bool:
    text = ast.unparse(loop.body[0])
    return "requires_grad_(True)" in text or "requires_grad = True" in text or "requires_grad_()" in text


def _is_iterator(tree: SourceTree, loop: ast.For) -> bool:
    """Whether a loop goes over what can be gone over once only."""
    return any(
        isinstance(each, ast.GeneratorExp) or called_name(each) in _ITERATORS
        for each in parts_of(tree, tree.scope(loop), loop.iter)
    )


_ITERATORS = frozenset({"parameters", "named_parameters", "chain", "filter", "map", "zip", "iter"})


def told_at_iterator(found: Finding, used: UsedUp) -> Finding:
    return replace(
        found,
        message=f"{found.message}: {used.name} is an iterator, which that loop has used up, so the loop at line "
        f"{used.second.line} gets nothing",
        why="parameters() and chain() give each parameter once; a second loop over the same iterator does not run",
        fix=f"keep a list: {used.name} = list({used.name.removeprefix('self.')})",
        location=used.kept,
        symptom_location=found.location if found.location != used.kept else used.second,
    )


def line_of_tie(case: Case, tied: TiedToFrozen) -> Location | None:
    """The only line that assigns one of the two to the other: ``self.decoder.weight = self.embed.weight``."""
    ends = [".".join(name.split(".")[-2:]) for name in (tied.trained, tied.frozen)]
    found = [
        Location(file, number)
        for file, lines in case.capture.sources.items()
        for number, text in lines.items()
        if "=" in text and all(end in text for end in ends)
    ]
    return found[0] if len(found) == 1 else None


def location_where_flagged(histories: ParameterHistories, number: int) -> Location | None:
    """Where it was frozen; if it never required grad, where it was made."""
    off = [row for row, flag in histories.flag_changes(number) if not flag]
    if off:
        return location_of_flag(histories, off[-1])
    makers = [row for row in histories.flow.producers(number) if histories.log.calls[row].kind != "step"]
    return (
        location_of_call(histories.flow, makers[-1]) if makers else location_of_line(histories.line_where_made(number))
    )
