"""GV684."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.gradients.reversals import reversals_of, up_to_reversals
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.all_objectives import AllObjectives
from gradviz.analysis.rules.bases.losses.fits import Fit, fits_in, turns_sign
from gradviz.analysis.rules.bases.losses.objectives import Objective, has_maximizing_optimizer


class ReversedTwice(Rule):
    """A gradient reversal, and a minus before the loss of the network behind it.

    What it finds
    -------------
    A loss that subtracts an error, such as the ``cross_entropy`` of a domain classifier, whose gradient also passes a
    custom function, a hook, or a sum such as ``2 * h.detach() - h`` that turns its sign, where nothing else trains the
    layers between the two.

    Why it matters
    --------------
    A reversal lets the classifier learn to tell domains, and turns the gradient around for the features in front of
    it. With a minus as well, the classifier is trained to be wrong, and the features are trained to help it.

    Example
    -------
    class Reversal(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, gradient):
            return -gradient

    features, domain = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD([*features.parameters(), *domain.parameters()], lr=0.1)
    for step in range(3):
        x, where_from = torch.randn(16, 4), torch.randint(0, 2, (16,))
        h = features(x)
        adversary = torch.nn.functional.cross_entropy(domain(Reversal.apply(h)), where_from)
        loss = h.square().mean() - 0.5 * adversary
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    class Reversal(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, gradient):
            return -gradient

    features, domain = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD([*features.parameters(), *domain.parameters()], lr=0.1)
    for step in range(3):
        x, where_from = torch.randn(16, 4), torch.randint(0, 2, (16,))
        h = features(x)
        adversary = torch.nn.functional.cross_entropy(domain(Reversal.apply(h)), where_from)
        loss = h.square().mean() + 0.5 * adversary
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV684"
    name = "reversed_twice"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        if has_maximizing_optimizer(case.dataflow):
            return
        program, told = AllObjectives(case), set[int | None]()
        for objective in program.objectives:
            reversals = reversals_of(case.backward_calls, objective.backward) if objective.is_whole else frozenset()
            for fit in fits_in(case.dataflow, objective.terms) if reversals else ():
                finding = self._finding(case, program, objective, fit, reversals)
                site = case.dataflow.log.calls[fit.term.row].call_site
                if finding is not None and site not in told:
                    told.add(site)
                    yield finding

    def _finding(
        self, case: Case, program: AllObjectives, objective: Objective, fit: Fit, reversals: frozenset[int]
    ) -> Finding | None:
        flow = case.dataflow
        if not (fit.is_worsened and fit.term.is_sure) or fit.is_drawn:
            return None
        behind, passed = up_to_reversals(case.dataflow, fit.term.row, reversals)
        between = behind & objective.leaves_of(fit.term) - program.trained_otherwise
        if not between or not passed:
            return None
        turned = [
            row for row, inner in zip(fit.term.path, fit.term.path[1:], strict=False) if turns_sign(flow, row, inner)
        ]
        here, reversal = (location_of_call(flow, row) for row in (turned[-1] if turned else fit.term.row, min(passed)))
        return self.finding(
            "the loss subtracts an error whose gradient is reversed as well: "
            f"{case.histories.together(sorted(between))} {'learns' if len(between) == 1 else 'learn'} to make the "
            "error larger, and what is in front of the reversal to make it smaller",
            symptom="grad_wrong",
            why="the reversal already makes an adversary of what is in front of it: the sign is turned around twice "
            "there, and once where it should not be",
            fix="add that error to the loss, or leave out the reversal and train the two sides with losses of their "
            "own",
            location=here,
            symptom_location=reversal if reversal != here else None,
            tensors=names_of(flow, sorted(between)),
        )
