"""GV718."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.players import asks_itself_otherwise, turns_of
from gradviz.analysis.rules.bases.sources.chosen_parameters import place_that_chooses
from gradviz.graph.call_log import SharedSteps


class TwoOptimizers(Rule):
    """Two optimizers step on the same parameters, and undo or repeat each other's steps.

    What it finds
    -------------
    Parameters that two optimizers hold, which step by turns with gradients that point in opposite directions: the
    optimizer of a discriminator that also got the generator. Likewise the optimizer of a generator that also got the
    discriminator, where its loss asks the opposite of it on generated samples. Also optimizers that step on them one
    after the other with the same gradient. Two optimizers that share parameters for other purposes are left alone.

    Why it matters
    --------------
    Each step of the one takes back what the other has just learned; or each gradient is used twice, with two learning
    rates.

    Example
    -------
    generator, critic = torch.nn.Linear(4, 2), torch.nn.Linear(2, 1)
    for_generator = torch.optim.SGD(generator.parameters(), lr=0.01)
    for_critic = torch.optim.SGD([*critic.parameters(), *generator.parameters()], lr=0.01)
    for step in range(4):
        fake = generator(torch.randn(8, 4))
        for_critic.zero_grad()
        (critic(fake).mean() - critic(torch.randn(8, 2)).mean()).backward()
        for_critic.step()
        for_generator.zero_grad()
        (-critic(generator(torch.randn(8, 4))).mean()).backward()
        for_generator.step()

    Instead
    -------
    generator, critic = torch.nn.Linear(4, 2), torch.nn.Linear(2, 1)
    for_generator = torch.optim.SGD(generator.parameters(), lr=0.01)
    for_critic = torch.optim.SGD(critic.parameters(), lr=0.01)
    for step in range(4):
        fake = generator(torch.randn(8, 4))
        for_critic.zero_grad()
        (critic(fake.detach()).mean() - critic(torch.randn(8, 2)).mean()).backward()
        for_critic.step()
        for_generator.zero_grad()
        (-critic(generator(torch.randn(8, 4))).mean()).backward()
        for_generator.step()
    """

    code = "GV718"
    name = "two_optimizers"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for shared in case.dataflow.log.shared_steps:
            cosines = shared.cosines
            mean = sum(cosines) / max(len(cosines), 1)
            repeats = _repeats(case, shared)
            if repeats >= _MIN_TURNS:
                yield self._finding(case, shared, repeats, None)
            elif len(cosines) >= _MIN_TURNS and mean <= _OPPOSED and max(cosines) < 0:
                yield self._finding(case, shared, len(cosines), mean)
            elif len(cosines) >= _MIN_TURNS and _is_contradicted(case, shared):
                yield self._of_players(case, shared)

    def _of_players(self, case: Case, shared: SharedSteps) -> Finding:
        histories = case.histories
        right, wrong = sorted(shared.optimizers, key=lambda each: (len(_held(case, each)), each))
        made, other = (
            next((location_of_call(histories.flow, row) for row in histories.given_at(each)), None)
            for each in (wrong, right)
        )
        names = [_name(case, each) for each in (right, wrong)]
        return self.finding(
            f"{histories.together(shared.tensors)} {'is' if len(shared.tensors) == 1 else 'are'} in two optimizers, "
            f"and the loss of {names[1]} asks the opposite of what that of {names[0]} asks on the same kind of samples",
            symptom="grad_wrong",
            why="a generator is to get better at what the discriminator judges; like this, the discriminator is also "
            "trained to judge wrongly",
            fix=f"leave them out of {names[1]}{at_line(made)}",
            location=made,
            symptom_location=other if other != made else None,
            tensors=names_of(histories.flow, shared.tensors),
        )

    def _finding(self, case: Case, shared: SharedSteps, times: int, cosine: float | None) -> Finding:
        histories = case.histories
        right, wrong = sorted(shared.optimizers, key=lambda each: (len(_held(case, each)), each))
        made = next((location_of_call(histories.flow, row) for row in histories.given_at(wrong)), None)
        other = next((location_of_call(histories.flow, row) for row in histories.given_at(right)), None)
        step = next(
            (location_of_call(histories.flow, row) for row in histories.steps_by_optimizer.get(wrong, ())), None
        )
        choice = place_that_chooses(case, made, of_any_list=True) if cosine is None else None
        choice = None if choice == made else choice
        names = [_name(case, each) for each in (right, wrong)]
        what = (
            "step on them with the same gradient, one after the other"
            if cosine is None
            else f"step on them by turns in opposite directions (cosine {cosine:.2f} on average)"
        )
        return self.finding(
            f"{histories.together(shared.tensors)} {'is' if len(shared.tensors) == 1 else 'are'} in two optimizers, "
            f"{names[1]} and {names[0]}, which {what}",
            symptom="grad_wrong",
            why="each gradient is used twice, with two learning rates"
            if cosine is None
            else "what makes the loss of the one smaller makes that of the other larger: each step takes back a part "
            "of the other's",
            fix=f"leave them out of {names[1]}{at_line(made)}"
            + ("" if cosine is None else f", and detach() what {names[0]} trains for the loss of {names[1]}"),
            location=choice or made or step,
            symptom_location=made if choice is not None else other if made is None or other != made else step,
            tensors=names_of(histories.flow, shared.tensors),
            evidence={"turns": times, **({} if cosine is None else {"cosine": round(cosine, 3)})},
        )


_MIN_TURNS = 3
_OPPOSED = -0.5
_MOST_COMPARED = 3


def _is_contradicted(case: Case, shared: SharedSteps) -> bool:
    """Whether the larger optimizer asks of the network of the other the opposite of what that asks itself."""
    part, whole = sorted(shared.optimizers, key=lambda each: len(_held(case, each)))
    turns = [each for back in range(1, _MOST_COMPARED + 1) if (each := turns_of(case.histories, back))]
    return bool(turns) and all(asks_itself_otherwise(case, each, whole, part) for each in turns)


def _held(case: Case, optimizer: int) -> set[int]:
    return {tensor for group in case.dataflow.log.optimizers[optimizer].groups for tensor in group}


def _repeats(case: Case, shared: SharedSteps) -> int:
    """How often a step of the one followed one of the other without a backward in between, and both changed one of
    these parameters."""
    flow, tensors, found = case.dataflow, set(shared.tensors), 0
    steps = [
        row
        for row in case.histories.steps
        if flow.log.calls[row].optimizer in shared.optimizers and flow.log.calls[row].inside is None
    ]
    backward = case.histories.backward_calls
    for earlier, later in itertools.pairwise(steps):
        one, other = flow.log.calls[earlier], flow.log.calls[later]
        changed = tensors.intersection(use.tensor for use in one.outputs) & {use.tensor for use in other.outputs}
        is_between = any(earlier < row < later for row in backward)
        found += one.optimizer != other.optimizer and bool(changed) and not is_between
    return found


def _name(case: Case, number: int) -> str:
    optimizer = case.dataflow.log.optimizers[number]
    return optimizer.names[0] if optimizer.names else f"an optimizer ({optimizer.class_name})"
