"""The lines of a program that freeze parameters, tie them to frozen ones, or should have unfrozen them."""

from __future__ import annotations

from msgspec.structs import replace

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.parameters.frozen_parameters import TiedToFrozen, location_of_flag
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
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
