"""GV756."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.differences_of_neighbours import differences_of_neighbours
from gradviz.analysis.rules.bases.losses.signed_terms import Term, signed_terms
from gradviz.analysis.rules.bases.parameters.measured_weights import is_matrix_of_layer, squared_number


class PenaltyWithoutAbs(Rule):
    """A penalty adds up weights, or differences of neighbours, of both signs, without their absolute values.

    What it finds
    -------------
    A loss that adds the plain sum or mean of the weights of layers, or the square of it, to something else; or that of
    the differences of neighbouring pixels of a result, along two axes or in a line that names it a variation. They may
    be subtracted, or come from a convolution with ``[-1, 1]``. The weights or differences have both signs.

    Why it matters
    --------------
    Without ``abs()`` or a square, positive and negative values cancel. Weights get smaller without end instead of going
    to zero, and the differences of all neighbours add up to that of the two edges, so that nothing becomes smooth.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(16, 4)
        penalty = sum(weights.sum() for weights in model.parameters())
        loss = torch.nn.functional.mse_loss(model(x), x[:, :1]) + 0.01 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(16, 4)
        penalty = sum(weights.abs().sum() for weights in model.parameters())
        loss = torch.nn.functional.mse_loss(model(x), x[:, :1]) + 0.01 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV756"
    name = "penalty_without_abs"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for backward in case.histories.last_trained_backward_of_each_line:
            for root in flow.log.calls[backward].roots:
                terms = list(signed_terms(flow, backward, root.tensor))
                if not any(plain_name(flow.log.calls[term.row].function) in _FITS for term in terms):
                    continue
                found = _sums_of_weights(case, terms) or _differences(case, terms)
                if found is not None and flow.log.calls[found.row].call_site not in told:
                    told.add(flow.log.calls[found.row].call_site)
                    yield self._finding(flow, found)

    def _finding(self, flow: Dataflow, found: _Plain) -> Finding:
        what = "weights" if found.weights else "the differences of neighbours"
        added = "the square of the plain sum" if found.is_squared else "the plain sum"
        return self.finding(
            f"the loss adds {added} of {what}, which have both signs, without their absolute values",
            symptom="grad_wrong",
            why="weights of both signs cancel: it draws their mean to zero, and not them"
            if found.is_squared
            else "such a sum falls without end as the weights go to minus infinity; it does not draw them to zero"
            if found.weights
            else "the differences cancel: their sum is that of the edges alone, and nothing becomes smooth",
            fix="add p.abs().sum() of each, or the square p.pow(2).sum()"
            if found.weights
            else "take the absolute values before the mean: (x[1:] - x[:-1]).abs().mean()",
            location=location_of_call(flow, found.row),
            tensors=names_of(flow, found.weights),
        )


class _Plain(Struct, frozen=True):
    """A sum of values of both signs."""

    row: int
    weights: tuple[int, ...] = ()
    """The leaves that are added up; empty for differences of neighbours."""
    is_squared: bool = False
    """Whether the loss takes the square of their sum."""


_FITS = frozenset({
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "cross_entropy", "nll_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "kl_div", "pow", "square", "abs",
})  # fmt: skip
_ADDS_UP = frozenset({"sum", "mean", "view", "reshape", "flatten", "cat", "stack"})
_NAMES_OF_VARIATIONS = re.compile(r"(?<![a-z])tv|variation|smooth", re.I)
_BOTH = 2


def _sums_of_weights(case: Case, terms: list[Term]) -> _Plain | None:
    """The weights of layers that the loss adds as they are."""
    flow, found = case.dataflow, list[tuple[int, int]]()
    is_squared = False
    for term in terms:
        row = squared_number(flow, term.row)
        call = flow.log.calls[row]
        is_added = term.sign > 0 and term.is_sure and plain_name(call.function) in _ADDS_UP
        if is_added and not _is_of_constraint(flow, term):
            weights = (use.tensor for use in call.live_inputs if use.tensor in case.histories.trained)
            known = len(found)
            found += [
                (row, weight)
                for weight in weights
                if is_matrix_of_layer(flow, weight, row) and _has_both_signs(flow, weight, row)
            ]
            is_squared |= len(found) > known and row != term.row
    if not found:
        return None
    return _Plain(min(row for row, _ in found), tuple(sorted({each for _, each in found})), is_squared)


def _is_of_constraint(flow: Dataflow, term: Term) -> bool:
    """Whether the sum should have some value, which is subtracted from it: ``multiplier * (weights.sum() - 1)``."""
    calls = [flow.log.calls[row] for row in term.path]
    return any(plain_name(call.function) == "sub" and len(call.live_inputs) == 1 for call in calls)


def _has_both_signs(flow: Dataflow, tensor: int, row: int) -> bool:
    values = flow.values(tensor, row)
    if values is None or values.minimum is None or values.maximum is None:
        return False
    return values.minimum < 0 < values.maximum


def _differences(case: Case, terms: list[Term]) -> _Plain | None:
    """Differences of neighbours that the loss adds as they are."""
    flow, axes = case.dataflow, dict[int, set[int]]()
    for term in terms:
        of = differences_of_neighbours(case, term.row) if term.sign > 0 and term.is_sure else None
        if of is None or not _has_both_signs(flow, flow.log.calls[term.row].outputs[0].tensor, term.row + 1):
            continue
        base, along = of
        axes.setdefault(base, set()).update(along)
        text = "".join(filter(None, (case.source_line(location_of_call(flow, row)) for row in term.path)))
        if base in case.histories.trained or len(axes[base]) > 1 or _NAMES_OF_VARIATIONS.search(text):
            return _Plain(term.row)
    return None
