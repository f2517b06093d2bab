"""GV601."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, callers, is_in_library, line_in_function_of, location_of_call
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of, optimizer_words
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.gradients.gradient_changes import clips_of_sums
from gradviz.analysis.gradients.gradient_events import DiscardedGradients, MovedBetween, ReusedGradients, StaleReads
from gradviz.analysis.gradients.gradients_of_players import players_mixed
from gradviz.analysis.gradients.leftover_gradients import leftover_gradients, opposed_backwards
from gradviz.analysis.gradients.players_of_one_backward import players_of_one_backward
from gradviz.analysis.gradients.running_sums import RunningSums, running_sums
from gradviz.analysis.gradients.steps_in_a_row import StepsInARow, steps_in_a_row
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.rules.bases.gradients.mixed_players_rule import MixedPlayersRule
from gradviz.analysis.rules.bases.gradients.opposed_terms import opposed_terms
from gradviz.analysis.rules.bases.losses.players import asked_otherwise


class MissingZeroGrad(MixedPlayersRule):
    """Gradients are cleared too rarely, too often, or not for all parameters.

    What it finds
    -------------
    Steps that use gradients which an earlier step has already used, because nothing cleared them in between, and
    calculations with such sums; gradients that are read after each of several backward calls and added up as if each
    were of one sample, though nothing clears them between; gradients that are cleared before any step has used them;
    and steps that also use what the backward of another model, which is trained through this one, left in ``.grad``:
    of an earlier step, or because the losses of both run before the steps of both, also as one sum; or what the loss of
    a discriminator left in the generator, which asks the opposite, because nothing detached the generated samples.

    Why it matters
    --------------
    ``backward()`` adds to ``.grad``. Without ``zero_grad()`` between two steps, each step follows the sum of all
    gradients so far: like a momentum of one, which grows and overshoots. With ``zero_grad()`` between backward and
    step, or in every micro-batch of an accumulation, the computed gradients are lost.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()
    """

    code = "GV601"
    name = "missing_zero_grad"
    severity = "error"
    yields_to = ("not_stepped", "wrong_optimizer", "iterator_used_up")
    is_general = True

    def check(self, case: Case) -> Iterator[Finding]:
        histories = case.histories
        if not histories.reached_by:
            return
        events = case.gradient_events
        for reused in events.reused:
            if not _have_optimizer_of_others(histories, reused):
                yield self._reused(histories, reused)
        for again in steps_in_a_row(histories):
            yield self._again(histories, again)
        if events.discarded is not None and not _is_for_a_silent_step(histories, events.discarded.backward):
            yield self._discarded(histories, events.discarded)
        never_cleared = {tensor for reused in events.reused for tensor in reused.tensors}
        for stale in events.read_stale:
            if never_cleared.isdisjoint(stale.tensors):
                yield self._read_stale(histories, stale)
        moved = events.moved_between
        if moved is not None and never_cleared.isdisjoint(moved.tensors):
            yield self._moved(histories, moved)
        clipped = {tensor for change in clips_of_sums(histories, events.events) for tensor in change.tensors}
        for sums in running_sums(histories, events.events):
            if never_cleared.union(clipped).isdisjoint(sums.leaves):
                yield self._running_sums(histories, sums)
        for leftover in leftover_gradients(histories, events):
            if not never_cleared.issuperset(leftover.tensors):
                yield self.leftover(histories, leftover)
        for opposed in opposed_backwards(histories, events):
            asked = [asked_otherwise(case, *each, opposed.owner, opposed.other) for each in opposed.pairs[-2:]]
            request = asked[-1] if all(asked) else None
            if request is not None and never_cleared.isdisjoint(opposed.tensors):
                yield self.opposed(histories, opposed, request)
        players = [*players_mixed(histories, events), *players_of_one_backward(histories)]
        for mixed in players or opposed_terms(case):
            if never_cleared.isdisjoint(mixed.tensors):
                yield self.mixed(histories, mixed)

    def _reused(self, histories: ParameterHistories, reused: ReusedGradients) -> Finding:
        clears = {
            None: "nothing ever clears them",
            False: "the call that clears gradients there does not include them",
            True: "they are cleared, but not between these steps",
        }[reused.clears_them]
        # A call that a library makes elsewhere cannot be moved; one in the training of another model is right there.
        is_fixed = reused.clear is None or is_in_library(histories.flow, reused.clear)
        is_fixed = is_fixed or (not reused.clears_them and not _is_beside(histories.flow, reused.clear, reused.step))
        here = reused.backward if is_fixed or reused.clear is None else reused.clear
        steps = f"{reused.steps:,} steps of {histories.together(reused.tensors)}"
        return self.finding(
            f"{steps} use gradients of earlier steps again: {clears}",
            symptom="grad_wrong",
            why="backward() adds to .grad, so each step follows the sum of all gradients since they were cleared",
            fix=_remedy(histories, reused),
            location=_location_outside_helper(histories, here),
            symptom_location=location_of_call(histories.flow, _step_around(histories, reused.step)),
            tensors=names_of(histories.flow, reused.tensors),
            evidence={"steps": reused.steps, "parameters": len(reused.tensors)},
        )

    def _again(self, histories: ParameterHistories, again: StepsInARow) -> Finding:
        flow = histories.flow
        name = optimizer_words(flow.log.optimizers[again.optimizer])
        return self.finding(
            f"{name} steps {again.each:,} times with the same gradients, after each of {again.times:,} backward calls",
            severity="warning",
            symptom="grad_wrong",
            why="one step() changes the parameters of all groups; a second one goes on along gradients of a point that "
            "is left behind, and counts as a step for momentum and averages",
            fix="call step() once after backward(), outside of the loop over the groups",
            location=location_of_call(flow, again.step),
            evidence={"steps": again.each, "backward_calls": again.times},
        )

    def _discarded(self, histories: ParameterHistories, discarded: DiscardedGradients) -> Finding:
        calls = f"{discarded.backward_calls:,} of {discarded.all_backward_calls:,} backward calls"
        return self.finding(
            f"the gradients of {calls} are cleared before any step uses them",
            symptom="grad_wrong",
            why="zero_grad() runs between backward() and step(), so the step uses only later gradients, or none",
            fix="call step() after each backward(), or clear gradients once for every step: right after it, or before "
            "its first backward()",
            location=_location_outside_helper(histories, discarded.clear),
            symptom_location=location_of_call(histories.flow, discarded.backward),
            tensors=names_of(histories.flow, discarded.tensors),
            evidence={"backward_calls": discarded.backward_calls, "of": discarded.all_backward_calls},
        )

    def _read_stale(self, histories: ParameterHistories, stale: StaleReads) -> Finding:
        flow = histories.flow
        backward, read = location_of_call(flow, stale.backward), location_of_call(flow, stale.read)
        return self.finding(
            f"what is read as the gradients of {histories.together(stale.tensors)}{at_line(read)} also has in it what "
            "an earlier step has used: nothing cleared them before this backward()",
            symptom="grad_wrong",
            why="backward() adds to .grad, which still held the gradients of the last step",
            fix="call zero_grad() before this backward(), or compute these gradients with torch.autograd.grad()",
            location=backward,
            symptom_location=read,
            tensors=names_of(flow, stale.tensors),
            evidence={"parameters": len(stale.tensors)},
        )

    def _moved(self, histories: ParameterHistories, moved: MovedBetween) -> Finding:
        flow = histories.flow
        return self.finding(
            f"{moved.steps:,} steps use the sum of gradients at two points: {histories.together(moved.tensors)} move "
            "between two backward calls, and nothing clears the gradients of the first",
            symptom="grad_wrong",
            why="backward() adds to .grad, so the step follows neither the gradient at the first point nor that at the "
            "second",
            fix="call zero_grad() after the move, before the second backward(): first_step(zero_grad=True) of a "
            "sharpness-aware step",
            location=location_of_line(line_in_function_of(flow, moved.move, moved.backward)),
            symptom_location=location_of_call(flow, moved.backward),
            tensors=names_of(flow, moved.tensors),
            evidence={"steps": moved.steps, "parameters": len(moved.tensors)},
        )

    def _running_sums(self, histories: ParameterHistories, sums: RunningSums) -> Finding:
        flow = histories.flow
        backward, added = location_of_call(flow, sums.backward), location_of_call(flow, sums.added)
        return self.finding(
            f"after each backward() the gradients of {histories.together(sums.leaves)} are read and added up"
            f"{at_line(added)}, but nothing clears them between: {sums.times:,} times they also hold those of the "
            "backward calls before",
            severity="warning",
            symptom="grad_wrong",
            why="backward() adds to .grad, so each reading is the sum so far and not the gradient of one loss: the "
            "first ones count many times, and a norm or a square is that of the sum",
            fix="clear the gradients before each backward(): model.zero_grad(); or take them of torch.autograd.grad()",
            location=backward,
            symptom_location=added,
            tensors=names_of(flow, sums.leaves),
            evidence={"times": sums.times, "parameters": len(sums.leaves)},
        )


def _have_optimizer_of_others(histories: ParameterHistories, reused: ReusedGradients) -> bool:
    """Whether two optimizers have them, and others that get gradients are in none: one was given the wrong ones."""
    return bool(histories.untrained) and all(len(histories.optimizers_of(each)) > 1 for each in reused.tensors)


def _is_for_a_silent_step(histories: ParameterHistories, backward: int) -> bool:
    """Whether the step after a backward is one of others, which never move because they are frozen or no gradient
    reaches them: that is the mistake, and not that what the backward left elsewhere is cleared."""
    step = next((row for row in histories.steps if row > backward), None)
    uses = () if step is None else histories.log.calls[step].inputs
    is_still = all(not use.requires_grad or histories.tensor(use.tensor).is_moved is False for use in uses)
    return bool(uses) and is_still and histories.reached_by[backward].isdisjoint(use.tensor for use in uses)


def _is_beside(flow: Dataflow, clear: int | None, step: int) -> bool:
    """Whether a call that clears gradients is made in a function in which, or from which, a step is made."""
    own = None if clear is None else flow.line_of(clear)
    return own is not None and (own.file, own.function) in {(line.file, line.function) for line in callers(flow, step)}


def _location_outside_helper(histories: ParameterHistories, row: int) -> Location | None:
    """The line of a call; of a ``zero_grad()`` in a method of that name, the line that calls the method."""
    lines = (line for line in callers(histories.flow, row) if not line.function.endswith("zero_grad"))
    return location_of_line(next(lines, None)) or location_of_call(histories.flow, row)


def _remedy(histories: ParameterHistories, reused: ReusedGradients) -> str:
    if reused.clears_them is False:
        return "clear them as well: call zero_grad() of the optimizer that has them"
    if histories.log.calls[reused.backward].inside is not None:
        return "call optimizer.zero_grad() in the closure, before its backward(): step() runs the closure many times"
    return "call optimizer.zero_grad() once for every step, before its backward()"


def _step_around(histories: ParameterHistories, row: int) -> int:
    call = histories.log.calls[row]
    return row if call.kind == "step" or call.inside is None else call.inside
