"""GV111."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.cut_causes import lacks_create_graph
from gradviz.analysis.cuts.dead_terms import (
    DataTerm,
    DeadTerm,
    data_terms,
    dead_terms,
)
from gradviz.analysis.cuts.touched_outputs import is_only_touched
from gradviz.analysis.cuts.weightless_terms import WeightlessTerm, weightless_terms
from gradviz.analysis.cuts.zero_factors import ZeroFactor, zero_factors
from gradviz.analysis.dataflow.call_words import at_line, call_words, callers, function_of, location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.own_files import own_tree
from gradviz.analysis.rules.bases.sources.rates.capped_divisions import line_of_capped_division
from gradviz.analysis.sources.source_tree import called_name, tree_of


class TermWithoutGradient(Rule):
    """A term of the loss is a constant for autograd, so nothing learns from it.

    What it finds
    -------------
    A loss that is a sum, in which one term was computed from trained parameters and has lost its history on the way:
    through ``item()``, ``detach()`` or ``no_grad()``. A weighted term that was computed from data alone. A value that
    a formula multiplies by a literal 0 at every step; a note where that is a bare sum of outputs. A term whose weight
    is a variable that is 0 at every step, also as ``alpha=`` of ``torch.add()``, is a note; not so where that comes
    from ``min(1, step // length)``, which rounds down what should rise from 0 to 1.

    Why it matters
    --------------
    The parameters still get gradients from the other terms, so nothing is None and nothing raises. The value of the
    term is in the loss, and it influences no step: a penalty that penalises nothing.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        error = model(torch.randn(5, 4)).square().mean()
        penalty = model.weight.abs().sum()
        loss = error + 0.1 * penalty.item()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        error = model(torch.randn(5, 4)).square().mean()
        penalty = model.weight.abs().sum()
        loss = error + 0.1 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV111"
    name = "term_without_gradient"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        by_line: dict[Location | None, list[DeadTerm]] = defaultdict(list)
        reached = set().union(*case.histories.reached_by.values())
        for term in dead_terms(case.histories):
            if not reached.issuperset(term.parameters):
                continue  # The rules on parameters without a gradient tell this cut.
            if not lacks_create_graph(case.dataflow.log.calls[term.cut.call]):  # Else it is create_graph_missing.
                by_line[case.location_of_site(term.cut.call_site)].append(term)
        for location, terms in by_line.items():
            yield self._finding(case, location, terms)
        zero = {name for each in case.zero_gradients for name in each.leaves}
        told = set[Location | None]()
        for factor in zero_factors(case.histories, case.source_line):
            names = names_of(case.dataflow, factor.parameters)
            # Where nothing but zeros arrives it is masked_out, which tells no outputs that are only touched.
            if not names or is_only_touched(case.dataflow, factor.tensor, factor.call) or not zero.issuperset(names):
                told.add(factor.location)
                yield self._of_zero_factor(case, factor)
        for weightless in weightless_terms(case.histories):
            is_told = location_of_call(case.dataflow, weightless.factor) in told
            if not is_told and not zero.issuperset(names_of(case.dataflow, weightless.parameters)):
                yield self._of_weightless(case, weightless)
        for constant in data_terms(case.histories):
            if not _is_of_a_symmetric_formula(case, constant):
                yield self._of_data(case, constant)

    def _of_zero_factor(self, case: Case, factor: ZeroFactor) -> Finding:
        name = case.tensor_name(factor.tensor)
        no_effect = "it brings no gradient" if factor.parameters else "it has no influence on the loss"
        is_touched = is_only_touched(case.dataflow, factor.tensor, factor.call)
        return self.finding(
            f"{name} is multiplied by a literal 0 in all {factor.steps:,} steps: {no_effect}",
            severity="note" if is_touched else self.severity,
            symptom="grad_zero" if factor.parameters else "grad_wrong",
            why="a 0 in a formula is left from a trial, or was meant to be another number",
            fix="nothing, if all parameters are to get a gradient, as for DistributedDataParallel; else leave it out"
            if is_touched
            else "write the weight that it should have, or leave the term out",
            location=factor.location,
            tensors=names_of(case.dataflow, factor.parameters),
            evidence={"steps": factor.steps, "parameters": len(factor.parameters)},
        )

    def _of_data(self, case: Case, term: DataTerm) -> Finding:
        flow = case.dataflow
        return self.finding(
            f"{case.tensor_name(term.tensor)}, a weighted term of the loss, was computed from data alone in all "
            f"{term.steps:,} steps: no gradient comes from it",
            symptom="grad_none",
            why="no parameter has an influence on it, so it changes the value of the loss and nothing else",
            fix="compute it from the result of the model; if it should only be shown, leave it out of the loss",
            location=location_of_call(flow, term.made),
            evidence={"steps": term.steps},
        )

    def _of_weightless(self, case: Case, term: WeightlessTerm) -> Finding:
        flow, location = case.dataflow, location_of_call(case.dataflow, term.factor)
        lines = {} if location is None else case.capture.sources.get(location.file, {})
        line = line_of_capped_division(tree_of(lines), location.line) if location is not None and lines else None
        rounded = None if location is None or line is None else Location(location.file, line)
        return self.finding(
            f"{case.tensor_name(term.tensor)} is multiplied by 0 in all {term.steps:,} steps: this term of the loss "
            "brings no gradient",
            severity=self.severity if rounded else "note",
            symptom="grad_zero",
            why="its parameters learn from other terms only; the weight is an integer division, bounded by 1, which is "
            "0 until its end"
            if rounded
            else "its parameters learn from other terms only; a weight of 0 may be meant, or be an integer division",
            fix="divide with /: min(1, step / length)" if rounded else "give the term a weight, or leave it out",
            location=rounded or location,
            symptom_location=location if rounded not in (None, location) else None,
            tensors=names_of(flow, term.parameters),
            evidence={"steps": term.steps, "parameters": len(term.parameters)},
        )

    def _finding(self, case: Case, location: Location | None, terms: list[DeadTerm]) -> Finding:
        flow, first = case.dataflow, terms[0]
        added = location_of_call(flow, first.sum)
        parameters = sorted({number for term in terms for number in term.parameters})
        name = case.tensor_name(first.tensor)
        cut = _cutter(case, first, location)
        is_switch = first.cut.kind in ("no_grad", "inference")
        by = f"gradients were off in {cut}" if is_switch else f"{cut} cut it off"
        return self.finding(
            f"{name} is added to the loss{at_line(added)} and brings no gradient: {by}",
            symptom="grad_none",
            why=f"it was computed from {case.histories.together(parameters)}, but without a history it is a constant",
            fix=_remedy(first, cut),
            location=location,
            symptom_location=added if added != location else None,
            tensors=names_of(flow, parameters),
            evidence={"terms": len(terms), "parameters": len(parameters)},
        )


def _is_of_a_symmetric_formula(case: Case, term: DataTerm) -> bool:
    """Whether one statement calls a function several times, once for each pair of the same things, as in
    ``cost(x, y) - 0.5 * cost(x, x) - 0.5 * cost(y, y)``: what only data go into takes the bias out of the value."""
    flow = case.dataflow
    rows = flow.ancestors(term.tensor, term.made + 1, flow.step_before(term.made))
    calls = {
        (outer.file, outer.line, function_of(inner)) for row in rows for inner, outer in pairwise(callers(flow, row))
    }
    for file, line, function in calls:
        tree = own_tree(case, file)
        statement = None if tree is None else tree.statement_at(line)
        if statement is not None and _takes_each_thing_twice(statement, function.rpartition(".")[2]):
            return True
    return False


def _takes_each_thing_twice(statement: ast.stmt, called: str) -> bool:
    """Whether several calls of a function take the same things, each in another way."""
    calls = [each for each in ast.walk(statement) if isinstance(each, ast.Call) and called_name(each) == called]
    taken = {frozenset(map(ast.unparse, each.args)) for each in calls}
    times = Counter(arg for args in taken for arg in args)
    return len(taken) > 1 and min(times.values(), default=0) > 1


def _cutter(case: Case, term: DeadTerm, location: Location | None) -> str:
    """The call that cuts, as the program writes it: ``state_dict()`` detaches what it gives."""
    cut, line = call_words(case.dataflow.log.calls[term.cut.call]), case.source_line(location) or ""
    return _STATE if term.cut.kind == "detach" and _STATE[:-1] in line and "detach" not in line else cut


_STATE = "state_dict()"


def _remedy(term: DeadTerm, cut: str) -> str:
    if cut == _STATE:
        return "take the parameters themselves, from named_parameters(): state_dict() detaches what it gives"
    if term.cut.kind in ("no_grad", "inference"):
        return "compute it with gradients on; if it should be a constant, leave it out of the loss"
    return f"add the tensor itself, without {cut}; if it should be a constant, leave it out of the loss"
