"""GV501."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import (
    at_line,
    callers,
    line_in_class_of,
    line_in_function_of,
    line_outside_modules,
    operation,
    plain_name,
)
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.failed_backward import FailedBackwards, Freed
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.parameters.entered_graphs import loss_of_another_optimizer
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.gradients.freed_in_engine import call_that_freed_its_graph
from gradviz.analysis.rules.bases.sources.cached_parametrizations import FIX_OF_CACHE, WHY_OF_CACHE, line_that_caches
from gradviz.analysis.rules.bases.storing_lines import line_that_stores_returned
from gradviz.graph.model import CallSite


class GraphFreed(Rule):
    """A backward goes through a graph that an earlier backward has freed.

    What it finds
    -------------
    A second backward through the same calls: two losses that share a part of the model, or a forward pass that is
    computed once and used in every round of a loop. It reports which backward freed the graph, and what both share; of
    losses with optimizers of their own, where the one goes into what the other one trains. Also a hook that goes
    through one graph in each turn of a loop, as for the gradient of an equilibrium.

    Why it matters
    --------------
    A backward frees what a node saved as soon as the node has run. A later backward through the same nodes has nothing
    to compute with. ``retain_graph=True`` keeps that memory; adding the losses needs none.

    Example
    -------
    shared = torch.randn(3, requires_grad=True).exp()
    first, second = shared.sum(), shared.prod()
    first.backward()
    second.backward()

    Instead
    -------
    shared = torch.randn(3, requires_grad=True).exp()
    first, second = shared.sum(), shared.prod()
    (first + second).backward()
    """

    code = "GV501"
    name = "graph_freed"
    severity = "error"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, failed = case.dataflow, case.failed_backwards
        inner = call_that_freed_its_graph(case)
        if inner is not None:
            yield self._in_engine(*inner)
            return
        for found in failed.freed:
            if failed.is_of_own_gradient(found):
                # Without create_graph=True, which keeps the graph, too, it is that of GV112.
                if flow.log.calls[found.earlier].scalars.get("create_graph"):
                    yield self._of_own_gradient(case, flow, found)
            elif not found.is_carried_over:
                yield self._explain(case, flow, failed, found)

    def _in_engine(self, inner: Location, outer: Location) -> Finding:
        return self.finding(
            f"the backward at line {outer.line} runs this line, which goes through the same graph in each turn of a "
            "loop: its first turn frees the graph, and the next raises",
            why="a call of grad() or backward() frees the graph that it goes through, unless it is told to keep it",
            fix="pass retain_graph=True here, in all turns but the last",
            location=inner,
            symptom="raises",
            symptom_location=outer,
        )

    def _of_own_gradient(self, case: Case, flow: Dataflow, found: Freed) -> Finding:
        return self.finding(
            "retain_graph=False freed the graph of the gradient that the "
            f"backward{at_line(flow.line_of(found.backward))} differentiates",
            why="create_graph=True makes a graph of the gradient that goes through the graph of the loss: both are "
            "needed until the last backward",
            fix="leave retain_graph=False out: create_graph=True keeps the graph",
            location=location_of_line(flow.line_of(found.earlier)),
            **_facts(case, found),
        )

    def _explain(self, case: Case, flow: Dataflow, failed: FailedBackwards, found: Freed) -> Finding:
        cached = line_that_caches(case, found.backward, failed.reached(found.backward).crossing(found.earlier))
        if cached is not None:
            return self._cached(case, cached, found)
        if _FREES in (case.source_line(location_of_line(flow.line_of(found.earlier))) or ""):
            return self._of_freeing(case, found)
        other = _loss_without_backward(case, flow, found)
        if other is not None:
            return self._of_other_loss(case, other, found)
        computed = self._computed_once(case, flow, failed, found)
        if computed is not None:
            return self._kept(case, flow, computed, failed, found)
        first, second = flow.line_of(found.earlier), flow.line_of(found.backward)
        shared = f"{operation(flow.log.calls[found.call])}{at_line(flow.line_of(found.call))}"
        entered = loss_of_another_optimizer(case, found)
        if entered is not None:
            here, owned = line_outside_modules(flow, entered.call), case.histories.together(entered.parameters)
            return self.finding(
                f"{entered.name} goes through {shared}, and so does another loss, "
                f"whose optimizer trains {owned}: the backward{at_line(first)} freed it before that{at_line(second)}",
                why="two losses share a part of one graph, and the first backward freed that part",
                fix=f"detach() what line {here.line if here is not None else '?'} uses of it, if that loss should not "
                "train it; else add the losses and call backward() once",
                location=location_of_line(here),
                **_facts(case, found),
            )
        return self.finding(
            f"the backward{at_line(second)} goes through {shared}, which an earlier "
            f"backward{'' if first == second else at_line(first)} has gone through and freed",
            why="two losses share a part of one graph, and the first backward freed that part",
            fix="add the losses and call backward() once, or pass retain_graph=True to the first call; if the first "
            "loss is not meant to train the shared part, detach() what it uses of it",
            location=location_of_line(first),
            **_facts(case, found),
        )

    def _of_freeing(self, case: Case, found: Freed) -> Finding:
        flow = case.dataflow
        first, second = (location_of_line(flow.line_of(each)) for each in (found.earlier, found.backward))
        again = "it runs again" if first == second else f"the backward{at_line(second)} needs it"
        return self.finding(
            f"retain_graph=False frees the graph here, and {again}",
            why="without the results that its operations saved, no other backward goes through a graph",
            fix="pass retain_graph=True here, in all calls but the last",
            location=first,
            **_facts(case, found),
        )

    def _of_other_loss(self, case: Case, other: int, found: Freed) -> Finding:
        flow = case.dataflow
        root = flow.log.calls[found.backward].roots[0].tensor
        name = case.tensor_name(flow.log.calls[other].outputs[0].tensor)
        return self.finding(
            f"this is the second backward of {case.tensor_name(root)}, whose graph the first"
            f"{at_line(flow.line_of(found.earlier))} has freed, and {name}, computed"
            f"{at_line(flow.line_of(other))} in between, gets none",
            why="each backward frees the graph that it goes through; the loss that was computed last trains nothing",
            fix=f"call backward() of {name} here",
            location=location_of_line(flow.line_of(found.backward)),
            **_facts(case, found) | {"symptom_location": location_of_line(flow.line_of(found.earlier))},
        )

    def _cached(self, case: Case, cached: Location, found: Freed) -> Finding:
        return self.finding(
            "cached() keeps the parametrized weights with their graph, which the "
            f"backward{at_line(case.dataflow.line_of(found.earlier))} has gone through before, and freed",
            why=WHY_OF_CACHE,
            fix=FIX_OF_CACHE,
            location=cached,
            **_facts(case, found),
        )

    def _kept(self, case: Case, flow: Dataflow, computed: CallSite, failed: FailedBackwards, found: Freed) -> Finding:
        """What a line computed is used by several backward calls."""
        first = at_line(flow.line_of(found.earlier))
        compared, stored = _compared_with_new(case, failed, found), line_that_stores_returned(case, computed)
        why = "each backward frees the graph that it goes through, so every iteration needs a new one"
        if compared is None and stored is not None:
            words = (
                f"computes what line {stored.line} keeps with its graph, and it is used again after the "
                f"backward{first} has freed that graph"
            )
            fix = (
                f"compute it again in every round, before its backward, rather than keep it at line {stored.line}; if "
                "nothing in it is trained, wrap it in torch.no_grad()"
            )
        elif compared is None:
            words = f"runs once, but its result is used again after the backward{first} has freed its graph"
            fix = (
                f"run line {computed.line} again in every round, before its backward; if nothing in it is trained, "
                "wrap it in torch.no_grad()"
            )
        else:
            words = (
                f"keeps values of the model with their graph, and line {compared.line} compares new ones with them: "
                f"the backward{first} has gone through that graph before, and freed it"
            )
            why = (
                "old values, such as the log-probabilities of what was drawn, are constants: no gradient should go "
                "through them"
            )
            fix = "detach() them where they are kept, or compute them under torch.no_grad()"
        facts = _facts(case, found)
        if stored is not None:
            facts["symptom_location"] = location_of_line(computed)
        return self.finding(
            f"line {computed.line} {words}", why=why, fix=fix, location=location_of_line(stored or computed), **facts
        )

    def _computed_once(self, case: Case, flow: Dataflow, failed: FailedBackwards, found: Freed) -> CallSite | None:
        """The line that runs once, if one line of a loop calls backward again and again on its result, or if one line
        uses the result again in each round, whichever line calls backward there."""
        crossing = failed.reached(found.backward).crossing(found.earlier)
        if not is_same_line(flow, found.earlier, found.backward):
            return _used_again(flow, failed, found)
        is_round_of_its_own = any(user != found.backward for user, _ in crossing)
        if not is_round_of_its_own and not _have_same_root(flow, found.earlier, found.backward):
            return None
        members = failed.reached(found.earlier).members
        makers = ((flow.newest_producer(use.tensor, user), user, use.tensor) for user, use in crossing)
        shared = [(maker, user, tensor) for maker, user, tensor in makers if maker is not None and maker in members]
        if not shared:
            return None
        # The newest of several may be computed from the first.
        maker, user, tensor = min(shared)
        if not flow.log.tensors[tensor].names and (kept := line_in_class_of(flow, maker, user)) is not None:
            return kept
        line = line_in_function_of(flow, maker, found.backward)
        # The line of the loop calls the model anew, and the model goes on with what it has kept: the line is in there.
        if line is None or not _runs_between(flow, line, found.earlier, found.backward):
            return line
        own = flow.line_of(maker)
        # A line that asks another object, which computes it once and keeps it, runs in every round without a call.
        if own is not None and line_that_stores_returned(case, own) is not None:
            return own
        inner = line_in_class_of(flow, maker, user) or line_in_function_of(flow, maker, user)
        is_inner_once = inner is not None and not _runs_between(flow, inner, found.earlier, found.backward)
        return inner if is_inner_once else flow.line_of(maker)


def _loss_without_backward(case: Case, flow: Dataflow, found: Freed) -> int | None:
    """The call that computed a loss from what is trained, after the first backward of another one and before its second
    on another line, if nothing uses it."""
    if is_same_line(flow, found.earlier, found.backward) or not _have_same_root(flow, found.earlier, found.backward):
        return None
    calls = flow.log.calls
    for row in range(found.backward - 1, found.earlier, -1):
        results = calls[row].outputs
        if len(results) != 1 or not results[0].has_grad_fn or flow.log.tensors[results[0].tensor].facts.shape:
            continue
        tensor = results[0].tensor
        is_unused = bool(flow.log.tensors[tensor].names) and not flow.users(tensor, row)
        if is_unused and case.histories.live_leaves((tensor,), found.backward)[0] & case.histories.trained:
            return row
    return None


def _used_again(flow: Dataflow, failed: FailedBackwards, found: Freed) -> CallSite | None:
    """The line that computed what one line uses in the round of either backward."""
    members, calls = failed.reached(found.earlier).members, flow.log.calls
    lines = {(use.tensor, tuple(callers(flow, row))) for row in members for use in calls[row].inputs}
    for user, use in failed.reached(found.backward).crossing(found.earlier):
        maker = flow.newest_producer(use.tensor, user)
        if maker in members and (use.tensor, tuple(callers(flow, user))) in lines:
            kept = line_in_class_of(flow, maker, user)
            return kept if kept is not None else line_in_function_of(flow, maker, user)
    return None


def _runs_between(flow: Dataflow, line: CallSite, earlier: int, later: int) -> bool:
    """Whether a line made a call of the later round, also through functions that it calls."""
    sites = (site for row in range(earlier + 1, later) for site in callers(flow, row))
    return any((site.file, site.line) == (line.file, line.line) for site in sites)


def _facts(case: Case, found: Freed) -> dict[str, Any]:
    """What is told of every graph that was freed."""
    flow = case.dataflow
    return {
        "symptom": "raises",
        "symptom_location": location_of_line(flow.line_of(found.backward)),
        "tensors": names_of(flow, case.failed_backwards.reached(found.backward).above(found.call).leaves),
        "evidence": {
            "earlier_backward": flow.log.calls[found.earlier].name,
            "backward": flow.log.calls[found.backward].name,
        },
        **case.facts_of_node(found.node),
    }


_FREES = "retain_graph=False"
_MAX_PARTS = 6
_PARTS = frozenset({"getitem", "index_select", "gather", "view", "reshape", "squeeze", "unsqueeze", "flatten", "to"})


def _compared_with_new(case: Case, failed: FailedBackwards, found: Freed) -> CallSite | None:
    """The line that subtracts the values whose graph is gone from new ones, made with the same parameters."""
    flow, histories = case.dataflow, case.histories
    reached = failed.reached(found.backward)
    for row, use in reached.crossing(found.earlier):
        for _ in range(_MAX_PARTS):
            call = flow.log.calls[row]
            name = plain_name(call.function)
            if name in ("sub", "div") and len(call.live_inputs) == _BOTH:
                old, new = (histories.live_leaves((each.tensor,), row)[0] for each in call.live_inputs)
                return flow.line_of(row) if old & new & histories.trained else None
            following = [
                each for part in call.outputs for each in flow.users(part.tensor, row) if each in reached.members
            ]
            if name not in _PARTS or use.tensor not in [each.tensor for each in call.inputs] or not following:
                break
            row, use = following[0], call.outputs[0]
    return None


_BOTH = 2


def is_same_line(flow: Dataflow, call: int, other: int) -> bool:
    """Whether two calls were made from the same lines, all the way up the stack."""
    return list(callers(flow, call)) == list(callers(flow, other))


def _have_same_root(flow: Dataflow, call: int, other: int) -> bool:
    roots = [{use.tensor for use in flow.log.calls[row].roots} for row in (call, other)]
    return bool(roots[0] & roots[1])
