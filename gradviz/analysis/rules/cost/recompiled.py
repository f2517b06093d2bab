"""GV906."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradviz.analysis.case import Case
from gradviz.analysis.compiled.compiled_functions import CompiledFunction, CompiledRegion, compiled_functions
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.graph.number_words import counted

MIN_VERSIONS = 4
"""Two or three are usual: sizes become symbols, and training differs from evaluation."""


class Recompiled(Rule):
    """Code under ``torch.compile`` is compiled again and again.

    What it finds
    -------------
    Compiled code with four or more versions: something that Dynamo took for fixed changes from call to call, such as a
    Python number, a text or a kind of object.

    Why it matters
    --------------
    Each compilation takes seconds. After eight versions, unless the limit was raised, Dynamo gives up, and the code
    runs uncompiled.

    Example
    -------
    @torch.compile(backend="eager")
    def named(x, name):
        return x.sin() if name else x

    x = torch.ones(3, requires_grad=True)
    for step in range(5):
        named(x, str(step)).sum().backward()

    Instead
    -------
    @torch.compile(backend="eager")
    def named(x, has_name):
        return x.sin() if has_name else x

    x = torch.ones(3, requires_grad=True)
    for step in range(5):
        named(x, bool(str(step))).sum().backward()
    """

    code = "GV906"
    name = "recompiled"
    severity = "note"
    needs = ("compilations",)

    def check(self, case: Case) -> Iterator[Finding]:
        for function in compiled_functions(case.capture):
            for region in function.regions:
                if region.versions >= MIN_VERSIONS:
                    yield self._of_region(function, region)

    def _of_region(self, function: CompiledFunction, region: CompiledRegion) -> Finding:
        guards = [guard for guard in dict.fromkeys(region.failed_guards) if guard]
        why = f"; the last time because {guards[-1]} did not hold" if guards else ""
        given_up = ", and then Dynamo gave up: it runs uncompiled" if region.is_given_up else ""
        return self.finding(
            f"{function.name}() was compiled {counted(region.versions, 'time')}{given_up}{why}",
            why="what Dynamo takes for fixed, it compiles into the code, and checks before each call",
            fix=f"{_fix(guards, is_dynamic=region.is_dynamic)}; gradviz compiled lists why each version was needed",
            location=Location(function.file, region.line),
            evidence={"versions": region.versions, "guards": len(guards)},
        )


def _fix(guards: Sequence[str], *, is_dynamic: bool) -> str:
    if any("['lr']" in guard for guard in guards):
        return "make a learning rate that changes a tensor: lr=torch.tensor(0.001)"
    if guards and all("got deallocated" in guard for guard in guards):
        return "keep the object that it was compiled for: it is gone, and a new one is compiled for"
    for_sizes = "" if is_dynamic else "; for sizes, dynamic=True"
    return f"pass what changes as a tensor, or not at all{for_sizes}"
