"""GV114."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.reached_calls import ReachedCalls
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.samples.chosen_experts import joined_later, result_of_chosen, sends_rows


class RoutedWithoutWeight(Rule):
    """A router chooses who computes a result, and the result is not weighed with what it says.

    What it finds
    -------------
    ``argmax`` or ``topk`` of what a trained layer returns, by which rows are sent to several experts, where the layer's
    own values meet only another term of the loss, such as one that balances the load. Also a choice of the weights of
    an expert from a parameter with a matrix for each, where the layer that chose gets no gradient at all.

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
        unreached: dict[int | None, tuple[int, int, dict[int, None]]] = {}
        for backward in histories.last_trained_backward_of_each_line:
            reached, since = case.backward_calls.reached(backward), flow.step_before(backward)
            for row in range(since, backward):
                call = flow.log.calls[row]
                if plain_name(call.function) not in _CHOOSES or call.call_site in told or not call.live_inputs:
                    continue
                leaves, _ = histories.live_leaves([call.inputs[0].tensor], row)
                result = _result_without_router(case, row, backward, leaves)
                if result is not None:
                    _, parameters = _nearest(case, call.inputs[0].tensor, row, leaves)
                    unreached.setdefault(call.call_site, (row, result, {}))[2].update(dict.fromkeys(parameters))
                    continue
                layer, parameters = _nearest(case, call.inputs[0].tensor, row, leaves & histories.trained)
                if layer is None or not sends_rows(flow, row, backward, leaves):
                    continue
                if _only_aside(case, row, layer, reached):
                    told.add(call.call_site)
                    yield self._finding(case, row, backward, parameters)
        for row, result, found in unreached.values():
            yield self._unreached(case, row, result, tuple(found))

    def _unreached(self, case: Case, row: int, result: int, parameters: tuple[int, ...]) -> Finding:
        flow = case.dataflow
        chosen, location = location_of_call(flow, row), location_of_call(flow, result)
        return self.finding(
            f"{case.histories.together(parameters)} {'chooses' if len(parameters) == 1 else 'choose'} by "
            f"{plain_name(flow.log.calls[row].function)}(){at_line(chosen)} with which weights this line computes, and "
            "get no gradient: the result is not weighed with the value of what was chosen",
            severity="error",
            symptom="grad_none",
            why="a choice has no slope: a router learns from the weight that its value has in the result",
            fix="multiply what is computed with the chosen weights by the value that chose them: "
            "weight, choice = gates.max(-1), then weight[:, None] * out",
            location=location,
            symptom_location=chosen if chosen != location else None,
            tensors=names_of(flow, parameters),
            evidence={"parameters": len(parameters)},
        )

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
_MAX_FOLLOWED = 300


def _result_without_router(case: Case, row: int, backward: int, leaves: frozenset[int]) -> int | None:
    """The call that computes with what was chosen, if the layer that chose is stepped and never gets a gradient."""
    histories = case.histories
    _, parameters = _nearest(case, case.dataflow.log.calls[row].inputs[0].tensor, row, leaves)
    is_idle = bool(parameters) and all(
        each not in histories.reached and histories.optimizers_of(each) for each in parameters
    )
    found = result_of_chosen(case.dataflow, row, backward, leaves) if is_idle else None
    return found if found is None else joined_later(case.dataflow, row, found, backward) or found


def _nearest(case: Case, tensor: int, row: int, leaves: frozenset[int]) -> tuple[int | None, tuple[int, ...]]:
    """The last layer with some of these parameters before the choice, and those."""
    flow = case.dataflow
    for above in reversed(flow.ancestors(tensor, row, flow.step_before(row))):
        found = tuple(use.tensor for use in flow.log.calls[above].inputs if use.tensor in leaves)
        if found:
            return above, found
    return None, ()


def _only_aside(case: Case, row: int, layer: int, reached: ReachedCalls) -> bool:
    """Whether what the choice was made from has a gradient, and meets nothing but numbers and what was made of it."""
    flow = case.dataflow
    call = flow.log.calls[row]
    start = flow.log.calls[layer].outputs[0].tensor
    to_choice = frozenset(flow.ancestors(call.inputs[0].tensor, row, layer))
    own, waiting, is_used = {start}, [start], False
    values = {use.tensor for use in call.outputs if use.requires_grad}
    while waiting and len(own) < _MAX_FOLLOWED:
        given = waiting.pop()
        for user in flow.users(given, None):
            later = flow.log.calls[user]
            is_on_the_way = user in to_choice and user not in reached.members
            if (user not in reached.members and not is_on_the_way) or (user == row and not values):
                continue
            is_used = is_used or (user != row and user not in to_choice)
            others = [use.tensor for use in later.inputs if use.tensor not in own]
            made = later.outputs[0].tensor
            is_number = prod(shape_of(flow, made)) == 1 and all(prod(shape_of(flow, each)) == 1 for each in others)
            if user not in to_choice and not is_number and not all(_follows(flow, row, user, each) for each in others):
                return False
            new = [use.tensor for use in later.outputs if use.requires_grad and use.tensor not in own]
            own.update(new)
            waiting += new if not is_number or not others else []
    return is_used


def _follows(flow: Dataflow, row: int, user: int, tensor: int) -> bool:
    """Whether something was made of a choice, and is not what came out of it, such as the reward of a policy."""
    made = flow.ancestors(tensor, user, row)
    if row not in made:
        return False
    maker = flow.newest_producer(tensor, user)
    is_live = maker is not None and any(use.requires_grad for use in flow.log.calls[maker].outputs)
    return is_live or not any(use.requires_grad for each in made if each > row for use in flow.log.calls[each].outputs)
