"""GV866."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import ERRORS_OF_VALUES, location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import DENSE_LAYERS
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import calls_in_training, value_maker
from gradviz.graph.call_log import Call, TensorUse


class BestInsteadOfTaken(Rule):
    """Q-learning changes the value of the best action, not that of the action that was taken.

    What it finds
    -------------
    An error between the largest value that a network gives for each state, with a gradient, and a target that is the
    sum of a reward and the largest value of the following state.

    Why it matters
    --------------
    The reward came from the action that was taken, which often is not the best one: it may be an old one, or one that
    was drawn at random. Its reward is then learned as the value of another action.

    Example
    -------
    network = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(3):
        states, following = torch.randn(8, 4), torch.randn(8, 4)
        actions, rewards = torch.randint(0, 2, (8,)), torch.randn(8)
        with torch.no_grad():
            target = rewards + 0.9 * network(following).max(1).values
        values = network(states).max(1).values
        loss = torch.nn.functional.mse_loss(values, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    network = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(3):
        states, following = torch.randn(8, 4), torch.randn(8, 4)
        actions, rewards = torch.randint(0, 2, (8,)), torch.randn(8)
        with torch.no_grad():
            target = rewards + 0.9 * network(following).max(1).values
        values = network(states).gather(1, actions[:, None])[:, 0]
        loss = torch.nn.functional.mse_loss(values, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV866"
    name = "best_instead_of_taken"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for rows in calls_in_training(flow, ERRORS_OF_VALUES):
            found = [_best_of_states(flow, row) for row in rows[-_EXAMINED:]]
            if found[-1] is not None and all(each is not None for each in found):
                yield self._finding(flow, rows[-1], found[-1])

    def _finding(self, flow: Dataflow, row: int, best: int) -> Finding:
        location, loss = two_lines(flow, best, row)
        function = plain_name(flow.log.calls[best].function)
        return self.finding(
            "the target, a reward and the value of what followed, is learned as the value of the best action: "
            f"{function}() chooses it, whichever action was taken",
            symptom="grad_wrong",
            why="the reward belongs to the action that was taken; the best one only counts in the state that followed",
            fix="choose the value of the action that was taken: values.gather(1, actions.unsqueeze(1)).squeeze(1)",
            location=location or location_of_call(flow, row),
            symptom_location=loss,
        )


_LARGEST = frozenset({"max", "amax"})
_CHOSEN = _LARGEST | {"gather", "take_along_dim"}
_EXAMINED = 4
_BOTH = 2
_MOST_ABOVE = 60


def _best_of_states(flow: Dataflow, row: int) -> int | None:
    """The call that chose the largest value of each state for an error whose target is a reward and a later value."""
    call = flow.log.calls[row]
    if len(call.inputs) != _BOTH or len(call.live_inputs) != 1:
        return None
    live, target = sorted(call.inputs, key=lambda use: not use.requires_grad)
    best = value_maker(flow, live.tensor, row)
    added = value_maker(flow, target.tensor, row, through=frozenset({"detach"}))
    if best is None or added is None or not _is_largest_of_actions(flow, best[1]):
        return None
    shape = shape_of(flow, best[1].inputs[0].tensor)
    is_sum = plain_name(added[1].function) in ("add", "addcmul") and len(added[1].inputs) >= _BOTH
    if not is_sum or not any(not _is_of_network(flow, use, added[0]) for use in added[1].inputs):
        return None
    above = flow.ancestors(target.tensor, row, since=flow.step_before(row))[-_MOST_ABOVE:]
    later = (flow.log.calls[each] for each in above if plain_name(flow.log.calls[each].function) in _CHOSEN)
    return best[0] if any(shape_of(flow, each.inputs[0].tensor) == shape for each in later) else None


def _is_largest_of_actions(flow: Dataflow, call: Call) -> bool:
    if plain_name(call.function) not in _LARGEST or len(call.inputs) != 1:
        return False
    shape = shape_of(flow, call.inputs[0].tensor)
    return len(shape) == _BOTH and axis_of(call, _BOTH) == 1 and shape[1] > 1


def _is_of_network(flow: Dataflow, use: TensorUse, row: int) -> bool:
    above = flow.ancestors(use.tensor, row, since=flow.step_before(row))[-_MOST_ABOVE:]
    return any(plain_name(flow.log.calls[each].function) in DENSE_LAYERS for each in above)
