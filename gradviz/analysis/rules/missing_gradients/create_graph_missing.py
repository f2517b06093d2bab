"""GV112."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.constant_gradients import constant_gradients
from gradviz.analysis.cuts.cut_causes import lacks_create_graph
from gradviz.analysis.cuts.dead_terms import DeadTerm, dead_terms
from gradviz.analysis.cuts.first_order_updates import FirstOrderUpdate, first_order_updates
from gradviz.analysis.cuts.missing_gradients import CutOff
from gradviz.analysis.dataflow.call_words import at_line, callers, location_of_call
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.failed_backward import Freed
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rules.bases.cut_rule import CutRule
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import last_line, tree_of


class CreateGraphMissing(CutRule):
    """A gradient is used in a loss, but it was computed without ``create_graph=True``.

    What it finds
    -------------
    A loss, or one term of it, that was computed from the result of ``autograd.grad()``, where that result has no
    history: a gradient penalty, the residual of a differential equation or one summand of it, a meta step. Also weights
    that such a gradient has moved before the loss is computed from them; that is a note, as first-order updates may be
    meant, but for ``retain_graph=True`` that keeps a graph for nothing.

    Why it matters
    --------------
    Without ``create_graph=True``, ``autograd.grad()`` returns numbers without a history. If other terms have one,
    nothing raises: the penalty is in the loss, and no parameter learns from it. Without ``retain_graph=True``, the call
    also frees the graph, and the backward of the loss raises; keeping the graph would only hide the fault.

    Example
    -------
    critic = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(5, 3, requires_grad=True)
        score = critic(x)
        (slope,) = torch.autograd.grad(score.sum(), x, retain_graph=True)
        penalty = (slope.norm(dim=1) - 1).square().mean()
        loss = score.mean() + 10 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    critic = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(5, 3, requires_grad=True)
        score = critic(x)
        (slope,) = torch.autograd.grad(score.sum(), x, create_graph=True)
        penalty = (slope.norm(dim=1) - 1).square().mean()
        loss = score.mean() + 10 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV112"
    name = "create_graph_missing"

    def check(self, case: Case) -> Iterator[Finding]:
        yield from super().check(case)
        told: set[Location | None] = set()
        for term in (*dead_terms(case.histories), *constant_gradients(case.histories)):
            location = _line_that_decides(case, term.cut.call)
            if lacks_create_graph(case.dataflow.log.calls[term.cut.call]) and location not in told:
                told.add(location)
                yield self._of_term(case, term, location)
        yield from self._of_first_order(case, told)
        failed = case.failed_backwards
        for freed in failed.freed:
            if failed.is_of_own_gradient(freed) and not case.dataflow.log.calls[freed.earlier].scalars.get(
                "create_graph"
            ):
                yield self._of_freed_graph(case, freed)

    def _of_first_order(self, case: Case, told: set[Location | None]) -> Iterator[Finding]:
        """Meta steps without second derivatives: meant, unless the program keeps graphs for what nothing uses."""
        lines: dict[Location | None, list[FirstOrderUpdate]] = defaultdict(list)
        for update in first_order_updates(case.histories, case.graph_uses):
            lines[_line_that_decides(case, update.gradient)].append(update)
        for location, updates in lines.items():
            if location not in told:
                yield self._of_update(case, updates, location)

    def _of_update(self, case: Case, updates: list[FirstOrderUpdate], location: Location | None) -> Finding:
        flow, first = case.dataflow, updates[0]
        leaves = sorted({leaf for update in updates for leaf in update.moved})
        updated = location_of_call(flow, first.update)
        keeps = any(update.keeps_its_graph for update in updates)
        moved = case.histories.together(leaves) or "weights"
        place = at_line(updated)
        kept = "; retain_graph=True keeps a graph that nothing uses" if keeps else ""
        return self.finding(
            f"the gradients that move {moved}{'' if moved.endswith(place) else place} are constants for the "
            f"backward{at_line(location_of_call(flow, first.backward))}: no second derivatives{kept}",
            severity="warning" if keeps else "note",
            symptom="grad_wrong",
            why=_WHY,
            changed_line=_with_create_graph(case.source_line(location)) if keeps else None,
            fix=f"{_FIX}, unless first-order updates are meant; then retain_graph=True is not needed",
            location=location,
            symptom_location=updated if updated != location else None,
            tensors=names_of(flow, leaves),
            evidence={"updates": len(updates)},
        )

    def culprit(self, flow: Dataflow, found: CutOff) -> str:
        return "autograd.grad() without create_graph=True"

    def why(self, flow: Dataflow, found: CutOff) -> str:
        return _WHY

    def fix(self, flow: Dataflow, found: CutOff) -> str:
        return _FIX

    def changed_line(self, text: str, found: CutOff) -> str | None:
        return _with_create_graph(text)

    def _of_term(self, case: Case, term: DeadTerm, location: Location | None) -> Finding:
        flow = case.dataflow
        added = location_of_call(flow, term.sum)
        return self.finding(
            f"{case.tensor_name(term.tensor)} is added to the loss{at_line(added)} and brings no gradient: "
            "autograd.grad() computed it without create_graph=True",
            severity="warning",
            symptom="grad_none",
            why=_WHY,
            fix=_FIX,
            changed_line=_with_create_graph(case.source_line(location)),
            location=location,
            symptom_location=added if added != location else None,
            tensors=names_of(flow, term.parameters),
            evidence={"parameters": len(term.parameters)},
        )

    def _of_freed_graph(self, case: Case, freed: Freed) -> Finding:
        flow = case.dataflow
        line = location_of_call(flow, freed.backward)
        return self.finding(
            f"the loss of the backward{at_line(line)} is computed from what autograd.grad() returned, and that "
            "call kept no graph: it freed what this backward needs, and its result is a constant",
            severity="error",
            symptom="raises",
            why=_WHY,
            fix=f"{_FIX}; retain_graph=True alone stops the error, and nothing would learn from the gradient",
            location=_line_that_decides(case, freed.earlier),
            symptom_location=line,
            tensors=names_of(flow, case.failed_backwards.reached(freed.backward).above(freed.call).leaves),
            evidence={
                "earlier_backward": flow.log.calls[freed.earlier].name,
                "backward": flow.log.calls[freed.backward].name,
            },
            **case.facts_of_node(freed.node),
        )


def _line_that_decides(case: Case, row: int) -> Location | None:
    """The line of a call of ``autograd.grad()``; of one that gets ``create_graph`` from an argument of the function
    around it, the line that calls this function."""
    lines = list(islice(callers(case.dataflow, row), _BOTH))
    tree = tree_of(case.capture.sources.get(lines[0].file, {})) if len(lines) == _BOTH else None
    for node in tree.nodes if tree is not None else ():
        is_here = isinstance(node, ast.Call) and node.lineno <= lines[0].line <= last_line(node)
        if tree is None or not is_here or not isinstance(node, ast.Call):
            continue
        given = next((each.value for each in node.keywords if each.arg == "create_graph"), None)
        function = next((each for each in tree.around(node) if isinstance(each, FUNCTIONS)), None)
        names = () if function is None else ast.walk(function.args)
        if isinstance(given, ast.Name) and any(isinstance(each, ast.arg) and each.arg == given.id for each in names):
            return location_of_line(lines[1])
    return location_of_call(case.dataflow, row)


_BOTH = 2


def _with_create_graph(text: str | None) -> str | None:
    """The line, with the option that was meant; None where it names no option that could be exchanged."""
    if text is None or "create_graph" in text or text.count("retain_graph=True") != 1:
        return None
    return text.replace("retain_graph=True", "create_graph=True")


_WHY = "the result of autograd.grad() has a history only with create_graph=True; without it, it is a constant"
_FIX = "pass create_graph=True to this autograd.grad()"
