"""GV502."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, callers, line_in_function_of, location_of_call, plain_name
from gradviz.analysis.dataflow.failed_backward import FailedBackwards
from gradviz.analysis.dataflow.tensor_words import names_of, together
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.detached_in_vain import detached_in_vain
from gradviz.analysis.rules.bases.overwritten_saved_tensors import overwritten_facts
from gradviz.analysis.rules.bases.sources.cached_parametrizations import FIX_OF_CACHE, WHY_OF_CACHE, line_that_caches
from gradviz.analysis.rules.bases.sources.lines.lines_that_keep import Keeping, statement_that_keeps
from gradviz.analysis.rules.bases.sources.own_files import own_tree
from gradviz.analysis.rules.bases.storing_lines import line_that_stores
from gradviz.analysis.sources.named_by_statements import read_for
from gradviz.graph.call_log import TensorUse
from gradviz.graph.model import CallSite


class StateNotDetached(Rule):
    """A state is carried from one step to the next together with its graph.

    What it finds
    -------------
    A backward that goes through its own step *and* through earlier steps: a recurrent state, a running average or a
    summed loss was computed in one round of the loop and used in the next, with its history. By then the earlier part
    of the graph is freed, or the optimizer has changed its weights. Also weights that ``parametrize.cached()`` keeps
    around several steps: it tells the line that opens it. Where a statement puts the state into a list, a dict or an
    attribute, it tells that one.

    Why it matters
    --------------
    A state without its history is a number; with its history it holds all earlier steps. ``retain_graph=True`` hides
    the first error, makes every step slower than the one before, and leads to an error about an in-place change: the
    weights of the earlier steps no longer exist.

    Example
    -------
    cell = torch.nn.GRUCell(2, 3)
    state = torch.zeros(1, 3)
    for step in range(3):
        state = cell(torch.randn(1, 2), state)
        state.square().sum().backward()

    Instead
    -------
    cell = torch.nn.GRUCell(2, 3)
    state = torch.zeros(1, 3)
    for step in range(3):
        state = cell(torch.randn(1, 2), state.detach())
        state.square().sum().backward()
    """

    code = "GV502"
    name = "state_not_detached"
    severity = "error"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, failed = case.dataflow, case.failed_backwards
        for freed in failed.freed:
            if freed.is_carried_over:
                reached = failed.reached(freed.backward)
                facts = {
                    "tensors": names_of(flow, reached.above(freed.call).leaves),
                    "evidence": {"backward": flow.log.calls[freed.backward].name},
                    **case.facts_of_node(freed.node),
                }
                words = (
                    f"but the backward{at_line(flow.line_of(freed.earlier))} of an earlier step has freed that graph"
                )
                yield self._explain(case, failed, freed.backward, freed.earlier, words, facts)
        for changed in failed.overwritten:
            if changed.is_carried_over and changed.step is not None:
                facts = overwritten_facts(case, flow, failed.reached(changed.backward), changed)
                words = f"but that graph needs the weights from before the step(){at_line(flow.line_of(changed.step))}"
                yield self._explain(case, failed, changed.backward, changed.step, words, facts)

    def _explain(
        self, case: Case, failed: FailedBackwards, backward: int, boundary: int, words: str, facts: dict[str, Any]
    ) -> Finding:
        flow = case.dataflow
        reached = failed.reached(backward)
        crossing = reached.crossing(reached.end_of_round(boundary)) or reached.crossing(boundary)
        cached = line_that_caches(case, backward, crossing)
        if cached is not None:
            return self._cached(case, backward, cached, words, facts)
        states = tuple(dict.fromkeys(use.tensor for _, use in crossing))
        named = names_of(flow, states)
        line = carried_at(case, backward, crossing[-1]) if crossing else flow.line_of(backward)
        what = together(named) if named else f"what was computed{at_line(line)}"
        in_vain = detached_in_vain(case, states, crossing[-1][0] if crossing else backward)
        beside = _detached_beside(case, crossing[-1], boundary) if crossing and in_vain is None else None
        other = in_vain if beside is None else beside
        line = line if other is None else flow.line_of(other)
        kept = _keeping(case, crossing[-1][1].tensor, crossing[-1][0]) if other is None and crossing else None
        place, keeping = location_of_line(line), None
        if kept is not None:
            made, keeping = kept
            place = Location(made.file, keeping.line)
            computed = f"was computed{at_line(made)} and is kept in {keeping.holder}"
            what = f"{together(named)}, which {computed}," if named else f"what {computed}"
        facts |= {
            "symptom": "raises",
            "location": place,
            "symptom_location": location_of_call(flow, backward),
        }
        vain = "" if in_vain is None else f"; the detach(){at_line(line)} changes nothing, as nothing uses its result"
        vain += (
            "" if beside is None else f"; the detach(){at_line(line)} cuts off another part of the state, not this one"
        )
        return self.finding(
            f"{what} is carried over from an earlier step with its graph, {words}{vain}",
            why=f"the backward{at_line(flow.line_of(backward))} goes through its own step and the one before",
            fix=_fix(keeping, in_vain, beside),
            **facts,
        )

    def _cached(self, case: Case, backward: int, cached: Location, words: str, facts: dict[str, Any]) -> Finding:
        places = {"location": cached, "symptom_location": location_of_call(case.dataflow, backward)}
        return self.finding(
            f"cached() keeps the parametrized weights of an earlier step with their graph, {words}",
            why=WHY_OF_CACHE,
            fix=FIX_OF_CACHE,
            **{**facts, **places, "symptom": "raises"},
        )


def _fix(keeping: Keeping | None, in_vain: int | None, beside: int | None) -> str:
    if keeping is not None:
        return f"keep its values without the graph: {keeping.without_graph}; then you need no retain_graph"
    return _FIX_OF_VAIN if in_vain is not None else _FIX if beside is None else _FIX_OF_PART


def _keeping(case: Case, state: int, user: int) -> tuple[CallSite, Keeping] | None:
    """The line that computes a state, and the statement behind it that puts it where the next step finds it."""
    flow, read = case.dataflow, set[str]()
    for line in callers(flow, user):
        tree = own_tree(case, line.file)
        statement = None if tree is None else tree.statement_at(line.line)
        if tree is not None and statement is not None:
            read |= read_for(tree, statement)
    maker = flow.newest_producer(state, user)
    for line in callers(flow, maker) if maker is not None else ():
        tree = own_tree(case, line.file)
        found = None if tree is None else statement_that_keeps(tree, line.line, read)
        if found is not None:
            return line, found
    return None


def _detached_beside(case: Case, crossing: tuple[int, TensorUse], boundary: int) -> int | None:
    """The ``detach()`` of something that the same function has returned beside the state that is carried over; or of a
    variable that goes on without its history, ``theta = theta.detach()``, behind the earlier backward."""
    flow, (user, use) = case.dataflow, crossing
    maker = flow.newest_producer(use.tensor, user)
    made = None if maker is None else flow.line_of(maker)
    for row in range(user - 1, maker if maker is not None else user, -1):
        call = flow.log.calls[row]
        if plain_name(call.function) != "detach" or not call.live_inputs or call.inputs[0].tensor == use.tensor:
            continue
        users = (flow.log.calls[each] for each in flow.users(call.outputs[0].tensor, row))
        if not any(result.requires_grad for each in users for result in each.outputs):
            continue  # It is shown or kept, and no forward goes on with it.
        other = flow.newest_producer(call.inputs[0].tensor, row)
        if other is not None and other > boundary:
            continue  # It was computed after the earlier step, so it is no part of what that step left.
        line = None if other is None else flow.line_of(other)
        is_beside = line is not None and made is not None and (line.file, line.function) == (made.file, made.function)
        is_beside = is_beside and flow.line_of(row) != made
        if is_beside or (row > boundary and _goes_on_detached(case, row, boundary)):
            return row
    return None


def _goes_on_detached(case: Case, row: int, backward: int) -> bool:
    """Whether the function that called backward gives a variable its own values without their history."""
    line, there = (case.dataflow.line_of(each) for each in (row, backward))
    is_in_function = (
        line is not None and there is not None and (line.file, line.function) == (there.file, there.function)
    )
    return is_in_function and _OWN_DETACHED.match(case.source_line(location_of_line(line)) or "") is not None


_OWN_DETACHED = re.compile(r"\s*([\w.]+)\s*=\s*\1\.detach\(\)")
_FIX = "detach() the state before the next step uses it; then you need no retain_graph"
_FIX_OF_PART = "detach() every part of the state there: state = tuple(part.detach() for part in state)"
_FIX_OF_VAIN = (
    "put the result where the state is kept: states[key] = state.detach(); detach() returns a new tensor and leaves "
    "the old one as it is, for which a loop's variable is only a name"
)


def carried_at(case: Case, backward: int, crossing: tuple[int, Any]) -> CallSite | None:
    """The line that stored the state in an object, or computed it: in the loop if a variable there holds it, else where
    it is kept."""
    flow, (user, use) = case.dataflow, crossing
    maker = flow.newest_producer(use.tensor, user)
    if maker is None:
        return flow.line_of(user)
    known = flow.log.tensors[use.tensor]
    stored = next(filter(None, (line_that_stores(case, maker, name) for name in known.names)), None)
    if stored is not None:
        return stored
    is_in_variable = bool(known.names) and known.role == "tensor"
    return line_in_function_of(flow, maker, backward if is_in_variable else user)
