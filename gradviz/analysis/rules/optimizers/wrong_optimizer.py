"""GV708."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.parameters.parameter_histories import HandedOnGradients, ParameterHistories
from gradviz.analysis.parameters.unchanged_parameters import unchanged_parameters
from gradviz.analysis.rule import Rule


class WrongOptimizer(Rule):
    """After the backward of one model, the optimizer of another one steps.

    What it finds
    -------------
    An optimizer that never steps, although a backward brings gradients to its parameters, and another one that steps
    right after that backward: after gradients of the first one were cleared for it, or without a gradient of its own.
    Also optimizers that step, each after a backward for the parameters of another one, where their own gradients are
    cleared before their steps.

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
        for number, optimizer in enumerate(log.optimizers):
            held = {tensor for group in optimizer.groups for tensor in group}
            first = next((row for row, leaves in histories.reached_by.items() if not leaves.isdisjoint(held)), None)
            if number in stepped or first is None:
                continue
            if any(flow.changes(each, first, len(log.calls)) or handed_on.is_of(each) for each in held):
                continue
            steps = [row for row in histories.steps if _steps_for(histories, row, number, held)]
            if steps:
                yield self._finding(case, number, held, steps)

        yield from self._exchanged(case)

    def _exchanged(self, case: Case) -> Iterator[Finding]:
        """Optimizers that step on parameters whose gradients are always cleared before, one finding for each line."""
        histories, lines = case.histories, defaultdict[int | None, list[tuple[int, int]]](list)
        idle = {each.tensors[0] for each in unchanged_parameters(histories) if each.reason == "cleared"}
        for number in {owner for leaf in idle for owner in histories.optimizers_of(leaf)}:
            steps = histories.steps_by_optimizer.get(number, [])
            if len(steps) >= _MIN_STEPS and all(_is_after_another(histories, number, row) for row in steps):
                lines[histories.log.calls[steps[-1]].call_site].append((steps[-1], number))
        for found in lines.values():
            yield self._of_others(case, *max(found), [number for _, number in found])

    def _of_others(self, case: Case, step: int, number: int, idle: list[int]) -> Finding:
        histories = case.histories
        backward = histories.backward_of_step(step) or step
        reached, held = histories.reached_by[backward], {each for one in idle for each in histories.held_by(one)}
        line = location_of_call(histories.flow, backward)
        return self.finding(
            f"{_name(case, number)}.step() follows the backward{at_line(line)}, whose gradients are for "
            f"{histories.together(sorted(reached))}, which it does not hold: {histories.together(sorted(held))} never "
            "changed",
            symptom="grad_wrong",
            why="each optimizer changes only its own parameters, whose gradients are cleared before it steps",
            fix="step the optimizer of the model whose loss this is: keep models and optimizers in one order, or in "
            "dicts with the same keys",
            location=location_of_call(histories.flow, step),
            symptom_location=line,
            tensors=names_of(histories.flow, [*sorted(held), *sorted(reached - held)]),
            evidence={"optimizers": len(idle)},
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


def _is_after_another(histories: ParameterHistories, number: int, step: int) -> bool:
    """Whether a step follows a backward for parameters of another optimizer, and none for its own."""
    backward = histories.backward_of_step(step)
    reached = histories.reached_by.get(backward, frozenset()) if backward is not None else frozenset()
    is_of_another = any(owner != number for leaf in reached for owner in histories.optimizers_of(leaf))
    return is_of_another and reached.isdisjoint(histories.held_by(number))


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
