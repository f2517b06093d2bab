"""GV905."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.compiled.compiled_functions import ExplainedBreak, compiled_functions
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule


class GraphBreak(Rule):
    """Compiled code ends at a line that Dynamo cannot trace, and begins again behind it.

    What it finds
    -------------
    Lines inside functions under ``torch.compile`` at which a compiled region ends before the function does: a branch on
    the value of a tensor, ``.item()``, printing, a call of code that is not Python. Also lines from which on nothing of
    the function is compiled, such as a recurrent layer.

    Why it matters
    --------------
    In every call the program goes back to Python there, and what comes before and behind is compiled and optimized
    apart. With ``fullgraph=True`` it is an error.

    Example
    -------
    @torch.compile(backend="eager")
    def scaled(x):
        if x.sum() > 0:
            x = 2 * x
        return x.sin()

    x = torch.ones(3, requires_grad=True)
    scaled(x).sum().backward()

    Instead
    -------
    @torch.compile(backend="eager")
    def scaled(x):
        x = torch.where(x.sum() > 0, 2 * x, x)
        return x.sin()

    x = torch.ones(3, requires_grad=True)
    scaled(x).sum().backward()
    """

    code = "GV905"
    name = "graph_break"
    severity = "note"
    needs = ("compilations",)

    def check(self, case: Case) -> Iterator[Finding]:
        for function in compiled_functions(case.capture):
            for broken in (each for each in function.breaks if not each.is_of_torch):
                what, why = f"torch.compile breaks the graph of {function.name}() here", _OF_BREAK
                if broken.leaves_rest and function.regions:
                    what, why = f"torch.compile leaves {function.name}() uncompiled from here on", _OF_REST
                elif broken.leaves_rest:
                    what, why = f"torch.compile leaves all of {function.name}() uncompiled", _OF_ALL
                yield self.finding(
                    f"{what}: {broken.explanation or broken.reason}",
                    why=why,
                    fix=_fix(broken),
                    location=Location(broken.file, broken.line),
                    evidence={"regions": function.region_count},
                )


_OF_BREAK = (
    "in every call the program goes back to Python at this line, and what comes before and behind is optimized apart"
)
_OF_REST = "in every call this line and the rest of the function run as without torch.compile"
_OF_ALL = "Dynamo cannot trace this line, and finds no line before it at which it could end a graph"


def _fix(broken: ExplainedBreak) -> str:
    if broken.is_forbidden:
        return (
            "move this call out of what is compiled; what is slow inside it, torch compiles as functions of their own "
            "either way, which gradviz compiled lists"
        )
    if broken.hints:
        return broken.hints[0]
    return "compute it with tensors alone, or move it out of what is compiled; gradviz compiled lists all breaks"
