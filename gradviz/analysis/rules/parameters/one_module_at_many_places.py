"""GV728."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.graph.modules_and_schedules import RepeatedModule


class OneModuleAtManyPlaces(Rule):
    """A list of layers has the same layer several times.

    What it finds
    -------------
    A ``Sequential`` or ``ModuleList`` in which one module with parameters stands at several indexes: ``[block] * 6``.
    It is a warning where a line multiplies a list, or repeats one object in a comprehension, and else a note: recurrent
    networks share layers on purpose.

    Why it matters
    --------------
    Multiplying a list copies references, not modules. A network of six layers has the parameters of one, which get the
    sum of the gradients of all places.

    Example
    -------
    block = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    model = torch.nn.Sequential(*[block] * 3, torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()

    Instead
    -------
    blocks = [torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()) for _ in range(3)]
    model = torch.nn.Sequential(*blocks, torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()
    """

    code = "GV728"
    name = "one_module_at_many_places"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        told = set[Location | None]()
        for repeated in case.dataflow.log.repeated_modules:
            here = case.location_of_site(repeated.call_site)
            if here is not None and here not in told and not case.histories.reached.isdisjoint(repeated.tensors):
                told.add(here)
                yield self._finding(case, repeated, here)

    def _finding(self, case: Case, repeated: RepeatedModule, here: Location) -> Finding:
        line = _line_that_repeats(case, here)
        container = repeated.path or f"a {repeated.class_name}"
        return self.finding(
            f"{container} has one {repeated.repeated} {repeated.count:,} times: they share all their parameters",
            severity="note" if line is None else self.severity,
            symptom="grad_wrong",
            why="a list that is multiplied has several references to one object"
            if line is not None
            else "its parameters get the sum of the gradients of all these places",
            fix=("if they are not to be shared, " if line is None else "")
            + "make a module for each place: [make_block() for _ in range(n)], or copy.deepcopy(block)",
            location=line or here,
            symptom_location=here if line not in (None, here) else None,
            tensors=names_of(case.dataflow, repeated.tensors),
            evidence={"places": repeated.count, "modules": repeated.size},
        )


_LINES_ABOVE = 8
_LINES_BELOW = 6
_MULTIPLIES = re.compile(r"\]\s*\*\s*[\w(]|\b[\w.]+\s*\*\s*\[")
_REPEATS = re.compile(r"[\[(]\s*([A-Za-z_][\w.]*)\s+for\s+(\w+)\s+in\s+range\(")


def _line_that_repeats(case: Case, made: Location) -> Location | None:
    """The line near the one that makes the container that multiplies a list, or repeats one variable in a
    comprehension."""
    near = range(made.line, made.line + _LINES_BELOW), range(made.line - 1, max(made.line - _LINES_ABOVE, 0), -1)
    for line in (line for lines in near for line in lines):
        text = case.source_line(Location(made.file, line)) or ""
        code = text.partition("#")[0]
        repeats = _REPEATS.search(code)
        if _MULTIPLIES.search(code) or (repeats and repeats[1].partition(".")[0] != repeats[2]):
            return Location(made.file, line)
    return None
