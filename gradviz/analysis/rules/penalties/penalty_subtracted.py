"""GV886."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.objectives import has_maximizing_optimizer, has_turned_gradients
from gradviz.analysis.rules.bases.losses.signed_terms import Term, signed_terms
from gradviz.analysis.rules.bases.parameters.measured_weights import is_matrix_of_layer, squared_number


class PenaltySubtracted(Rule):
    """A penalty on the size of weights is subtracted from the loss, which rewards large weights.

    What it finds
    -------------
    A loss that is minimized and falls with the squares, the absolute values or a norm of the matrix of a layer, while
    it grows with something else. A loss that is turned as a whole, such as the negative of a log-likelihood with a
    prior, is taken with the signs that it has in the end.

    Why it matters
    --------------
    The sum of squares has no bound, so there is no least loss: the weights grow, the faster the larger they are, and
    the fit loses against them in the end.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(16, 4)
        penalty = model.weight.square().sum()
        loss = torch.nn.functional.mse_loss(model(x), x[:, :1]) - 0.01 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(16, 4)
        penalty = model.weight.square().sum()
        loss = torch.nn.functional.mse_loss(model(x), x[:, :1]) + 0.01 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV886"
    name = "penalty_subtracted"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        if has_maximizing_optimizer(flow) or has_turned_gradients(flow):
            return
        for backward in case.histories.last_trained_backward_of_each_line:
            for root in flow.log.calls[backward].roots:
                terms = list(signed_terms(flow, backward, root.tensor))
                found = [(term, weight) for term in terms for weight in _weights_measured(case, term)]
                paid = {weight for term, weight in found if term.sign > 0}
                found = [(term, weight) for term, weight in found if term.sign < 0 and weight not in paid]
                sizes = {term.row for term, _ in found}
                grows = any(term.sign > 0 and term.is_sure and sizes.isdisjoint(term.path) for term in terms[1:])
                site = flow.log.calls[found[0][0].path[0]].call_site if found else None
                if found and grows and site not in told:
                    told.add(site)
                    yield self._finding(flow, found[0][0], sorted({weight for _, weight in found}))

    def _finding(self, flow: Dataflow, term: Term, weights: list[int]) -> Finding:
        turns = [row for row in term.path if plain_name(flow.log.calls[row].function) in _TURNS]
        location, made = two_lines(flow, (turns or term.path)[0], term.row)
        return self.finding(
            f"the loss falls as weights grow: it subtracts the size of them that is computed{at_line(made)}"
            if made is not None
            else "the loss falls as weights grow: it subtracts their size",
            symptom="grad_wrong",
            why="a sum of squares or absolute values has no upper bound, so the weights grow without end",
            fix="add the penalty to the loss: loss + 0.01 * penalty",
            location=location,
            symptom_location=made,
            tensors=names_of(flow, weights),
        )


_TURNS = frozenset({"sub", "neg"})
_SIZES = frozenset({"pow", "square", "abs", "norm", "vector_norm", "matrix_norm"})


def _weights_measured(case: Case, term: Term) -> list[int]:
    """The matrices of layers of which a term measures the size."""
    flow = case.dataflow
    row = squared_number(flow, term.row)
    call = flow.log.calls[row]
    taken = {use.tensor for use in call.inputs}
    is_size = plain_name(call.function) in _SIZES or (plain_name(call.function) == "mul" and len(call.inputs) > 1)
    if not term.is_sure or not is_size or len(taken) != 1:
        return []
    return [tensor for tensor in taken if tensor in case.histories.trained and is_matrix_of_layer(flow, tensor, row)]
