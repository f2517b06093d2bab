"""GV851."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import call_words, location_of_call
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.loops.hooks_in_rounds import (
    GrowingTerm,
    HookInRounds,
    growing_terms,
    hooks_in_rounds,
)


class HookedAgain(Rule):
    """A hook is registered again and again, and a loss counts what it kept once for each of them.

    What it finds
    -------------
    A line that computes a term of the loss from one result several times in a step, more often as the training goes on,
    where the program registers a forward hook in a loop, or in a function that a loop calls, also in another file. The
    finding stands there; or where the handles are kept, and their list is emptied without ``remove()``.

    Why it matters
    --------------
    Registering a hook adds one to those that are there. In the tenth epoch each result is kept ten times, and a
    penalty on it weighs ten times what was meant. Nothing raises.

    Example
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    kept = []
    for epoch in range(4):
        model.register_forward_hook(lambda module, given, made: kept.append(made))
        for step in range(2):
            kept.clear()
            error = model(torch.randn(8, 4)).square().mean()
            loss = error + 0.01 * sum(each.abs().sum() for each in kept)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    kept = []
    model.register_forward_hook(lambda module, given, made: kept.append(made))
    for epoch in range(4):
        for step in range(2):
            kept.clear()
            error = model(torch.randn(8, 4)).square().mean()
            loss = error + 0.01 * sum(each.abs().sum() for each in kept)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """

    code = "GV851"
    name = "hooked_again"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        hook = next(hooks_in_rounds(case), None)
        growing = None if hook is None else next(growing_terms(case.dataflow), None)
        if hook is not None and growing is not None:  # the other calls on what was kept say the same
            yield self._finding(case.dataflow, growing, hook)

    def _finding(self, flow: Dataflow, growing: GrowingTerm, hook: HookInRounds) -> Finding:
        used = location_of_call(flow, growing.row)
        return self.finding(
            f"{call_words(flow.log.calls[growing.row])} takes one result {growing.times:,} times in a step, once in "
            "the first: a hook that keeps it is registered again and again"
            + (", and its handle is forgotten here, not removed" if hook.forgets_handles else ""),
            symptom="grad_wrong",
            why="a hook stays until its handle is removed: what the loss computes from the results that were kept "
            "counts once for each registration",
            fix="call remove() of each handle first; or register the hooks once, and keep them"
            if hook.forgets_handles
            else "register it once, before the loop; or keep the handle, and handle.remove() at the end of each round",
            location=hook.line,
            symptom_location=used if used != hook.line else None,
            evidence={"times": growing.times},
        )
