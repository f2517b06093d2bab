"""GV754."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import DIFFERENCES, at_line, call_words, calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, value_maker
from gradviz.analysis.rules.bases.losses.targets.summands import is_discount, summands
from gradviz.graph.call_log import Call, TensorUse


class IndexAsValue(Rule):
    """The target of a value function is computed with the number of the best action, not with its value.

    What it finds
    -------------
    A loss that compares a network's values with rewards plus a discounted integer that ``max(dim)[1]`` or ``argmax()``
    took from the scores of a network.

    Why it matters
    --------------
    ``max(dim)`` returns the largest values and where they are. The second of them is the number of an action: states
    are then worth more if the best action stands further back, and the network learns the order of the actions.

    Example
    -------
    network = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(3):
        states, following, rewards = torch.randn(8, 4), torch.randn(8, 4), torch.randn(8)
        with torch.no_grad():
            target = rewards + 0.9 * network(following).max(1)[1]
        loss = torch.nn.functional.mse_loss(network(states)[:, 0], target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    network = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(3):
        states, following, rewards = torch.randn(8, 4), torch.randn(8, 4), torch.randn(8)
        with torch.no_grad():
            target = rewards + 0.9 * network(following).max(1)[0]
        loss = torch.nn.functional.mse_loss(network(states)[:, 0], target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV754"
    name = "index_as_value"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, DIFFERENCES):
            is_error = len(call.inputs) == _BOTH and len(call.live_inputs) == 1
            if not is_error or not flow.has_step_after(row):
                continue
            taken = _index_in_target(flow, row)
            if taken is not None and flow.log.calls[taken].call_site not in told:
                told.add(flow.log.calls[taken].call_site)
                yield self._finding(case, taken, row)

    def _finding(self, case: Case, taken: int, row: int) -> Finding:
        flow = case.dataflow
        location, loss = two_lines(flow, _edited(case, taken), row)
        words = call_words(flow.log.calls[taken])
        return self.finding(
            f"the target{at_line(loss)} adds where {words} found the best action, an "
            "integer, to the rewards, and not what that action is worth",
            symptom="grad_wrong",
            why="the number of an action says nothing of its value",
            fix="take the values: scores.max(dim).values, which is max(dim)[0]; or gather them at the indexes",
            location=location,
            symptom_location=loss,
        )


def _edited(case: Case, taken: int) -> int:
    """The call to change: where a line keeps both results, the values and the indexes, the one that goes on with the
    indexes."""
    flow, call = case.dataflow, case.dataflow.log.calls[taken]
    if not _TAKES_BOTH.match(case.source_line(case.location_of_call(taken)) or ""):
        return taken
    indexes = (use.tensor for use in call.outputs if use.place == "return[1]")
    return next((row for index in indexes for row in flow.users(index, taken)), taken)


_TAKES_BOTH = re.compile(r"\s*\(?(?!_\b)[\w.]+\s*,\s*[\w.]+\)?\s*=(?!=)")
_OF_NETWORKS = frozenset({"linear", "conv2d", "conv1d", "embedding", "matmul", "addmm"})
_OF_SEVERAL = frozenset({"add", "sub", "mul", "addcmul", "where", "lerp"})
_THROUGH = frozenset({*_OF_SEVERAL, "neg", "detach", "div", "type_as", "clone", *SHAPE_ONLY})
_INDEXES = frozenset({"argmax", "max", "topk", "sort", "argsort", "min", "argmin", "kthvalue", "median"})
_ONLY_INDEXES = frozenset({"argmax", "argsort", "argmin"})
_BOTH = 2
_MAX_CALLS = 20
_MOST_ABOVE = 60


def _index_in_target(flow: Dataflow, row: int) -> int | None:
    """The call that took indexes from a network's scores, if the target of an error adds them to something else."""
    live, dead = sorted(flow.log.calls[row].inputs, key=lambda use: not use.requires_grad)
    is_chosen = _is_chosen(flow, live.tensor, row)
    for part in summands(flow, dead, row, _onward, lambda _, call: is_discount(call), _MAX_CALLS):
        is_value = part.is_added and (part.is_discounted or is_chosen)
        if is_value and _is_of_actions(flow, part.use.tensor, part.made):
            return part.made
    return None


def _onward(call: Call) -> Iterable[TensorUse]:
    name = plain_name(call.function)
    if name not in _THROUGH or call.kind != "operation":
        return ()
    return call.inputs if name in _OF_SEVERAL else call.inputs[:1]


def _is_of_actions(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a call returned a tensor as the indexes of the largest of a network's scores."""
    call = flow.log.calls[row]
    name = plain_name(call.function)
    is_index = name in _ONLY_INDEXES or any(use.tensor == tensor and use.place == "return[1]" for use in call.outputs)
    if not is_index or name not in _INDEXES or not call.inputs:
        return False
    above = flow.ancestors(call.inputs[0].tensor, row, since=flow.step_before(row))[-_MOST_ABOVE:]
    return any(plain_name(flow.log.calls[each].function) in _OF_NETWORKS for each in above)


def _is_chosen(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a prediction is one of several scores of each sample."""
    made = value_maker(flow, tensor, row)
    return made is not None and plain_name(made[1].function) == "gather"
