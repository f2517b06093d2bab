"""GV668."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import name_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call


class BootstrapsAtEnds(Rule):
    """The value of the next state counts only where an episode has ended.

    What it finds
    -------------
    Rewards to which values that a network made are added, times a flag of zeros and ones which is named for the end of
    an episode (``done``, ``terminated``) and is one in less than half of the samples, where it should be
    ``1 - done``.

    Why it matters
    --------------
    After the last state of an episode nothing comes, so its value is left out: only the reward counts. Turned round,
    all ordinary steps lose the value of what follows, and the network learns immediate rewards.

    Example
    -------
    network = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(3):
        states, following = torch.randn(8, 4), torch.randn(8, 4)
        done = torch.zeros(8)
        done[step] = 1.0
        with torch.no_grad():
            target = torch.randn(8) + 0.9 * done * network(following).max(1).values
        loss = (network(states)[:, 0] - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    network = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(3):
        states, following = torch.randn(8, 4), torch.randn(8, 4)
        done = torch.zeros(8)
        done[step] = 1.0
        with torch.no_grad():
            target = torch.randn(8) + 0.9 * (1 - done) * network(following).max(1).values
        loss = (network(states)[:, 0] - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV668"
    name = "bootstraps_at_ends"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[tuple[int, int]]] = defaultdict(list)
        for row, call in enumerate(flow.log.calls):
            flag = _flag_of(flow, row, call)
            if flag is not None and flow.has_step_after(row):
                lines[call.call_site].append((row, flag))
        for found in lines.values():
            counts = [values for row, flag in found if (values := flow.values(flag, row)) is not None]
            ones, total = sum(each.count - each.zeros for each in counts), sum(each.count for each in counts)
            if 0 < ones < total / 2 and all(each.minimum in (0, 1) and each.maximum in (0, 1) for each in counts):
                yield self._finding(flow, *found[-1], ones / total)

    def _finding(self, flow: Dataflow, row: int, flag: int, share: float) -> Finding:
        name = name_of(flow.log.tensors[flag])
        return self.finding(
            f"the value of what follows is multiplied by {name}, which is 1 in {share:.0%} of the samples: it counts "
            "only where an episode has ended",
            symptom="grad_wrong",
            why="nothing follows the end of an episode; everywhere else its value is part of the target",
            fix=f"turn the flag around: reward + gamma * (1 - {name}) * value",
            location=location_of_call(flow, row),
        )


_ENDS = re.compile(r"(^|[._])(dones?|terminals?|terminated|terminations?|is_done|finished|episode_ends?)(_\w+)?$")
_BOTH = 2
_SCALES = frozenset({"mul", "float", "to", "unsqueeze", "squeeze"})
_OF_NETWORKS = frozenset({"linear", "conv2d", "conv1d", "embedding"})
_MAX_SCALES = 4
_MAX_ABOVE = 40


def _flag_of(flow: Dataflow, row: int, call: Call) -> int | None:
    """The flag by which a call multiplies a network's values, to which rewards are then added."""
    if plain_name(call.function) != "mul" or len(call.inputs) != _BOTH or not call.outputs:
        return None
    for flag, value in (call.inputs, tuple(reversed(call.inputs))):
        named = None if flag.requires_grad else _named_end(flow, flag.tensor, row)
        if named is not None and _is_of_network(flow, value.tensor, row) and _is_added(flow, row, call):
            return named
    return None


def _named_end(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The tensor that is named for the end of an episode, perhaps times a discount."""
    for _ in range(_MAX_SCALES):
        if any(_ENDS.search(name) for name in flow.log.tensors[tensor].names):
            return tensor
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or plain_name(call.function) not in _SCALES or len(call.inputs) != 1:
            return None
        row, tensor = made, call.inputs[0].tensor
    return None


def _is_of_network(flow: Dataflow, tensor: int, row: int) -> bool:
    above = flow.ancestors(tensor, row, since=flow.step_before(row))[-_MAX_ABOVE:]
    return any(plain_name(flow.log.calls[each].function) in _OF_NETWORKS for each in above)


def _is_added(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether another tensor without a gradient is added to the product: the rewards."""
    tensor = call.outputs[0].tensor
    for _ in range(_MAX_SCALES):
        users = [(user, flow.log.calls[user]) for user in flow.users(tensor, row)]
        for user, used in users:
            others = [use.tensor for use in used.inputs if use.tensor != tensor]
            if plain_name(used.function) == "add" and len(others) == 1 and not _is_of_network(flow, others[0], user):
                return True
        scaled = [(user, used) for user, used in users if plain_name(used.function) == "mul" and len(used.inputs) == 1]
        if len(scaled) != 1:
            return False
        row, tensor = scaled[0][0], scaled[0][1].outputs[0].tensor
    return False
