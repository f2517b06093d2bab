"""GV670."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import (
    at_line,
    call_words,
    line_in_function_of,
    location_of_call,
    plain_name,
)
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of, tensor_words
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.parameters.computed_alike import sources_of_both
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, tensor_before
from gradviz.analysis.rules.bases.losses.signed_terms import Term, signed_terms
from gradviz.analysis.rules.bases.parameters.nested_loops import CountedOften, counted_often_in_losses
from gradviz.analysis.rules.bases.sources.loops.hooks_in_rounds import growing_terms, hooks_in_rounds


class SameTermTwice(Rule):
    """Two terms of a loss compare the same prediction with the same target.

    What it finds
    -------------
    A loss that adds two calls of one loss function whose prediction and target are the same tensors, where another
    target was probably meant: ``lam * f(out, y_a) + (1 - lam) * f(out, y_a)``. Also two terms that are computed in the
    same way from the same results, such as both directions of a Chamfer distance with the minimum along one axis; and a
    penalty that goes through ``parameters()`` of each of a model's ``modules()``, and has a weight once for each module
    around it.

    Why it matters
    --------------
    The second term adds nothing of its own: it only makes the first one larger. What it was to stand for, the other
    labels of a mixture or another output, is not trained. Of a penalty, weights deep in the model get several times as
    much as others.

    Example
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    error = torch.nn.functional.cross_entropy
    for step in range(3):
        x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
        other = torch.randperm(8)
        out = model(0.7 * x + 0.3 * x[other])
        loss = 0.7 * error(out, y) + 0.3 * error(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    error = torch.nn.functional.cross_entropy
    for step in range(3):
        x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
        other = torch.randperm(8)
        out = model(0.7 * x + 0.3 * x[other])
        loss = 0.7 * error(out, y) + 0.3 * error(out, y[other])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV670"
    name = "same_term_twice"
    severity = "warning"
    yields_to = ("hooked_again",)

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for backward in case.histories.last_trained_backward_of_each_line:
            seen: dict[tuple[str, int, int, tuple[object, ...]], int] = {}
            roots = (use.tensor for use in flow.log.calls[backward].roots)
            terms = [term for root in roots for term in signed_terms(flow, backward, root)]
            for row in sorted({term.row for term in terms}):
                key = _compared(flow, row)
                first = row if key is None else seen.setdefault(key, row)
                if first != row and flow.log.calls[row].call_site not in told:
                    told.add(flow.log.calls[row].call_site)
                    yield self._finding(flow, first, row)
            alike = None if told else _summands_alike(case, terms)
            if alike is not None and not _grows(case, alike[1]):
                told.add(flow.log.calls[alike[1]].call_site)
                yield self._of_alike(flow, *alike)
        lines = {found.location: found for found in counted_often_in_losses(case)}
        yield from (self._of_penalty(case, found) for found in lines.values())

    def _of_penalty(self, case: Case, found: CountedOften) -> Finding:
        return self.finding(
            f"the loss has a term of each parameter {found.message}: {found.examples(case)}",
            symptom="grad_wrong",
            why="the term is several times as large as its factor says"
            if found.is_even
            else "the deeper a weight lies in the model, the more the term draws at it",
            fix=found.fix,
            location=found.location,
            tensors=names_of(case.dataflow, found.often),
            evidence=found.evidence,
        )

    def _of_alike(self, flow: Dataflow, one: int, two: int, added: int) -> Finding:
        first, location = location_of_call(flow, one), location_of_call(flow, two)
        if first == location:  # a function that both call: the arguments are to be edited
            location = location_of_line(line_in_function_of(flow, two, added))
        other = first if first != location else None
        return self.finding(
            f"two terms of the loss, added{at_line(location_of_call(flow, added))}, are computed in the same way from "
            "the same results, so that one of them says nothing new",
            symptom="grad_wrong",
            why="the second term only makes the first one larger; what it was to compare is not trained",
            fix="compute the second term along the other axis, or from the arguments that it was meant for, or "
            "leave it out",
            location=location,
            symptom_location=other,
        )

    def _finding(self, flow: Dataflow, first: int, second: int) -> Finding:
        call = flow.log.calls[second]
        location, other = location_of_call(flow, second), location_of_call(flow, first)
        predicted, target = (tensor_words(flow, use.tensor) for use in call.inputs[:_BOTH])
        return self.finding(
            f"{call_words(call)} compares {predicted} with {target} twice in one loss"
            f"{', the first time' + at_line(other) if other != location else ''}",
            symptom="grad_wrong",
            why="the second term only makes the first one larger; what it was to compare is not trained",
            fix="give the second call the prediction or the target that it was meant for, or leave it out",
            location=location,
            symptom_location=other if other != location else None,
        )


_BOTH = 2
_MAX_SUMMANDS = 16
_LOSSES = frozenset({
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "kl_div", "cosine_similarity",
})  # fmt: skip
_OTHER_ORDER = frozenset({"getitem", "transpose", "permute", "T", "t", "swapaxes"})
"""Parts and exchanged axes are something else to compare: rows of a table of similarities, and then its columns."""


def _compared(flow: Dataflow, row: int) -> tuple[str, int, int, tuple[object, ...]] | None:
    """What a call of a loss function compares, and how; None for other calls."""
    call = flow.log.calls[row]
    name = plain_name(call.function)
    if name not in _LOSSES or len(call.inputs) != _BOTH or not call.live_inputs:
        return None
    if not shape_of(flow, call.inputs[0].tensor):
        return None
    first, second = (tensor_before(flow, use.tensor, row, SHAPE_ONLY - _OTHER_ORDER) for use in call.inputs)
    return name, first, second, tuple(sorted(map(str, call.scalars.items())))


def _summands_alike(case: Case, terms: list[Term]) -> tuple[int, int, int] | None:
    """The calls that made two summands of a loss, perhaps times numbers, alike, and the one that adds the second.

    Those that were computed from parameters alone are left out: a penalty counts a shared one at each of its places.
    So are those that train different parameters: of two sides of a distance, each is detached in one of the two.
    """
    flow = case.dataflow
    summands = {term.row: term for term in terms if _is_summand(flow, term)}
    found = [summands[row] for row in sorted(summands)][:_MAX_SUMMANDS]
    for one, two in combinations(found, _BOTH):
        pair = _without_numbers(flow, one.row), _without_numbers(flow, two.row)
        if one.sign != two.sign or pair[0] == pair[1]:
            continue
        made = [(flow.log.calls[row].outputs[0].tensor, row + 1) for row in pair]
        sources = sources_of_both(flow, made[0], made[1])
        trains = [case.histories.live_leaves((tensor,), row)[0] for tensor, row in made]
        if sources is not None and trains[0] == trains[1] and any(_is_result(flow, each) for each in sources):
            return *pair, two.path[-2]
    return None


def _grows(case: Case, row: int) -> bool:
    """Whether a term is there once more as the hook that keeps it is registered again: another rule tells this."""
    line = location_of_call(case.dataflow, row)
    lines = (location_of_call(case.dataflow, each.row) for each in growing_terms(case.dataflow))
    return any(each == line for each in lines) and next(hooks_in_rounds(case), None) is not None


def _is_summand(flow: Dataflow, term: Term) -> bool:
    if len(term.path) < _BOTH or not term.is_sure or term.has_both_signs:
        return False
    names = [plain_name(flow.log.calls[row].function) for row in term.path[-2:]]
    return names[0] == "add" and names[1] != "add"


def _without_numbers(flow: Dataflow, row: int) -> int:
    """The call that made a summand before it was multiplied with numbers."""
    while True:
        call = flow.log.calls[row]
        is_scaled = plain_name(call.function) in ("mul", "div") and len(call.inputs) == 1
        made = flow.newest_producer(call.inputs[0].tensor, row) if is_scaled else None
        if made is None:
            return row
        row = made


def _is_result(flow: Dataflow, tensor: int) -> bool:
    logged = flow.log.tensors[tensor]
    return logged.requires_grad and not logged.is_leaf
