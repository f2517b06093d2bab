"""GV661."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import chain, takewhile

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.compared_results import adds_data, has_data, sides_of
from gradviz.analysis.rules.bases.losses.signed_terms import signed_terms
from gradviz.analysis.rules.bases.losses.spread_hinges import is_of_covariance, sign_of_spread


class NothingKeepsApart(Rule):
    """A loss only asks for equal results of one network, and the same result for everything is its best answer.

    What it finds
    -------------
    A loss whose terms all draw together two results of the same trained network, each with a gradient: negated cosines,
    squared differences, distances, variances along an axis. Nothing in it pushes results apart, none of them is
    compared with data, and no ``detach()`` keeps one side still. A hinge that punishes large deviations of a batch
    instead of small ones, ``relu(z.std(0) - 1)``, keeps nothing apart, either.

    Why it matters
    --------------
    The network can make the loss perfect by returning one constant vector for every input. That is what training finds,
    often within few steps: the loss looks very good, and the results say nothing.

    Example
    -------
    encoder, predictor = torch.nn.Linear(6, 3), torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD([*encoder.parameters(), *predictor.parameters()], lr=0.1)
    for step in range(3):
        x = torch.randn(8, 6)
        a, b = encoder(x + 0.1 * torch.randn(8, 6)), encoder(x + 0.1 * torch.randn(8, 6))
        loss = -torch.nn.functional.cosine_similarity(predictor(a), b, dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    encoder, predictor = torch.nn.Linear(6, 3), torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD([*encoder.parameters(), *predictor.parameters()], lr=0.1)
    for step in range(3):
        x = torch.randn(8, 6)
        a, b = encoder(x + 0.1 * torch.randn(8, 6)), encoder(x + 0.1 * torch.randn(8, 6))
        loss = -torch.nn.functional.cosine_similarity(predictor(a), b.detach(), dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV661"
    name = "nothing_keeps_apart"
    severity = "warning"
    yields_to = ("gradient_into_target",)

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for backward in case.histories.last_trained_backward_of_each_line:
            pairs = [_drawn_together(case, backward, use.tensor) for use in flow.log.calls[backward].roots]
            if not pairs or not all(pairs) or _is_one_of_several(case, backward, pairs[0][0].shared):
                continue
            first = pairs[0][0]
            site = flow.log.calls[first.row].call_site
            if site not in told:
                told.add(site)
                yield self._of_hinge(case, first) if first.is_hinge else self._finding(case, first, backward)

    def _finding(self, case: Case, pair: _Pair, backward: int) -> Finding:
        flow = case.dataflow
        location, sent = two_lines(flow, pair.row, backward)
        return self.finding(
            "every term of the loss draws two results of the same network together, and nothing keeps the results of "
            "different inputs apart",
            symptom="grad_wrong",
            why="one constant result for every input makes such a loss perfect, and gradients go into both sides",
            fix="keep one side still with detach(), behind a predictor: D(p, z.detach()); or add pairs that are to be "
            "apart, or a term for their variance",
            location=location,
            symptom_location=sent,
            tensors=names_of(flow, sorted(pair.shared)),
        )

    def _of_hinge(self, case: Case, hinge: _Pair) -> Finding:
        return self.finding(
            "the loss draws two results of the same network together, and its hinge on the deviations of a batch "
            "punishes large ones instead of small ones",
            symptom="grad_wrong",
            why="one constant result for every input has no deviation at all, and makes such a loss perfect",
            fix="turn the hinge around, so that it asks for a deviation of at least 1: relu(1 - std)",
            location=location_of_call(case.dataflow, hinge.row),
            tensors=names_of(case.dataflow, sorted(hinge.shared)),
        )


class _Pair(Struct, frozen=True):
    """A comparison of two results with gradients."""

    row: int
    shared: frozenset[int]
    """The trained leaves of both."""
    is_hinge: bool = False
    """Whether the row is that of a hinge on the deviations of a batch, which punishes large ones."""


_BOTH = 2
_MAX_TERMS = 200


def _is_one_of_several(case: Case, backward: int, shared: frozenset[int]) -> bool:
    """Whether the next step also uses what another backward call has sent to these leaves, which asks for more."""
    histories, flow = case.histories, case.dataflow
    rows = histories.backward_calls
    index = bisect_left(rows, backward)
    since = flow.step_before(backward)
    before = takewhile(lambda row: row > since, reversed(rows[:index]))
    after = takewhile(lambda row: flow.step_before(row) == since, rows[index + 1 :])
    others = (row for row in chain(before, after) if not shared.isdisjoint(histories.reached_by.get(row, ())))
    return any(not all(_drawn_together(case, row, use.tensor) for use in flow.log.calls[row].roots) for row in others)


def _drawn_together(case: Case, backward: int, root: int) -> list[_Pair]:
    """The pairs that make up a loss; empty if it has any other part."""
    flow, found = case.dataflow, list[_Pair]()
    terms = list(signed_terms(flow, backward, root))
    signs = {term.row: sign_of_spread(flow, term) for term in terms}
    hinges = [] if -1 in signs.values() else [row for row, sign in signs.items() if sign]
    below = {term.row for term in terms if any(row in hinges for row in term.path)}
    inner = {term.path[-2] for term in terms if len(term.path) > 1}
    for term in terms[:_MAX_TERMS]:
        call = flow.log.calls[term.row]
        if term.row in below or (hinges and is_of_covariance(flow, term.row)):
            continue
        sides = sides_of(flow, term, call)
        if sides is not None:
            pair = _pair(case, term.row, sides)
            if pair is None:
                return []
            found.append(pair)
        elif term.row not in inner or has_data(flow, call):
            return []
    return [_Pair(hinges[-1], found[0].shared, True)] if hinges and found else found


def _pair(case: Case, row: int, sides: tuple[int, int]) -> _Pair | None:
    """The comparison, if both sides are results of one network, and of nothing else that a gradient or data gives."""
    histories = case.histories
    if _is_diagonal_of(case.dataflow, row, *sides) or _is_diagonal_of(case.dataflow, row, *reversed(sides)):
        return None  # What is left are the products of different features.
    first, second = (histories.live_leaves((side,), row)[0] & histories.trained for side in sides)
    shared = first & second
    is_of_one = bool(shared) and (first <= second or second <= first)
    if not is_of_one or any(adds_data(case.dataflow, side, row) for side in sides):
        return None
    rows = {each for side in sides for each in case.dataflow.ancestors(side, row, since=case.dataflow.step_before(row))}
    names = {case.dataflow.log.calls[each].function.rpartition(".")[2] for each in rows}
    return None if names & {"grad", "jacobian", "jvp", "vjp"} else _Pair(row, shared)


def _is_diagonal_of(flow: Dataflow, row: int, part: int, whole: int) -> bool:
    """Whether one side is only the diagonal of the other one, a table of products."""
    made = [(plain_name(call.function), call) for _, call in flow.makers(part, row, _BOTH)]
    names = {name for name, _ in made}
    return bool(names & _DIAGONALS) and any(use.tensor == whole for _, call in made for use in call.inputs)


_DIAGONALS = frozenset({"diag", "diagonal", "diag_embed", "tril", "triu"})
