"""GV706."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.gradients.read_gradients import left_out_beside_others
from gradviz.analysis.parameters.parameter_histories import GIVES_A_GRADIENT, HandedOnGradients, ParameterHistories
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.chosen_parameters import place_that_chooses
from gradviz.analysis.rules.bases.sources.own_files import own_tree
from gradviz.analysis.sources.source_tree import called_name, is_read

_MIN_BACKWARD_CALLS = 2
"""One backward without a step may be a look at the gradients."""


class NotStepped(Rule):
    """Parameters get gradients, but nothing ever changes them.

    What it finds
    -------------
    An optimizer whose parameters get gradients and whose ``step()`` is never called; and parameters of a module that
    get gradients and are in no optimizer, while other parameters are trained.

    Why it matters
    --------------
    Nothing raises, and the loss may even fall, because the other parameters adapt. The parameters keep their first
    values, so the model is worse than it could be.

    Example
    -------
    encoder, head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        head(torch.relu(encoder(torch.randn(5, 4)))).square().mean().backward()
        optimizer.step()

    Instead
    -------
    encoder, head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        head(torch.relu(encoder(torch.randn(5, 4)))).square().mean().backward()
        optimizer.step()
    """

    code = "GV706"
    name = "not_stepped"
    severity = "warning"
    yields_to = ("stale_optimizer_params", "not_registered", "broken_weight_tie", "wrong_optimizer",
                 "gradient_into_target", "copy_used_instead")  # fmt: skip

    def check(self, case: Case) -> Iterator[Finding]:
        histories = case.histories
        if case.capture.error is not None:
            return
        yield from self._idle_optimizers(histories)
        yield from self._forgotten(case)
        yield from self._in_no_optimizer(case, histories)

    def _idle_optimizers(self, histories: ParameterHistories) -> Iterator[Finding]:
        log, flow = histories.log, histories.flow
        stepped = {log.calls[row].optimizer for row in histories.steps}
        handed_on = HandedOnGradients(log)
        for number, optimizer in enumerate(log.optimizers):
            held = [tensor for group in optimizer.groups for tensor in group]
            reaching = [row for row, leaves in histories.reached_by.items() if not leaves.isdisjoint(held)]
            first = next(iter(reaching), None)
            if number in stepped or first is None or len(reaching) < _MIN_BACKWARD_CALLS:
                continue
            held = [
                tensor
                for tensor in held
                if any(tensor in histories.reached_by[row] for row in reaching)
                and not flow.changes(tensor, first, len(log.calls))
                and not handed_on.is_of(tensor)
            ]
            if not held:
                continue
            name = optimizer.names[0] if optimizer.names else f"this {optimizer.class_name}"
            given = histories.given_at(number)
            yield self.finding(
                f"{name}.step() is never called: {histories.together(held)} got gradients from "
                f"{len(reaching):,} backward calls and never changed",
                severity="error",
                symptom="grad_wrong",
                why="backward() only computes gradients; the step of the optimizer changes the parameters",
                fix=f"call {name}.step() after this backward",
                location=location_of_call(flow, _where_to_step(histories, number, reaching)),
                symptom_location=location_of_call(flow, given[0]) if given else None,
                tensors=names_of(flow, held),
                evidence={"backward_calls": len(reaching), "parameters": len(held)},
            )

    def _forgotten(self, case: Case) -> Iterator[Finding]:
        """Optimizers of what others train, which the function that makes them does not step."""
        histories = case.histories
        log, stepped = histories.log, {histories.log.calls[row].optimizer for row in histories.steps}
        for number, optimizer in enumerate(log.optimizers):
            given = histories.given_at(number)
            made = location_of_call(histories.flow, given[0]) if given and stepped and number not in stepped else None
            held = histories.held_by(number)
            are_stepped = bool(held) and all(not stepped.isdisjoint(histories.optimizers_of(each)) for each in held)
            if made is not None and are_stepped and _is_never_asked_to_step(case, made):
                yield self.finding(
                    f"this {optimizer.class_name} is made, and nothing calls its step()",
                    symptom="grad_wrong",
                    why="what it was to do with the gradients does not happen: only the steps of another optimizer "
                    "change these parameters",
                    fix="call its step() in the loop behind it, or leave it out",
                    location=made,
                    tensors=names_of(histories.flow, sorted(held)),
                )

    def _in_no_optimizer(self, case: Case, histories: ParameterHistories) -> Iterator[Finding]:
        log = histories.log
        accumulating: dict[int, int] = defaultdict(int)
        for row, leaves in histories.reached_by.items():
            if not log.calls[row].function.endswith(".backward"):
                continue
            # What is asked for by inputs= may only be looked at, unless a step was meant to use it.
            if not log.calls[row].asked or _is_step_vain(histories, row, leaves):
                for leaf in leaves:
                    accumulating[leaf] += 1
        plain = left_out_beside_others(histories)
        left_out = [
            number
            for number in histories.untrained
            if (histories.tensor(number).role == "parameter" or number in plain)
            and accumulating[number] >= _MIN_BACKWARD_CALLS
            and _is_still_trainable(histories, number, accumulating[number])
        ]
        made = [row for number in range(len(log.optimizers)) for row in histories.given_at(number)[:1]]
        if not left_out or not histories.steps or not made:
            return
        them, verb = ("it", "is") if len(left_out) == 1 else ("them", "are")
        given = _nearest(histories, left_out, made)
        here = location_of_call(histories.flow, given)
        choice = place_that_chooses(case, here) if _is_of_one_model(histories, left_out, given) else None
        choice = None if choice is not None and _is_any_list_unread(case, choice) else choice
        yield self.finding(
            f"{histories.together(left_out)} {verb} in no optimizer: they get gradients and never change"
            if len(left_out) > 1
            else f"{histories.together(left_out)} is in no optimizer: it gets gradients and never changes",
            symptom="grad_wrong",
            why="an optimizer changes only what it was given, and nothing clears the gradients of the others",
            fix=f"give {them} to the optimizer, or freeze {them} with requires_grad_(False) if that is meant",
            location=choice or here,
            symptom_location=here if choice not in (None, here) else None,
            tensors=names_of(histories.flow, left_out),
            evidence={"parameters": len(left_out), "backward_calls": max(accumulating[n] for n in left_out)},
        )


def _is_never_asked_to_step(case: Case, made: Location) -> bool:
    """Whether a line gives an optimizer to a variable of which its function only uses ``zero_grad()`` afterwards."""
    tree = own_tree(case, made.file)
    statement = None if tree is None else tree.statement_at(made.line)
    if tree is None or not isinstance(statement, ast.Assign) or next(tree.loops_around(statement), None) is not None:
        return False
    target, scope = statement.targets[0], tree.scope(statement)
    if not isinstance(target, ast.Name) or scope is tree.module:
        return False
    reads = (each for each in ast.walk(scope) if isinstance(each, ast.Name) and each.id == target.id and is_read(each))
    used = (tree.parent(each) for each in reads if each.lineno > statement.lineno)
    return all(isinstance(each, ast.Attribute) and each.attr == "zero_grad" for each in used)


def _is_still_trainable(histories: ParameterHistories, number: int, backward_calls: int) -> bool:
    """Whether it requires grad when the program ends; of one that was freed before, with the function that trained it,
    whether it was part of the whole training, and not of a copy for a moment.

    What FSDP gathers for a moment has no name of a module.
    """
    tensor = histories.tensor(number)
    if tensor.end is not None or not histories.requires_grad_at_last(number):
        return histories.requires_grad_at_last(number)
    was_frozen = any(flag for _, flag in histories.flag_changes(number))
    return bool(tensor.names) and (
        was_frozen or 2 * backward_calls >= len(histories.steps) or _is_reached_throughout(histories, number)
    )


def _is_reached_throughout(histories: ParameterHistories, number: int) -> bool:
    """Whether backward calls reach it among the first steps of the training and among the last ones.

    Where another network steps several times in between, these calls are fewer than the steps.
    """
    steps = histories.steps
    quarter = len(steps) // 4
    return (
        quarter > 0
        and histories.first_reach[number] < steps[quarter]
        and histories.last_reach[number] > steps[-1 - quarter]
    )


def _is_any_list_unread(case: Case, choice: Location) -> bool:
    """Whether the function that chooses parameters makes another list of them and reads it nowhere."""
    tree = own_tree(case, choice.file)
    statement = None if tree is None else tree.statement_at(choice.line)
    if tree is None or statement is None:
        return False
    scope = tree.scope(statement)
    read = {each.id for each in ast.walk(scope) if isinstance(each, ast.Name) and is_read(each)}
    for each in ast.walk(scope):
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.ListComp):
            unread = [to for to in each.targets if isinstance(to, ast.Name) and to.id not in read]
            if unread and called_name(each.value.generators[0].iter) in _LISTS:
                return True
    return False


_LISTS = frozenset({"parameters", "named_parameters"})


def _is_of_one_model(histories: ParameterHistories, left_out: list[int], given: int) -> bool:
    """Whether the optimizer was given other parameters of the model that these belong to."""
    held = (histories.name(use.tensor) for use in histories.log.calls[given].inputs)
    return not {name.partition(".")[0] for name in held}.isdisjoint(
        histories.name(number).partition(".")[0] for number in left_out
    )


def _nearest(histories: ParameterHistories, left_out: list[int], made: list[int]) -> int:
    """The call that made the optimizer to which these belong: it steps after the backward calls that reach them.

    Most of all if it holds nothing that such a backward reaches: then it was given other parameters by mistake.
    """
    calls = histories.log.calls
    votes: dict[int | None, int] = defaultdict(int)
    for row, leaves in histories.reached_by.items():
        step = _step_after(histories, row)
        if step is not None and not leaves.isdisjoint(left_out):
            votes[calls[step].optimizer] += _VAIN_STEP if _is_step_vain(histories, row, leaves) else 1
    return max(made, key=lambda row: votes[calls[row].optimizer])


def _step_after(histories: ParameterHistories, row: int) -> int | None:
    place = bisect_right(histories.steps, row)
    return histories.steps[place] if place < len(histories.steps) else None


def _is_step_vain(histories: ParameterHistories, row: int, leaves: Collection[int]) -> bool:
    """Whether the step that follows a backward has none of the gradients that it computed."""
    step = _step_after(histories, row)
    return step is not None and {*leaves}.isdisjoint(use.tensor for use in histories.log.calls[step].inputs)


_VAIN_STEP = 100
"""How much a step that had none of the gradients before it counts."""


def _where_to_step(histories: ParameterHistories, optimizer: int, reaching: list[int]) -> int:
    """The call that clears the gradients after a backward, if it stands below it: the step belongs before it.

    Else the last assignment to their ``.grad`` behind it, or the last backward itself.
    """
    flow, calls = histories.flow, histories.log.calls
    held = histories.held_by(optimizer)
    given = (row for row in flow.rows_of_function(GIVES_A_GRADIENT) if row > reaching[-1])
    assigned = [row for row in given if any(use.tensor in held for use in calls[row].inputs)]
    last = location_of_call(flow, reaching[-1])
    for row in flow.rows_of_kind("zero_grad"):
        here = location_of_call(flow, row)
        is_below = last is not None and here is not None and here.file == last.file and here.line > last.line
        if calls[row].optimizer == optimizer and row > reaching[0] and is_below:
            return row
    return (assigned or reaching)[-1]
