"""GV727."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of, optimizer_words
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.parameters.creation_lines import line_apart
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.own_files import own_files, own_tree
from gradviz.analysis.rules.bases.sources.rates.own_schedules import outdated_schedules
from gradviz.analysis.sources.source_tree import called_name, last_line, last_name
from gradviz.graph.modules_and_schedules import NAMED_LIKE_A_SCHEDULE, Schedule


class ScheduleWithoutEffect(Rule):
    """A schedule of learning rates is never stepped, or belongs to an optimizer that never steps.

    What it finds
    -------------
    A schedule from ``torch.optim.lr_scheduler`` that does not move while its optimizer steps, in a program that ran to
    its end and has no line that steps it, or only one behind the loop of the training; and one whose optimizer never
    steps, or steps no more while the schedule goes on, while another optimizer trains the same parameters; also one
    that the program wrote itself, which sets ``lr`` in the groups of such an optimizer. A schedule beside another one
    of the same optimizer that moves is left alone: it may wait for its turn.

    Why it matters
    --------------
    The learning rate stays as it was when the schedule was made: for a warm-up, at a small part of what was meant; for
    a decay, at its highest value. Training still runs, only worse.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2)
    for step in range(6):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2)
    for step in range(6):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        schedule.step()
    """

    code = "GV727"
    name = "schedule_without_effect"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        log = case.dataflow.log
        has_ended = case.capture.outcome == "finished" and case.capture.error is None
        by_optimizer: dict[int, list[Schedule]] = defaultdict(list)
        for schedule in log.schedules:
            by_optimizer[schedule.optimizer].append(schedule)
        for number, schedules in by_optimizer.items():
            optimizer = log.optimizers[number]
            outlived = next((each for each in schedules if each.idle_moves >= _MIN_IDLE_MOVES), None)
            if outlived is not None:
                yield from self._of_idle_optimizer(case, number, outlived)
            elif not has_ended:
                continue
            elif optimizer.steps >= _MIN_STEPS:
                yield from self._never_stepped(case, number, schedules)
            elif not optimizer.steps:
                yield from self._of_idle_optimizer(case, number, schedules[0])
        yield from self._own_schedule(case)

    def _own_schedule(self, case: Case) -> Iterator[Finding]:
        """One that the program wrote, for an optimizer that never steps and that another one replaces."""
        optimizers = case.dataflow.log.optimizers
        held = [{tensor for group in each.groups for tensor in group} for each in optimizers]
        pairs = [
            (idle, other)
            for other, stepped in enumerate(optimizers)
            for idle, before in enumerate(optimizers[:other])
            if stepped.steps >= _MIN_STEPS
            and not stepped.rate_changes
            and not before.steps
            and held[idle] & held[other]
        ]
        for file, tree in own_files(case) if pairs else ():
            for each in outdated_schedules(tree):
                idle, other = pairs[-1]
                yield self.finding(
                    f"{each.schedule} at line {each.given} has the first optimizer of {each.variable}, which never "
                    f"steps: the new one has a learning rate of {optimizers[other].first_rate or 0:.3g} in "
                    f"all {optimizers[other].steps:,} steps",
                    symptom="grad_wrong",
                    why="a schedule changes the learning rate of the optimizer that it was made for",
                    fix=f"make {each.schedule} again for the new optimizer, here; or add parameters and options to the "
                    "first one",
                    location=Location(file, each.replaced),
                    symptom_location=Location(file, each.given),
                    tensors=names_of(case.dataflow, sorted(held[other] & held[idle])),
                    evidence={"steps": optimizers[other].steps},
                )

    def _never_stepped(self, case: Case, number: int, schedules: list[Schedule]) -> Iterator[Finding]:
        optimizer, first = case.dataflow.log.optimizers[number], schedules[0]
        steps = case.histories.steps_by_optimizer.get(number, [])
        may_be_late = all(each.is_stepped_in_source and (each.moves or 0) <= 1 for each in schedules)
        is_constant = bool(steps) and not optimizer.rate_changes
        behind = _line_behind_the_loop(case, steps[-1]) if may_be_late and is_constant else None
        if behind is not None:
            yield self._stepped_behind(case, number, first, behind)
            return
        may_move = any(each.has_moved or each.is_stepped_in_source or each.looks < _MIN_STEPS for each in schedules)
        if may_move or not is_constant or not _is_stepped_by_program(case, steps[-1]):
            return
        here, step = case.location_of_site(first.call_site), location_of_call(case.dataflow, steps[-1])
        yield self.finding(
            f"{first.class_name} of {optimizer_words(optimizer)} is never stepped: the learning rate is "
            f"{optimizer.first_rate or 0:.3g} in all {optimizer.steps:,} steps",
            symptom="grad_wrong",
            why="a schedule changes the learning rate only in its own step()",
            fix=f"call its step() after {optimizer_words(optimizer)}.step(){at_line(step)}: for each batch or each "
            "epoch, as its figures count",
            location=here,
            symptom_location=step,
            evidence={"steps": optimizer.steps},
        )

    def _stepped_behind(self, case: Case, number: int, schedule: Schedule, behind: Location) -> Finding:
        optimizer = case.dataflow.log.optimizers[number]
        return self.finding(
            f"{schedule.class_name} of {optimizer_words(optimizer)} is stepped once, behind the loop: the learning "
            f"rate is {optimizer.first_rate or 0:.3g} in all {optimizer.steps:,} steps",
            symptom="grad_wrong",
            why="a schedule changes the learning rate only in its own step()",
            fix="move this line into the loop: for each batch or each epoch, as its figures count",
            location=behind,
            symptom_location=case.location_of_site(schedule.call_site),
            evidence={"steps": optimizer.steps},
        )

    def _of_idle_optimizer(self, case: Case, number: int, schedule: Schedule) -> Iterator[Finding]:
        optimizers = case.dataflow.log.optimizers
        optimizer = optimizers[number]
        held = {tensor for group in optimizer.groups for tensor in group}
        others = [
            other
            for each, other in reversed(list(enumerate(optimizers)))
            if other is not optimizer and other.steps >= _MIN_STEPS and _replaces(case, each, number)
        ]
        if not others or schedule.looks < _MIN_STEPS:
            return
        idle = optimizer_words(optimizer)
        is_same = not held.isdisjoint(tensor for group in others[0].groups for tensor in group)
        stepped = optimizer_words(others[0]) if is_same else "the newer optimizer"
        made = case.location_of_site(schedule.call_site)
        replaced = _line_that_replaces(case, number, optimizers.index(others[0]))
        yield self.finding(
            f"{schedule.class_name} belongs to {idle}, which {'steps no more' if optimizer.steps else 'never steps'}: "
            f"{stepped} trains {'the same parameters' if is_same else 'what replaces its parameters'}, and its "
            "learning rate does not follow the schedule",
            symptom="grad_wrong",
            why="a schedule changes the learning rate of the optimizer that it was made for",
            fix=f"give {stepped} to the schedule"
            + (f", and make it again if {stepped} replaces {idle}" if not optimizer.names else ""),
            location=replaced or made,
            symptom_location=made if replaced not in (None, made) else None,
            tensors=names_of(case.dataflow, sorted(held)),
            evidence={"steps": others[0].steps},
        )


def _line_behind_the_loop(case: Case, step: int) -> Location | None:
    """The one line that steps something named like a schedule, if it comes behind the loop in which the optimizer
    steps, in the same function, and no loop is around it."""
    site = case.dataflow.line_of(step)
    tree = None if site is None else own_tree(case, site.file)
    stepping = None if site is None or tree is None else tree.statement_at(site.line)
    if site is None or tree is None or stepping is None:
        return None
    loops = list(tree.loops_around(stepping))
    found = [
        node
        for node in tree.nodes
        if isinstance(node, ast.Call)
        and called_name(node) == "step"
        and isinstance(node.func, ast.Attribute)
        and NAMED_LIKE_A_SCHEDULE.search(last_name(node.func.value))
    ]
    if len(found) != 1 or not loops or next(tree.loops_around(found[0]), None) is not None:
        return None
    is_behind = found[0].lineno > last_line(loops[-1]) and tree.scope(found[0]) is tree.scope(stepping)
    return Location(site.file, found[0].lineno) if is_behind else None


def _line_that_replaces(case: Case, number: int, newer: int) -> Location | None:
    """The line that made another optimizer in the training, when the first one had stepped."""
    flow, steps = case.dataflow, case.histories.steps_by_optimizer.get(number, [])
    made, before = (next(iter(case.histories.given_at(each)), None) for each in (newer, number))
    if made is None or before is None or not steps or made < steps[0]:
        return None
    return location_of_line(line_apart(flow, made, before))


_MIN_STEPS = 3
_MIN_IDLE_MOVES = 5
"""A program may step a schedule a few times more than its optimizer."""


def _replaces(case: Case, other: int, number: int) -> bool:
    """Whether an optimizer trains parameters of another one, or was made after it by the same line, for parameters that
    replace them."""
    histories = case.histories
    one, two = (
        {tensor for group in histories.log.optimizers[each].groups for tensor in group} for each in (other, number)
    )
    if not one.isdisjoint(two):
        return True
    made, before = (histories.given_at(each)[:1] for each in (other, number))
    if not made or not before or made[0] < before[0]:
        return False
    return location_of_call(case.dataflow, made[0]) == location_of_call(case.dataflow, before[0])


def _is_stepped_by_program(case: Case, step: int) -> bool:
    """Whether the program itself steps the optimizer, not a library, which may step the schedule when it likes."""
    site = case.dataflow.log.calls[step].call_site
    return site is not None and not case.dataflow.log.call_sites[site].is_library
