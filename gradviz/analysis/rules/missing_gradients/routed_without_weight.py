"""GV114."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.dataflow.reached_calls import ReachedCalls
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule


class RoutedWithoutWeight(Rule):
    """A router chooses who computes a result, and the result is not weighed with what it says.

    What it finds
    -------------
    ``argmax`` or ``topk`` of what a trained layer returns, by which rows are sent to several experts, where the layer's
    own values meet only another term of the loss, such as one that balances the load.

    Why it matters
    --------------
    A choice has no gradient. The router learns from its weight in the result: without it, it only learns to balance,
    and never which expert is right. It gets a gradient, so nothing looks wrong.

    Example
    -------
    router = torch.nn.Linear(4, 2)
    experts = torch.nn.ModuleList([torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)])
    optimizer = torch.optim.SGD([*router.parameters(), *experts.parameters()], lr=0.1)
    for step in range(3):
        x = torch.randn(16, 4)
        gates = router(x).softmax(1)
        choice = gates.argmax(1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(experts):
            out[choice == i] = expert(x[choice == i])
        loss = (out - x.flip(1)).square().mean() + 0.01 * gates.mean(0).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    router = torch.nn.Linear(4, 2)
    experts = torch.nn.ModuleList([torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)])
    optimizer = torch.optim.SGD([*router.parameters(), *experts.parameters()], lr=0.1)
    for step in range(3):
        x = torch.randn(16, 4)
        gates = router(x).softmax(1)
        weight, choice = gates.max(1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(experts):
            out[choice == i] = expert(x[choice == i])
        loss = (weight[:, None] * out - x.flip(1)).square().mean() + 0.01 * gates.mean(0).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV114"
    name = "routed_without_weight"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, histories = case.dataflow, case.histories
        told: set[int | None] = set()
        for backward in histories.last_trained_backward_of_each_line:
            reached, since = case.backward_calls.reached(backward), flow.step_before(backward)
            for row in range(since, backward):
                call = flow.log.calls[row]
                if plain_name(call.function) not in _CHOOSES or call.call_site in told or not call.live_inputs:
                    continue
                leaves, _ = histories.live_leaves([call.inputs[0].tensor], row)
                parameters = _nearest(case, call.inputs[0].tensor, row, leaves & histories.trained)
                if parameters and _sends_rows(case, row, backward) and _only_aside(case, row, reached):
                    told.add(call.call_site)
                    yield self._finding(case, row, backward, parameters)

    def _finding(self, case: Case, row: int, backward: int, parameters: tuple[int, ...]) -> Finding:
        flow = case.dataflow
        location, loss = location_of_call(flow, row), location_of_call(flow, backward)
        return self.finding(
            f"{case.histories.together(parameters)} {'chooses' if len(parameters) == 1 else 'choose'} by "
            f"{plain_name(flow.log.calls[row].function)}() which rows go where, and get no gradient for it: their own "
            f"values only meet another term of the loss{at_line(loss)}",
            symptom="grad_wrong",
            why="a choice has no slope: a router learns from the weight that its value has in the result",
            fix="multiply what is computed for the chosen rows by the value that chose them: "
            "weight, choice = gates.max(-1), then weight[:, None] * out; if the choice is not meant to be learned, "
            "take it from values without gradients (detach())",
            location=location,
            symptom_location=loss,
            tensors=names_of(flow, parameters),
            evidence={"parameters": len(parameters)},
        )


_CHOOSES = frozenset({"argmax", "argmin", "topk", "max", "min"})
_TAKES_ROWS = frozenset({"getitem", "setitem", "index_put", "where", "masked_select", "masked_scatter"})
_SHAPE_ONLY = frozenset({"squeeze", "getitem", "view", "reshape", "flatten", "unbind"})
_MAX_FOLLOWED = 300


def _nearest(case: Case, tensor: int, row: int, leaves: frozenset[int]) -> tuple[int, ...]:
    """The parameters of the last layer with some before the choice."""
    flow = case.dataflow
    for above in reversed(flow.ancestors(tensor, row, flow.step_before(row))):
        found = tuple(use.tensor for use in flow.log.calls[above].inputs if use.tensor in leaves)
        if found:
            return found
    return ()


def _sends_rows(case: Case, row: int, backward: int) -> bool:
    """Whether what was chosen is compared with several numbers, and each mask takes rows of something trained."""
    flow = case.dataflow
    numbers = set()
    waiting = [(use.tensor, row) for use in flow.log.calls[row].outputs if not use.requires_grad]
    while waiting:
        chosen, after = waiting.pop()
        for user in flow.users(chosen, after):
            call = flow.log.calls[user]
            if user >= backward or not call.outputs or len(call.inputs) != 1:
                continue
            if plain_name(call.function) in _SHAPE_ONLY and call.outputs[0].tensor != chosen:
                waiting.append((call.outputs[0].tensor, user))
            elif plain_name(call.function) == "eq":
                takers = (flow.log.calls[each] for each in flow.users(call.outputs[0].tensor, user))
                if any(plain_name(each.function) in _TAKES_ROWS and each.live_inputs for each in takers):
                    numbers.add(call.scalars.get("1"))
    return len(numbers) > 1


def _only_aside(case: Case, row: int, reached: ReachedCalls) -> bool:
    """Whether what the choice was made from has a gradient, and meets nothing but numbers and what was made of it."""
    flow = case.dataflow
    call = flow.log.calls[row]
    start = call.inputs[0].tensor
    own, waiting, is_used = {start}, [start], False
    values = {use.tensor for use in call.outputs if use.requires_grad}
    while waiting and len(own) < _MAX_FOLLOWED:
        given = waiting.pop()
        for user in flow.users(given, None):
            if user not in reached.members or (user == row and not values):
                continue
            is_used = is_used or user != row
            later = flow.log.calls[user]
            others = [use.tensor for use in later.inputs if use.tensor not in own]
            made = later.outputs[0].tensor
            is_number = prod(shape_of(flow, made)) == 1 and all(prod(shape_of(flow, each)) == 1 for each in others)
            if not is_number and any(row not in flow.ancestors(each, user, row) for each in others):
                return False
            new = [use.tensor for use in later.outputs if use.requires_grad and use.tensor not in own]
            own.update(new)
            waiting += new if not is_number or not others else []
    return is_used
