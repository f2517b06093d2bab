"""GV728."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, callers, location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.one_object_repeated import (
    RepeatedObject,
    line_that_repeats,
    repeated_objects,
)
from gradviz.analysis.sources.source_tree import tree_of
from gradviz.graph.modules_and_schedules import RepeatedModule


class OneModuleAtManyPlaces(Rule):
    """A list or dict of layers has the same layer several times.

    What it finds
    -------------
    A ``Sequential``, ``ModuleList`` or ``ModuleDict`` in which one module with parameters stands at several places:
    ``[block] * 6``. It is a warning where a line multiplies a list, or repeats one object in a comprehension,
    ``dict.fromkeys()``, ``itertools.repeat()`` or a loop, also under several names of one module, and else a note:
    recurrent networks share layers on purpose. So it is where the name of the object, a comment or the docstring of the
    class says that it is shared, or where a condition decides between it and separate modules. Also a plain list,
    ``[Actor()] * n``, for whose places one line makes an optimizer each, which all step.

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
            if here is None or here in told or case.histories.reached.isdisjoint(repeated.tensors):
                continue
            place = _place_that_repeats(case, here, repeated.is_of_names)
            # Two names of one module are usual where no loop gives them: an output layer that is the input layer.
            if repeated.is_of_names and place is None:
                continue
            told.add(here)
            yield self._finding(case, repeated, here, place)
        for numbers, held in _optimizers_of_one(case):
            line = _line_that_multiplies(case, held)
            if line is not None and line not in told:
                told.add(line)
                yield self._of_optimizers(case, line, numbers, held)

    def _of_optimizers(self, case: Case, line: Location, numbers: list[int], held: frozenset[int]) -> Finding:
        """One module in a plain list, and an optimizer for each of its places."""
        flow = case.dataflow
        made = next((location_of_call(flow, row) for row in case.histories.given_at(numbers[-1])), None)
        return self.finding(
            f"one module stands at {len(numbers):,} places of a list: {len(numbers):,} optimizers{at_line(made)} hold "
            "the same parameters, and each of them steps",
            symptom="grad_wrong",
            why="that line repeats references to one object, and makes no copies of it: what is to learn apart is one",
            fix="make a module for each place: [make() for _ in range(n)], or copy.deepcopy(module)",
            location=line,
            symptom_location=made if made != line else None,
            tensors=names_of(flow, sorted(held)),
            evidence={"places": len(numbers)},
        )

    def _finding(self, case: Case, repeated: RepeatedModule, here: Location, place: RepeatedObject | None) -> Finding:
        line = None if place is None or place.is_meant else Location(here.file, place.line)
        container = repeated.path or f"a {repeated.class_name}"
        return self.finding(
            f"{container} has one {repeated.repeated} {repeated.count:,} times: they share all their parameters",
            severity="note" if line is None else self.severity,
            symptom="grad_wrong",
            why="that line repeats references to one object, and makes no copies of it"
            if line is not None
            else "its parameters get the sum of the gradients of all these places",
            fix=("if they are not to be shared, " if line is None else "")
            + "make a module for each place: [make_block() for _ in range(n)], or copy.deepcopy(block)",
            location=line or here,
            symptom_location=here if line not in (None, here) else None,
            tensors=names_of(case.dataflow, repeated.tensors),
            evidence={"places": repeated.count, "modules": repeated.size},
        )


def _optimizers_of_one(case: Case) -> Iterator[tuple[list[int], frozenset[int]]]:
    """Optimizers of the same parameters that one line made before any of them stepped, and that all step."""
    histories = case.histories
    alike: dict[tuple[Location, frozenset[int]], list[int]] = defaultdict(list)
    for number, optimizer in enumerate(histories.log.optimizers):
        given = histories.given_at(number)
        here = location_of_call(case.dataflow, given[0]) if given else None
        held = frozenset(tensor for group in optimizer.groups for tensor in group)
        if here is not None and held and optimizer.steps:
            alike[here, held].append(number)
    for (_, held), numbers in alike.items():
        steps = [row for number in numbers for row in histories.steps_by_optimizer.get(number, ())]
        is_at_once = steps and max(histories.given_at(number)[0] for number in numbers) < min(steps)
        if len(numbers) > 1 and is_at_once:
            yield numbers, held


def _line_that_multiplies(case: Case, held: frozenset[int]) -> Location | None:
    """The line that made the module which these tensors belong to, if it puts this one object at several places."""
    row = case.histories.made_by(min(held))
    for line in () if row is None else callers(case.dataflow, row):
        lines = case.capture.sources.get(line.file, {})
        for place in repeated_objects(tree_of(lines)) if lines else ():
            if place.line <= line.line <= place.last_line and not place.is_meant:
                return Location(line.file, place.line)
    return None


def _place_that_repeats(case: Case, made: Location, by_name: bool) -> RepeatedObject | None:
    """The expression or loop of the same file that puts one object at several places."""
    lines = case.capture.sources.get(made.file, {})
    return line_that_repeats(tree_of(lines), made.line, by_name=by_name) if lines else None
