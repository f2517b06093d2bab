"""GV851."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import call_words, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import SourceTree, called_name


class HookedAgain(Rule):
    """A hook is registered again and again, and a loss counts what it kept once for each of them.

    What it finds
    -------------
    A line that computes a term of the loss from one result several times in a step, more often as the training goes on,
    where the program registers a forward hook in a loop, or in a function that a loop calls.

    Why it matters
    --------------
    Registering a hook adds one to those that are there. In the tenth epoch each result is kept ten times, and a
    penalty on it weighs ten times what was meant. Nothing raises.

    Example
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    kept = []
    for epoch in range(4):
        model.register_forward_hook(lambda module, given, made: kept.append(made))
        for step in range(2):
            kept.clear()
            error = model(torch.randn(8, 4)).square().mean()
            loss = error + 0.01 * sum(each.abs().sum() for each in kept)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    kept = []
    model.register_forward_hook(lambda module, given, made: kept.append(made))
    for epoch in range(4):
        for step in range(2):
            kept.clear()
            error = model(torch.randn(8, 4)).square().mean()
            loss = error + 0.01 * sum(each.abs().sum() for each in kept)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """

    code = "GV851"
    name = "hooked_again"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        location = next(_registrations_in_loops(case), None)
        growing = None if location is None else next(_growing_terms(case.dataflow), None)
        if location is not None and growing is not None:  # the other calls on what was kept say the same
            yield self._finding(case.dataflow, *growing, location)

    def _finding(self, flow: Dataflow, row: int, times: int, location: Location) -> Finding:
        used = location_of_call(flow, row)
        return self.finding(
            f"{call_words(flow.log.calls[row])} takes one result {times:,} times in a step, once in the first: a hook "
            "that keeps it is registered again and again",
            symptom="grad_wrong",
            why="a hook stays until its handle is removed: what the loss computes from the results that were kept "
            "counts once for each registration",
            fix="register it once, before the loop; or keep the handle, and handle.remove() at the end of each round",
            location=location,
            symptom_location=used if used != location else None,
            evidence={"times": times},
        )


_REGISTERS = frozenset({"register_forward_hook", "register_forward_pre_hook"})
_MIN_TIMES = 3
_MAX_DEPTH = 3


def _growing_terms(flow: Dataflow) -> Iterator[tuple[int, int]]:
    """Calls of lines that compute the same from one tensor ever more often: the last, and how often in its step."""
    counts: dict[Location | None, dict[int, dict[tuple[object, ...], int]]] = defaultdict(dict)
    last: dict[Location | None, int] = {}
    for row, call in enumerate(flow.log.calls):
        if call.kind != "operation" or len(call.inputs) != 1 or not call.live_inputs or not call.outputs:
            continue
        if flow.log.tensors[call.inputs[0].tensor].role != "tensor" or not flow.has_step_after(row):
            continue
        use, line = call.inputs[0], location_of_call(flow, row)
        of_step = counts[line].setdefault(flow.step_before(row), {})
        key = plain_name(call.function), use.tensor, use.version, *sorted(map(repr, call.scalars.items()))
        of_step[key] = of_step.get(key, 0) + 1
        if of_step[key] > 1:
            last[line] = row
    for line, by_step in counts.items():
        times = [max(each.values()) for each in by_step.values()]
        if times[0] == 1 and times[-1] >= _MIN_TIMES and all(one <= other for one, other in pairwise(times)):
            yield last[line], times[-1]


def _registrations_in_loops(case: Case) -> Iterator[Location]:
    """Lines that register a forward hook in each round of a training, or call a function of the program that does."""
    for file, tree in own_files(case):
        training = _functions_that_train(tree)
        for node in tree.nodes:
            if isinstance(node, ast.Call) and called_name(node) in _REGISTERS and not _is_removed(tree, node):
                yield from (Location(file, each.lineno) for each in _in_rounds(tree, node, training, _MAX_DEPTH))


def _is_removed(tree: SourceTree, call: ast.Call) -> bool:
    """Whether the loop or the function around a registration also removes a hook, or holds it in a ``with``."""
    around = next(iter(tree.loops_around(call)), tree.scope(call))
    nodes = [*ast.walk(around)]
    withs = (item.context_expr for node in nodes if isinstance(node, ast.With) for item in node.items)
    return call in withs or any(isinstance(node, ast.Call) and called_name(node) == "remove" for node in nodes)


def _functions_that_train(tree: SourceTree) -> set[str]:
    """Functions that call ``backward()``, and those that call these."""
    calls = {
        node.name: {called_name(each) for each in ast.walk(node)} for node in tree.nodes if isinstance(node, FUNCTIONS)
    }
    found = {"backward"}
    for _ in range(_MAX_DEPTH):
        found |= {name for name, called in calls.items() if called & found}
    return found


def _in_rounds(tree: SourceTree, call: ast.Call, training: set[str], depth: int) -> Iterator[ast.Call]:
    """The call itself, if it stands in a loop or in a function that trains; else those of the function around it."""
    around = tree.scope(call)
    in_loop = any(called_name(each) in training for loop in tree.loops_around(call) for each in ast.walk(loop))
    if in_loop or (isinstance(around, FUNCTIONS) and around.name in training):
        yield call
    elif isinstance(around, FUNCTIONS) and depth:
        for node in tree.nodes:
            if isinstance(node, ast.Call) and called_name(node) == around.name:
                yield from _in_rounds(tree, node, training, depth - 1)
