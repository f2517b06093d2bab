"""GV647."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of, optimizer_words
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.parameters.creation_lines import line_apart
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.fits import Fit
from gradviz.analysis.rules.bases.losses.objectives import has_turned_gradients, is_on_purpose
from gradviz.analysis.rules.bases.losses.players import Agreement, agreement, asked_alike, lowered_value, turns_of
from gradviz.analysis.rules.bases.losses.requests import Request
from gradviz.analysis.rules.bases.losses.rewards import may_be_small


class PlayersAgree(Rule):
    """A generator asks from its discriminator what the discriminator wants anyway.

    What it finds
    -------------
    Two networks with an optimizer each, in turns. The loss of one goes through the other, the discriminator or critic,
    and asks the same from it on generated samples as its own loss does there: the same constant target of
    ``binary_cross_entropy`` or ``mse_loss``, the same sign of ``mean()``, ``softplus()`` or ``relu()``; and something
    else than its own loss asks on real samples. Also a discriminator whose own loss asks the same on both.

    Why it matters
    --------------
    The generator is trained to be told from real data. Both losses fall, and the samples move away from the data.

    Example
    -------
    generator, critic = torch.nn.Linear(4, 2), torch.nn.Linear(2, 1)
    for_generator = torch.optim.SGD(generator.parameters(), lr=0.01)
    for_critic = torch.optim.SGD(critic.parameters(), lr=0.01)
    for step in range(3):
        real, noise = torch.randn(16, 2) + 2, torch.randn(16, 4)
        critic_loss = critic(generator(noise).detach()).mean() - critic(real).mean()
        for_critic.zero_grad()
        critic_loss.backward()
        for_critic.step()
        generator_loss = critic(generator(noise)).mean()
        for_generator.zero_grad()
        generator_loss.backward()
        for_generator.step()

    Instead
    -------
    generator, critic = torch.nn.Linear(4, 2), torch.nn.Linear(2, 1)
    for_generator = torch.optim.SGD(generator.parameters(), lr=0.01)
    for_critic = torch.optim.SGD(critic.parameters(), lr=0.01)
    for step in range(3):
        real, noise = torch.randn(16, 2) + 2, torch.randn(16, 4)
        critic_loss = critic(generator(noise).detach()).mean() - critic(real).mean()
        for_critic.zero_grad()
        critic_loss.backward()
        for_critic.step()
        generator_loss = -critic(generator(noise)).mean()
        for_generator.zero_grad()
        generator_loss.backward()
        for_generator.step()
    """

    code = "GV647"
    name = "players_agree"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        turns = [each for back in range(1, _MOST_COMPARED + 1) if (each := turns_of(case.histories, back))]
        if not turns or not _BOTH <= len(turns[0]) <= _MOST_PLAYERS or has_turned_gradients(case.dataflow):
            return
        pairs = [(one, other) for one in turns[0] for other in turns[0] if one != other]
        for one, other in pairs:
            found = [agreement(case, each, one, other) for each in turns]
            if found[0] is not None and all(found):
                yield self._finding(case, one, other, found[0])
            alike = [asked_alike(case, each, one, other) for each in turns]
            if alike[0] is not None and all(alike):
                yield self._alike(case, one, *alike[0])
            values = (lowered_value(case, each, one, other) for each in (turns[0], turns_of(case.histories, 0)))
            lowered = next(filter(None, values), None)
            if lowered is not None and not is_on_purpose(case) and not may_be_small(case):
                yield self._actor(case, one, other, *lowered)

    def _actor(self, case: Case, one: int, other: int, asked: Request, fit: Fit, leaves: frozenset[int]) -> Finding:
        flow = case.dataflow
        optimizers = flow.log.optimizers
        here, fitted = (location_of_call(flow, row) for row in (_line_row(flow, asked), fit.term.row))
        return self.finding(
            f"the loss for {optimizer_words(optimizers[one])} adds the output of the network of "
            f"{optimizer_words(optimizers[other])}, which is fitted to rewards: actions with low values are learned",
            symptom="grad_wrong",
            why="a loss is minimized: what should become large must be subtracted from it",
            fix="turn the sign around: -critic(state, actor(state)).mean()",
            location=here,
            symptom_location=fitted if fitted != here else None,
            tensors=names_of(flow, sorted(leaves)),
        )

    def _alike(self, case: Case, one: int, generated: Request, real: Request) -> Finding:
        flow = case.dataflow
        here, there = _lines_apart(flow, generated, real)
        return self.finding(
            f"the loss for {optimizer_words(flow.log.optimizers[one])} asks the same on generated samples as on real "
            f"ones: {_words(generated)}. It learns no difference between them",
            symptom="grad_wrong",
            why="a discriminator that answers all samples alike has the lowest loss, and tells the generator nothing",
            fix="ask the opposite on generated samples: the other target, or the other sign: relu(1 + critic(fake))",
            location=here,
            symptom_location=there if there != here else None,
        )

    def _finding(self, case: Case, one: int, other: int, found: Agreement) -> Finding:
        flow = case.dataflow
        optimizers = flow.log.optimizers
        asked, own = found.asked, found.own
        what = _words(own)
        here, theirs = _lines_apart(flow, asked, own)
        fix = _FIX_GENERATOR
        if found.is_turned:
            here, theirs, fix = theirs, here, _FIX_DISCRIMINATOR
        return self.finding(
            f"the loss for {optimizer_words(optimizers[one])} asks the same on generated samples from the network of "
            f"{optimizer_words(optimizers[other])} as its own loss does: {what}. Nobody plays against it",
            symptom="grad_wrong",
            why="what is generated is trained to be told from real samples, and moves away from them",
            fix=fix,
            location=here,
            symptom_location=theirs if theirs != here else None,
            tensors=names_of(flow, sorted(found.leaves)),
        )


_FIX_GENERATOR = (
    "ask the opposite in the loss of the generator: the target of real samples, or the other sign: "
    "-critic(generator(noise)).mean()"
)
_FIX_DISCRIMINATOR = (
    "swap the two in the loss of the discriminator: the larger target, or larger outputs, for real samples, and the "
    "smaller for generated ones"
)
_BOTH = 2
_MOST_PLAYERS = 12
"""More optimizers are made anew in an inner loop; to compare each with each would take too long."""
_MOST_COMPARED = 3


def _words(request: Request) -> str:
    if request.kind == "constant":
        return f"the target {request.wanted:g}"
    return "smaller outputs" if request.wanted < 0 else "larger outputs"


def _lines_apart(flow: Dataflow, one: Request, other: Request) -> tuple[Location | None, Location | None]:
    """The lines of two requests; those that called a function of the program for them, where it makes both."""
    rows = _line_row(flow, one), _line_row(flow, other)
    here, there = (location_of_call(flow, row) for row in rows)
    if here != there:
        return here, there
    return location_of_line(line_apart(flow, *rows)), location_of_line(line_apart(flow, *rows[::-1]))


def _line_row(flow: Dataflow, request: Request) -> int:
    """The call that stands for a request in the loop of the training, not inside a network."""
    if request.kind == "constant" or "cross_entropy" in flow.log.calls[request.term.row].function:
        return request.term.row
    outside = [row for row in request.term.path if flow.log.calls[row].scope is None]
    return outside[-1] if outside else request.term.path[0]
