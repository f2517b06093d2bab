"""GV732."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule


class UnitsStayAlike(Rule):
    """All units of a layer began with the same weights, and still have the same after training.

    What it finds
    -------------
    Matrices and filters that were trained, and all of whose rows, or columns, are equal at the end: each unit of the
    layer computes the same number as the others.

    Why it matters
    --------------
    Units with equal weights get equal gradients, so they stay equal at all steps. A layer of 64 such units can learn
    what a layer of one unit can, and nothing raises: the loss goes down for a while.

    Example
    -------
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, 0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    """

    code = "GV732"
    name = "units_stay_alike"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        by_line: dict[Location | None, list[int]] = defaultdict(list)
        for number in sorted(case.histories.trained):
            is_alike = case.dataflow.log.tensors[number].has_equal_units
            if is_alike and _has_units(shape_of(case.dataflow, number)) and case.histories.is_ever_stepped_live(number):
                by_line[_line_of_values(case, number)].append(number)
        for location, numbers in by_line.items():
            yield self._finding(case, location, numbers)

    def _finding(self, case: Case, location: Location | None, numbers: list[int]) -> Finding:
        one = len(numbers) == 1
        rows = shape_of(case.dataflow, numbers[0])[0]
        of = f"the {rows:,} units" if one else "the units of each"
        return self.finding(
            f"{case.histories.together(numbers)} {'has' if one else 'have'} the same weights for all units, also after "
            f"training: {of} compute one and the same number",
            symptom="grad_wrong",
            why="units that begin with equal weights get equal gradients, so no step makes them differ",
            fix="begin with random weights: leave torch's own initialization, or use nn.init.normal_() or "
            "nn.init.xavier_uniform_(); zeros and constants are for biases",
            location=location,
            tensors=names_of(case.dataflow, numbers),
            evidence={"units": rows, "parameters": len(numbers)},
        )


def _has_units(shape: tuple[int, ...]) -> bool:
    """Whether a parameter has several rows of weights: a factor for each channel, of shape ``(channels, 1, 1)``, has
    none."""
    return shape[0] > 1 and (len(shape) == _TABLE or prod(shape[1:]) > 1)


_TABLE = 2


def _line_of_values(case: Case, number: int) -> Location | None:
    """The line that gave the parameter its first values."""
    flow, histories = case.dataflow, case.histories
    filled = flow.changes(number, -1, histories.steps[0])
    if filled:
        return location_of_call(flow, filled[-1])
    return location_of_line(histories.line_where_made(number))
