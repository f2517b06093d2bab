"""The text of ``gradviz compiled``: each compiled function with its regions, graph breaks and recompilations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from gradviz.analysis.compiled.compiled_functions import (
    CompiledDocument,
    CompiledFunction,
    CompiledRegion,
    ExplainedBreak,
)
from gradviz.graph.compilations import GradientCut
from gradviz.graph.query.own_line import line_words_of
from gradviz.rendering.reports.terminal_tables import facts_table, printed, wrapped
from gradviz.rendering.words.common_words import counted

MAX_GUARDS = 4
"""How many reasons for compiling again are shown for one region."""
_MAX_SHOWN_HINTS = 2
_LEFT_ON_STACK = re.compile(r"___stack\d+")
"""Dynamo's name in a function behind a graph break for what Python's stack held there."""
MAX_NAMES = 4
"""How many parameters are named for one cut."""


@dataclass(frozen=True)
class CompiledText:
    """Prints what was compiled."""

    width: int
    color: bool = False

    def text(self, document: CompiledDocument) -> str:
        """The whole report."""
        return printed(self._parts(document), self.width, color=self.color)

    def _parts(self, document: CompiledDocument) -> Iterator[RenderableType]:
        yield Text(_summary(document), style="bold")
        for function in document.functions:
            yield Text()
            yield from _function(function)
        if document.uncompiled_cuts:
            yield Text()
            yield Text("code that was left uncompiled, as behind a graph break")
            yield facts_table(fact for cut in document.uncompiled_cuts for fact in _cut(cut))
        for sentence in document.disclosures:
            yield wrapped(f"not recorded: {sentence}", self.width, "dim")


def _summary(document: CompiledDocument) -> str:
    functions = document.functions
    if not functions:
        return f"{document.program}: nothing was compiled by torch.compile while it was recorded"
    breaks = sum(len(function.breaks) for function in functions)
    again = sum(function.recompilations for function in functions)
    regions = sum(function.region_count for function in functions)
    return (
        f"{document.program}: {counted(len(functions), 'compiled function')}, {counted(regions, 'region')}, "
        f"{counted(breaks, 'graph break')}, {counted(again, 'recompilation')}"
    )


def _function(function: CompiledFunction) -> Iterator[RenderableType]:
    where = line_words_of(function.file, function.line)
    whole = "" if function.breaks or not function.regions else ": one region, no graph break"
    yield Text(f"{function.name}() at {where}, by {function.backend}{whole}")
    yield facts_table(_facts(function))


def _facts(function: CompiledFunction) -> Iterator[tuple[str, str]]:
    """Regions and breaks in the order of their lines: a break, then what goes on behind it."""
    entries: list[tuple[int, int, list[tuple[str, str]]]] = []
    entries += [(region.line, 1, list(_region(region))) for region in function.regions]
    left = "this line, and the rest of the function, run" if function.regions else "all of the function runs"
    entries += [(broken.line, 0, list(_break(broken, f"{left} uncompiled"))) for broken in function.breaks]
    entries += [(cut.line, 2, list(_cut(cut))) for cut in function.cuts]
    for *_, facts in sorted(entries, key=lambda entry: entry[:2]):
        yield from facts


def _region(region: CompiledRegion) -> Iterator[tuple[str, str]]:
    again = f", compiled {region.versions} times" if region.versions > 1 else ""
    calls = counted(region.operations, "torch call") if region.operations else "no torch call"
    yield f"  from line {region.line}", f"{calls}{again}"
    guards = list(dict.fromkeys(region.failed_guards))
    for guard in guards[:MAX_GUARDS]:
        yield "    again", _guard(guard)
    if len(guards) > MAX_GUARDS:
        yield "", f"and for {counted(len(guards) - MAX_GUARDS, 'more reason')}"
    if region.is_given_up:
        yield "    given up", "Dynamo makes no more versions (recompile_limit); for other calls it runs uncompiled"


def _guard(guard: str) -> str:
    if not guard:
        return "this torch does not tell why"
    left = _LEFT_ON_STACK.search(guard)
    meaning = f" ({left[0]} is a value that the code before the break left)" if left is not None else ""
    return f"because this did not hold: {guard}{meaning}"


def _break(broken: ExplainedBreak, left: str) -> Iterator[tuple[str, str]]:
    what = "given up" if broken.leaves_rest else "break"
    yield f"  {what} at {line_words_of(broken.file, broken.line)}", broken.code or broken.reason
    if broken.is_of_torch:
        yield "", "inside torch's own code, which does not go on compiled here"
        return
    yield "", broken.explanation or broken.reason
    if broken.leaves_rest:
        yield "", left
    for hint in broken.hints[:_MAX_SHOWN_HINTS]:
        yield "", f"hint: {hint}"


def _cut(cut: GradientCut) -> Iterator[tuple[str, str]]:
    names = ", ".join(cut.parameters[:MAX_NAMES])
    more = (
        f" and {counted(len(cut.parameters) - MAX_NAMES, 'more parameter')}" if len(cut.parameters) > MAX_NAMES else ""
    )
    where = f" at {line_words_of(cut.file, cut.line)}" if cut.line else ""
    how = "gradients are off" if cut.is_grad_off else f"{cut.function}()" if cut.function else "nothing uses the result"
    yield f"  gradient cut{where}", f"{how}: none for {names}{more}"
