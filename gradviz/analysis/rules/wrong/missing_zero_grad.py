"""GV601."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import place_of_call
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.parameters.parameter_fates import ParameterFates
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.wrong.gradient_lifetimes import GradientLifetimes, Stale, Thrown


class MissingZeroGrad(Rule):
    """Gradients are cleared too rarely, too often, or not for all parameters.

    What it finds
    -------------
    Steps with gradients in them that an earlier step has used already, because nothing cleared them in between; and
    gradients that are cleared before any step has used them.

    Why it matters
    --------------
    ``backward()`` adds to ``.grad``. Without ``zero_grad()`` between two steps, each step goes along the sum of all
    gradients so far: like a momentum of one, which grows and overshoots. With ``zero_grad()`` between backward and
    step, or in every micro-batch of an accumulation, what was computed is thrown away.

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

    def check(self, case: Case) -> Iterator[Finding]:
        fates = case.fates
        if not fates.reached_by:
            return
        lifetimes = GradientLifetimes(fates)
        for stale in lifetimes.stale:
            yield self._stale(fates, stale)
        if lifetimes.thrown is not None:
            yield self._thrown(fates, lifetimes.thrown)

    def _stale(self, fates: ParameterFates, stale: Stale) -> Finding:
        clears = {
            None: "nothing ever clears them",
            False: "what is cleared there does not include them",
            True: "they are cleared, but not between these steps",
        }[stale.clears_them]
        return self.finding(
            f"{stale.steps:,} steps of {fates.together(stale.tensors)} use gradients of earlier steps again: {clears}",
            symptom="grad_wrong",
            why="backward() adds to .grad, so each step goes along the sum of all gradients since they were cleared",
            fix=_remedy(fates, stale),
            place=place_of_call(fates.flow, stale.clear if stale.clear is not None else stale.backward),
            symptom_place=place_of_call(fates.flow, _step_around(fates, stale.step)),
            tensors=names_of(fates.flow, stale.tensors),
            evidence={"steps": stale.steps, "parameters": len(stale.tensors)},
        )

    def _thrown(self, fates: ParameterFates, thrown: Thrown) -> Finding:
        return self.finding(
            f"the gradients of {thrown.backward_calls:,} of {thrown.all_backward_calls:,} backward calls are cleared "
            "before any step uses them",
            symptom="grad_wrong",
            why="zero_grad() comes between backward() and step(): the step sees only what came after it, or nothing",
            fix="clear gradients once for every step: right after it, or before the first backward() that it is for",
            place=place_of_call(fates.flow, thrown.clear),
            symptom_place=place_of_call(fates.flow, thrown.backward),
            tensors=names_of(fates.flow, thrown.tensors),
            evidence={"backward_calls": thrown.backward_calls, "of": thrown.all_backward_calls},
        )


def _remedy(fates: ParameterFates, stale: Stale) -> str:
    if stale.clears_them is False:
        return "clear them, too: call zero_grad() of the optimizer that has them"
    if fates.log.calls[stale.backward].inside is not None:
        return "call optimizer.zero_grad() in the closure, before its backward(): step() runs the closure many times"
    return "call optimizer.zero_grad() once for every step, before its backward()"


def _step_around(fates: ParameterFates, row: int) -> int:
    call = fates.log.calls[row]
    return row if call.kind == "step" or call.inside is None else call.inside
