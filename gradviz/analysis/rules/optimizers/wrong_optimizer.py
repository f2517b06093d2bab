"""GV708."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.parameters.parameter_histories import HandedOnGradients, ParameterHistories
from gradviz.analysis.rule import Rule


class WrongOptimizer(Rule):
    """After the backward of one model, the optimizer of another one steps.

    What it finds
    -------------
    An optimizer that never steps, although a backward brings gradients to its parameters, and another one that steps
    right after that backward: after gradients of the first one were cleared for it, or without a gradient of its own.
    Also two that step, each behind the backward of the other one's model, so that their own gradients are gone.

    Why it matters
    --------------
    Nothing raises at first. One model never changes; the other one takes its steps with gradients that were not
    computed for it, and may change tensors that a later backward needs.

    Example
    -------
    generator, critic = torch.nn.Linear(4, 2), torch.nn.Linear(2, 1)
    for_generator = torch.optim.SGD(generator.parameters(), lr=0.01)
    for_critic = torch.optim.SGD(critic.parameters(), lr=0.01)
    for step in range(3):
        for_critic.zero_grad()
        fake = generator(torch.randn(8, 4))
        (critic(fake.detach()).mean() - critic(torch.randn(8, 2)).mean()).backward()
        for_critic.step()
        for_generator.zero_grad()
        (-critic(generator(torch.randn(8, 4))).mean()).backward()
        for_critic.step()

    Instead
    -------
    generator, critic = torch.nn.Linear(4, 2), torch.nn.Linear(2, 1)
    for_generator = torch.optim.SGD(generator.parameters(), lr=0.01)
    for_critic = torch.optim.SGD(critic.parameters(), lr=0.01)
    for step in range(3):
        for_critic.zero_grad()
        fake = generator(torch.randn(8, 4))
        (critic(fake.detach()).mean() - critic(torch.randn(8, 2)).mean()).backward()
        for_critic.step()
        for_generator.zero_grad()
        (-critic(generator(torch.randn(8, 4))).mean()).backward()
        for_generator.step()
    """

    code = "GV708"
    name = "wrong_optimizer"
    severity = "error"

    def check(self, case: Case) -> Iterator[Finding]:
        histories = case.histories
        log, flow = histories.log, histories.flow
        stepped = {log.calls[row].optimizer for row in histories.steps}
        handed_on = HandedOnGradients(log)
        # A closure computes the gradients of its step anew, whatever was there before.
        with_closure = {log.calls[row].inside for row in histories.backward_calls}
        for number, optimizer in enumerate(log.optimizers):
            held = {tensor for group in optimizer.groups for tensor in group}
            first = next((row for row, leaves in histories.reached_by.items() if not leaves.isdisjoint(held)), None)
            if number in stepped or first is None:
                continue
            if any(flow.changes(each, first, len(log.calls)) or handed_on.is_of(each) for each in held):
                continue
            steps = [
                row for row in histories.steps if row not in with_closure and _steps_for(histories, row, number, held)
            ]
            if steps:
                yield self._finding(case, number, held, steps)
        yield from self._swapped(case)

    def _swapped(self, case: Case) -> Iterator[Finding]:
        """Optimizers that only step behind the backward of others, so that nothing is left for them: one finding for
        each line that makes them."""
        histories = case.histories
        log, flow = histories.log, histories.flow
        places: dict[tuple[Location | None, Location | None], list[int]] = defaultdict(list)
        for number, steps in histories.steps_by_optimizer.items():
            if number is not None and len(steps) >= _MIN_STEPS and _steps_for_others(histories, number, steps):
                made = location_of_call(flow, histories.given_at(number)[0]) if histories.given_at(number) else None
                places[made, location_of_call(flow, steps[0])].append(number)
        for (made, step), numbers in places.items():
            first = numbers[0]
            held = sorted(tensor for number in numbers for tensor in histories.held_by(number))
            # One line that steps all of them is right: which optimizer belongs to which model is said elsewhere.
            is_loop = len({log.calls[row].optimizer for row in histories.steps if _is_at(flow, row, step)}) > 1
            is_turned = is_loop and bool(_TURNED.search(case.source_line(made) or ""))
            yield self.finding(
                f"{_name(case, first)}.step() follows backward calls whose gradients are for others: "
                f"{histories.together(held)} never changed",
                symptom="grad_wrong",
                why="each optimizer changes only its own parameters; their gradients come later, and are cleared "
                "before it steps",
                fix="give each model the optimizer of its own parameters: the two lists are in different orders"
                if is_loop
                else "step the optimizer of what this backward goes through",
                location=made if is_turned else step,
                symptom_location=step if is_turned else made if is_loop else None,
                tensors=names_of(flow, held),
                evidence={"optimizers": len(numbers), "parameters": len(held)},
            )

    def _finding(self, case: Case, idle: int, held: set[int], steps: list[int]) -> Finding:
        histories, log = case.histories, case.dataflow.log
        other = log.calls[steps[0]].optimizer
        theirs = {use.tensor for use in log.calls[steps[0]].inputs}
        backward = location_of_call(histories.flow, histories.backward_of_step(steps[0]) or steps[0])
        right, wrong = _name(case, idle), _name(case, other)
        return self.finding(
            f"{wrong}.step() follows the backward{at_line(backward)}, whose gradients are for {right}, which never "
            f"steps: {histories.together(sorted(held))} never changed",
            symptom="grad_wrong",
            why="each optimizer changes only its own parameters, with whatever is in their .grad",
            fix=f"call {right}.step() here",
            location=location_of_call(histories.flow, steps[0]),
            symptom_location=backward,
            tensors=names_of(histories.flow, [*sorted(held), *sorted(theirs - held)]),
            evidence={"steps": len(steps), "parameters": len(held)},
        )


_MIN_STEPS = 2
_TURNED = re.compile(r"\b(sorted|reversed)\(|\[::-1\]")


def _is_at(flow: Dataflow, row: int, place: Location | None) -> bool:
    return location_of_call(flow, row) == place


def _steps_for_others(histories: ParameterHistories, number: int, steps: list[int]) -> bool:
    """Whether backward calls reach what an optimizer has, but each of its steps follows one that does not, and that
    reaches what another optimizer has; so that it never changed anything."""
    held = histories.held_by(number)
    if not held or any(histories.tensor(tensor).is_moved is not False for tensor in held):
        return False
    if not any(not leaves.isdisjoint(held) for leaves in histories.reached_by.values()):
        return False
    for step in steps:
        backward = histories.backward_of_step(step)
        reached = histories.reached_by.get(backward, frozenset()) if backward is not None else frozenset()
        if not reached & histories.trained or not reached.isdisjoint(held):
            return False
    return True


def _steps_for(histories: ParameterHistories, step: int, idle: int, held: set[int]) -> bool:
    """Whether a step takes the place of one of the idle optimizer."""
    calls = histories.log.calls
    backward = histories.backward_of_step(step)
    reached = histories.reached_by.get(backward, frozenset()) if backward is not None else frozenset()
    if reached.isdisjoint(held):
        return False
    own = {use.tensor for use in calls[step].inputs}
    if reached.isdisjoint(own):
        return True
    before = histories.flow.step_before(step)
    clears = [row for row in histories.flow.rows_of_kind("zero_grad") if before < row < step]
    return bool(clears) and all(calls[row].optimizer == idle for row in clears)


def _name(case: Case, number: int | None) -> str:
    optimizer = case.dataflow.log.optimizers[number] if number is not None else None
    if optimizer is None:
        return "another optimizer"
    return optimizer.names[0] if optimizer.names else f"this {optimizer.class_name}"
