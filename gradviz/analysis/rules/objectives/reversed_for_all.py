"""GV782."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.gradients.reversals import reversals_of, up_to_reversals
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.all_objectives import AllObjectives
from gradviz.analysis.rules.bases.losses.fits import Fit, fits_in
from gradviz.analysis.rules.bases.losses.objectives import Objective, leaves_with_other_gradients


class ReversedForAll(Rule):
    """A gradient reversal that the loss of the task passes as well as that of the adversary.

    What it finds
    -------------
    A hook or a custom function that turns the sign of the gradient, and two errors of one loss, each with a head of its
    own, whose gradients both pass it, so that everything in front of it gets reversed gradients only.

    Why it matters
    --------------
    A reversal makes an adversary of what is in front of it. For the error of the domains that is meant; for that of the
    task the features then learn to make it larger.

    Example
    -------
    features, task, domain = torch.nn.Linear(4, 8), torch.nn.Linear(8, 3), torch.nn.Linear(8, 2)
    layers = torch.nn.ModuleList([features, task, domain])
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
    for step in range(3):
        x, y, where_from = torch.randn(16, 4), torch.randint(0, 3, (16,)), torch.randint(0, 2, (16,))
        h = features(x)
        turned = h
        turned.register_hook(lambda gradient: -gradient)
        loss = torch.nn.functional.cross_entropy(task(h), y)
        loss = loss + torch.nn.functional.cross_entropy(domain(turned), where_from)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    features, task, domain = torch.nn.Linear(4, 8), torch.nn.Linear(8, 3), torch.nn.Linear(8, 2)
    layers = torch.nn.ModuleList([features, task, domain])
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
    for step in range(3):
        x, y, where_from = torch.randn(16, 4), torch.randint(0, 3, (16,)), torch.randint(0, 2, (16,))
        h = features(x)
        turned = h.view_as(h)
        turned.register_hook(lambda gradient: -gradient)
        loss = torch.nn.functional.cross_entropy(task(h), y)
        loss = loss + torch.nn.functional.cross_entropy(domain(turned), where_from)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV782"
    name = "reversed_for_all"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        program, told = AllObjectives(case), set[int | None]()
        for objective in program.objectives:
            reversals = reversals_of(case.backward_calls, objective.backward) if objective.is_whole else frozenset()
            finding = self._finding(case, program, objective, reversals) if reversals else None
            site = case.dataflow.log.calls[min(reversals)].call_site if finding is not None else None
            if finding is not None and site not in told:
                told.add(site)
                yield finding

    def _finding(
        self, case: Case, program: AllObjectives, objective: Objective, reversals: frozenset[int]
    ) -> Finding | None:
        flow = case.dataflow
        apart = [(term, *up_to_reversals(case.dataflow, term.row, reversals)) for term in objective.terms]
        free = frozenset[int]().union(*(behind for _, behind, _ in apart))
        errors = {fit.term.row: fit for fit in fits_in(flow, objective.terms) if _is_learned(fit)}
        passing = [(errors[term.row], behind, met) for term, behind, met in apart if met and term.row in errors]
        heads = [behind for _, behind, _ in passing]
        reversed_only = frozenset[int]().union(*(objective.leaves_of(fit.term) for fit, *_ in passing)) - free
        reversed_only -= _trained_by_others(case, program, objective)
        if len(passing) < _BOTH or not reversed_only or not all(heads) or heads[0] & heads[1]:
            return None
        turned = min(row for *_, met in passing for row in met)
        here, first = two_lines(flow, _hook_on(flow, turned) or turned, passing[0][0].term.row)
        return self.finding(
            f"{case.histories.together(sorted(reversed_only))} get{'s' if len(reversed_only) == 1 else ''} reversed "
            f"gradients only: {len(passing)} errors of the loss, each with a head of its own, pass the same reversal",
            symptom="grad_wrong",
            why="what is in front of a reversal learns to make an error larger; of a task and its adversary, that is "
            "meant for the adversary alone",
            fix="reverse a copy that only the adversary gets: turned = h.view_as(h), and the hook on that, or the "
            "custom function only in front of its head",
            location=here,
            symptom_location=first,
            tensors=names_of(flow, sorted(reversed_only)),
            evidence={"errors": len(passing)},
        )


_BOTH = 2


def _hook_on(flow: Dataflow, row: int) -> int | None:
    """The call that registered a hook on a result of a call."""
    users = (user for use in flow.log.calls[row].outputs for user in flow.users(use.tensor, row))
    return next((user for user in users if plain_name(flow.log.calls[user].function) == "register_hook"), None)


def _is_learned(fit: Fit) -> bool:
    """Whether the loss makes the error smaller."""
    return fit.term.is_sure and not fit.is_worsened and not fit.is_drawn


def _trained_by_others(case: Case, program: AllObjectives, objective: Objective) -> set[int]:
    """The leaves that a loss of another line trains, or gradients that nothing is known of."""
    calls = case.dataflow.log.calls
    site = calls[objective.backward].call_site
    others = [each for each in program.objectives if calls[each.backward].call_site != site]
    leaves = (each.leaves_of(term) for each in others for term in each.terms)
    return set(leaves_with_other_gradients(case.histories)).union(*leaves)
