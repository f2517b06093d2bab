"""GV881."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.tensor_words import optimizer_words
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.rules.bases.sources.rates.numbers_of_batches import what_it_is_made_of
from gradviz.analysis.rules.bases.sources.rates.schedule_lines import line_that_steps_this
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import SourceTree, called_name, last_line
from gradviz.graph.modules_and_schedules import Schedule


class ScheduleCountsEpochs(Rule):
    """A schedule of learning rates, whose figures count epochs, is stepped for each batch, so that it is over at once.

    What it finds
    -------------
    ``MultiStepLR``, ``StepLR``, ``ExponentialLR`` and ``LinearLR`` that are stepped with their optimizer, in a loop
    over batches in a loop over epochs: where all milestones lie in the first fifth of the steps, a falling line ends
    there, or the rate is less than a hundredth of the first one at half of the steps.

    Why it matters
    --------------
    The rate has fallen before the first epochs are over. For the rest, the model hardly learns, and the loss looks as
    if it had come to its end.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2, 4], gamma=0.1)
    for epoch in range(5):
        for batch in torch.randn(40, 4).split(8):
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2, 4], gamma=0.1)
    for epoch in range(5):
        for batch in torch.randn(40, 4).split(8):
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    """

    code = "GV881"
    name = "schedule_counts_epochs"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for schedule in case.dataflow.log.schedules:
            end = _early_end(schedule) if _is_of_each_batch(schedule) else None
            made = case.location_of_site(schedule.call_site)
            stepped = line_that_steps_this(case, made)
            if end is None or stepped is None or not _is_in_epochs(case, stepped):
                continue
            if not _is_computed_in_batches(case, made, schedule.class_name):
                yield self._finding(case, schedule, end, stepped, made)

    def _finding(self, case: Case, schedule: Schedule, end: int, stepped: Location, made: Location | None) -> Finding:
        optimizer = case.dataflow.log.optimizers[schedule.optimizer]
        last = next(iter(optimizer.learning_rates), None)
        rates = [rate for rate in (schedule.first_rate, last) if rate is not None]
        fell = f" from {rates[0]:.3g} to {rates[1]:.3g}" if len(rates) > 1 else ""
        return self.finding(
            f"{schedule.class_name} of {optimizer_words(optimizer)} is stepped at each of {schedule.optimizer_steps:,} "
            f"batches: the learning rate has fallen{fell}, most of it in the first {end:,}",
            symptom="grad_wrong",
            why="its figures count epochs, and it is stepped once for each batch",
            fix="step the schedule once in each epoch, behind the loop over batches, or let its figures count batches",
            location=stepped,
            symptom_location=made if made != stepped else None,
            evidence={"moves": schedule.moves, "steps": schedule.optimizer_steps, "end": end},
        )


_MIN_STEPS = 20
_EARLY = 0.2
_NOTHING_LEFT = 0.01
_MUCH_LOWER = 0.2
_MULTIPLY_AGAIN = ("StepLR", "ExponentialLR")


def _is_of_each_batch(schedule: Schedule) -> bool:
    moves, steps = schedule.moves, schedule.optimizer_steps
    return moves is not None and steps >= _MIN_STEPS and abs(moves - steps) <= 1


def _early_end(schedule: Schedule) -> int | None:
    """The step until which a schedule has lowered the rate, if most of the training follows."""
    steps, gamma = schedule.optimizer_steps, schedule.gamma
    if schedule.class_name == "LinearLR":
        length, first, last = schedule.length, schedule.first_factor, schedule.last_factor
        is_lower = first is not None and last is not None and 0 <= last <= _MUCH_LOWER * first
        return length if is_lower and length is not None and length <= _EARLY * steps else None
    if not schedule.milestones or gamma is None or not 0 < gamma < 1:
        return None
    if schedule.class_name == "MultiStepLR":
        last_milestone = schedule.milestones[-1]
        is_much_lower = gamma ** len(schedule.milestones) <= _MUCH_LOWER
        return last_milestone if is_much_lower and last_milestone <= _EARLY * steps else None
    left = gamma ** (steps // 2 // schedule.milestones[0])
    return steps // 2 if schedule.class_name in _MULTIPLY_AGAIN and left < _NOTHING_LEFT else None


def _is_in_epochs(case: Case, stepped: Location) -> bool:
    """Whether a line stands in two loops, or in one loop of a function that a loop calls."""
    trees = dict(own_files(case))
    tree = trees.get(stepped.file)
    node = None if tree is None else _step_at(tree, stepped.line)
    if tree is None or node is None:
        return False
    loops = list(tree.loops_around(node))
    function = next((each for each in tree.around(node) if isinstance(each, FUNCTIONS)), None)
    name = getattr(function, "name", None)
    return len(loops) > 1 or (bool(loops) and any(_calls_in_a_loop(each, name) for each in trees.values()))


def _step_at(tree: SourceTree, line: int) -> ast.Call | None:
    calls = (node for node in tree.nodes if isinstance(node, ast.Call) and node.lineno == line)
    return next((call for call in calls if called_name(call) == "step"), None)


def _is_computed_in_batches(case: Case, made: Location | None, class_name: str) -> bool:
    """Whether the figures of a schedule are computed from a number of batches, such as ``2 * len(loader)`` or
    ``epochs * (count // size)``: then it is meant to be over early."""
    tree = None if made is None else dict(own_files(case)).get(made.file)
    if tree is None or made is None:
        return False
    calls = [node for node in tree.nodes if isinstance(node, ast.Call) and called_name(node) == class_name]
    here = [call for call in calls if call.lineno <= made.line <= last_line(call)]
    given = [each.value for call in here for each in call.keywords if each.arg != "optimizer"]
    figures = [*given, *(value for call in here for value in call.args[1:])]
    parts = (part for figure in figures for part in what_it_is_made_of(tree, figure))
    return any(_is_of_batches(node) for part in parts for node in ast.walk(part))


def _is_of_batches(node: ast.AST) -> bool:
    """A length, or a quotient of two numbers of the same kind; ``epochs // 2`` is none."""
    if isinstance(node, ast.Call):
        return called_name(node) in ("len", "ceil")
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.FloorDiv):
        return False
    return isinstance(node.left, ast.Constant) is isinstance(node.right, ast.Constant)


def _calls_in_a_loop(tree: SourceTree, name: str | None) -> bool:
    calls = (node for node in tree.nodes if isinstance(node, ast.Call) and called_name(node) == name)
    return any(next(tree.loops_around(call), None) is not None for call in calls)
