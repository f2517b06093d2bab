"""GV711."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, line_in_function_of, location_of_call
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.gradients.fresh_averages import ZEROS, FreshAverages, fresh_averages
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.lines.lines_of_stages import is_made_for_each_thing
from gradviz.analysis.sources.parsed_lines import function_around
from gradviz.analysis.sources.source_tree import COMPREHENSIONS, called_name, last_line, tree_of
from gradviz.graph.model import CallSite
from gradviz.graph.modules_and_schedules import Schedule

_MIN_TIMES = 3
"""Twice may be stages of a training."""
_STEPS_OF_A_STAGE = 3
"""With fewer, it may be made for each batch."""


class OptimizerMadeAnew(Rule):
    """An optimizer that needs its past is made anew again and again.

    What it finds
    -------------
    A line that makes an optimizer for the same parameters again and again, where each of them keeps momentum or
    running averages. It is left alone where something else than a step changes the parameters, as when each task of
    a meta-learner or each round of federated averaging begins with the same values. Twice is only a note: these may
    be stages of a training. So it is where a loop goes through things, not epochs, and each optimizer makes several
    steps for one of them, as for the tasks of continual learning; where no loop makes them, but one line after the
    other; and where each has a schedule that comes to its end. Also momentum that the program computes itself, and that
    begins with zeros at every step.

    Why it matters
    --------------
    Momentum and the averages of Adam are kept by the optimizer. A new one starts without them: Adam's first step
    moves every parameter by the whole learning rate, whatever the size of its gradient, and momentum never builds up.
    Schedules of the old one no longer have an effect.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    for step in range(4):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(4):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()
    """

    code = "GV711"
    name = "optimizer_made_anew"
    severity = "warning"
    yields_to = ("state_stays_zero", "one_module_at_many_places", "folds_share_a_model")
    comes_later = True

    def check(self, case: Case) -> Iterator[Finding]:
        by_line: dict[tuple[Location, frozenset[int]], list[int]] = defaultdict(list)
        histories = case.histories
        for number, optimizer in enumerate(histories.log.optimizers):
            given = histories.given_at(number)
            location = location_of_call(histories.flow, given[0]) if given else None
            held = frozenset(tensor for group in optimizer.groups for tensor in group)
            if location is not None and optimizer.keeps_state and held:
                by_line[location, held].append(number)
        for (location, held), numbers in by_line.items():
            steps = sorted(row for number in numbers for row in histories.steps_by_optimizer.get(number, ()))
            if len(numbers) > 1 and len(steps) >= len(numbers) and not _is_set_otherwise(case, held, steps):
                yield self._finding(case, location, held, numbers, steps)
        for averages in fresh_averages(histories):
            emptied = _emptied_at(case, averages)
            if emptied is not None or _are_kept(case, averages):
                yield self._by_hand(case, averages, emptied)

    def _by_hand(self, case: Case, averages: FreshAverages, emptied: Location | None) -> Finding:
        flow = case.dataflow
        changed = location_of_call(flow, averages.change)
        return self.finding(
            f"the averages of gradients that change {case.histories.together(averages.parameters)}{at_line(changed)} "
            f"begin with zeros at each of {averages.steps:,} steps",
            symptom="grad_wrong",
            why="an average that is made anew for one step is that step's gradient alone: there is no momentum",
            fix="make what holds the averages once, before the loop, and keep it",
            location=emptied or location_of_line(line_in_function_of(flow, averages.zeros, averages.change)),
            symptom_location=changed,
            tensors=names_of(flow, averages.parameters),
            evidence={"steps": averages.steps},
        )

    def _finding(
        self, case: Case, location: Location, held: frozenset[int], numbers: list[int], steps: list[int]
    ) -> Finding:
        histories = case.histories
        optimizer = histories.log.optimizers[numbers[0]]
        each = "one step" if len(steps) == len(numbers) else f"about {len(steps) / len(numbers):.0f} steps"
        may_be_stages = len(numbers) < _MIN_TIMES or _are_stages(case, min(held), numbers, steps)
        return self.finding(
            f"an optimizer ({optimizer.class_name}) of {histories.together(sorted(held))} is made "
            f"{len(numbers):,} times, and each makes {each}",
            severity="note" if may_be_stages else "warning",
            symptom="grad_wrong",
            why="a new optimizer has no momentum and no running averages: what the last one had learned is lost",
            fix="make it once, before the loop",
            location=location,
            symptom_location=location_of_call(histories.flow, steps[0]),
            tensors=names_of(histories.flow, sorted(held)),
            evidence={"optimizers": len(numbers), "steps": len(steps)},
        )


def _are_stages(case: Case, parameter: int, numbers: list[int], steps: list[int]) -> bool:
    """Whether each of several optimizers may be meant for a training of its own."""
    if len(steps) < len(numbers) * _STEPS_OF_A_STAGE:
        return False
    histories = case.histories
    ended = {each.optimizer for each in histories.log.schedules if _has_ended(each)}
    if ended.issuperset(numbers):
        return True
    return all(is_made_for_each_thing(case, histories.given_at(number)[0], parameter) for number in numbers)


def _has_ended(schedule: Schedule) -> bool:
    """Whether it was stepped as often as it was made for; the last step of one that is gone was not seen."""
    length, moves = schedule.length, schedule.moves
    return length is not None and moves is not None and length > _STEPS_OF_A_STAGE and moves + 2 > length


def _are_kept(case: Case, averages: FreshAverages) -> bool:
    """Whether zeros are put into a list or dict, or made by another function than changes the parameters with them.

    A single zero where a sum begins is no state of an optimizer.
    """
    made, used = (case.dataflow.line_of(row) for row in (averages.zeros, averages.change))
    return made is None or used is None or made.function != used.function or _are_listed(case, made, used)


def _are_listed(case: Case, made: CallSite, used: CallSite) -> bool:
    """Whether a comprehension makes the zeros of a line, and is over before they are used: since Python 3.12 it has no
    function of its own."""
    lines = case.capture.sources.get(made.file, {})
    return bool(lines) and any(
        isinstance(node, COMPREHENSIONS)
        and any(called_name(each) in ZEROS and _is_part(each, made) for each in ast.walk(node))
        and not _is_part(node, used)
        for node in tree_of(lines).nodes
    )


def _is_part(node: ast.AST, line: CallSite) -> bool:
    """Whether a line is one of those of an expression."""
    return isinstance(node, ast.expr) and node.lineno <= line.line <= last_line(node)


def _emptied_at(case: Case, averages: FreshAverages) -> Location | None:
    """The line that makes the empty dict into which zeros are put, if the same function makes it at each step."""
    put = location_of_call(case.dataflow, averages.zeros)
    lines = {} if put is None else case.capture.sources.get(put.file, {})
    if put is None or not lines:
        return None
    tree = tree_of(lines)
    into = {
        tree.key_of(target.value)
        for target, value in tree.assignments
        if isinstance(target, ast.Subscript) and value.lineno <= put.line <= (value.end_lineno or value.lineno)
    }
    made = [
        value.lineno
        for target, value in tree.assignments
        if isinstance(target, ast.Name) and tree.key_of(target) in into - {None} and _is_empty(value)
    ]
    before = [line for line in made if line <= put.line]
    function = function_around(lines, put.line)
    return Location(put.file, before[-1]) if before and function is not None and before[-1] in function else None


def _is_empty(value: ast.expr) -> bool:
    is_call = isinstance(value, ast.Call) and not value.args and called_name(value) == "dict"
    return is_call or (isinstance(value, ast.Dict) and not value.keys)


def _is_set_otherwise(case: Case, held: frozenset[int], steps: list[int]) -> bool:
    """Whether anything else than a step changes one of the parameters between the first step and the last, or gives it
    other values: in federated averaging each round begins with those of the server."""
    flow = case.dataflow
    rows = (row for number in held for row in flow.changes(number, steps[0], steps[-1]))
    if any(flow.log.calls[row].kind != "step" and flow.log.calls[row].inside is None for row in rows):
        return True
    return any(
        steps[0] < row < steps[-1] and not _is_made_of_itself(flow, row, steps[bisect_left(steps, row) - 1])
        for number in held
        for row in flow.data_replacements(number)
    )


def _is_made_of_itself(flow: Dataflow, row: int, since: int) -> bool:
    """Whether a parameter is assigned what was computed from its own values after a step: ``p.data =
    p.data.clamp(-1, 1)``."""
    parameter, given = (flow.log.calls[row].inputs[place].tensor for place in (0, -1))
    own = flow.sharing_memory(parameter)
    for made, call in flow.makers(given, row, _MAX_MAKERS):
        if made < since:
            return False
        # view_as() and its like take the shape of their second input only.
        taken = call.inputs[:1] if call.function.endswith("_as") else call.inputs
        if any(use.tensor == parameter or use.tensor in own for use in taken):
            return True
    return False


_MAX_MAKERS = 10
