"""GV668."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import name_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.products import product_of
from gradviz.analysis.rules.bases.sequences.positions.position_masks import hidden_by
from gradviz.graph.call_log import Call


class BootstrapsAtEnds(Rule):
    """The value of the next state counts only where an episode has ended.

    What it finds
    -------------
    Rewards to which values that a network made are added, times a flag of zeros and ones which is named for the end of
    an episode (``done``, ``terminated``) and is one in less than half of the samples, where it should be
    ``1 - done``. Also values that ``masked_fill``, ``where`` or an assignment replace by zero where the flag says that
    the episode goes on (``~done``, ``alive``).

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
        lines: dict[int | None, list[tuple[int, _Flag]]] = defaultdict(list)
        for row, call in enumerate(flow.log.calls):
            flag = _flag_of(flow, row, call)
            if flag is not None and flow.has_step_after(row):
                lines[call.call_site].append((row, flag))
        for found in lines.values():
            counts = [values for row, flag in found if (values := flow.values(flag.tensor, row)) is not None]
            ones, total = sum(each.count - each.zeros for each in counts), sum(each.count for each in counts)
            kept = ones if found[-1][1].is_end else total - ones
            if 0 < kept < total / 2 and all(each.minimum in (0, 1) and each.maximum in (0, 1) for each in counts):
                yield self._finding(flow, *found[-1], kept / total)

    def _finding(self, flow: Dataflow, row: int, flag: _Flag, share: float) -> Finding:
        name = name_of(flow.log.tensors[flag.tensor])
        is_product = plain_name(flow.log.calls[row].function) in ("mul", "addcmul", "einsum") and flag.is_end
        by = f"multiplied by {name}, which is 1" if is_product else f"replaced by zero except where {name} "
        if not is_product:
            by += "is true," if flag.is_end else "is false,"
        return self.finding(
            f"the value of what follows is {by} in {share:.0%} of the samples: it counts only where an episode has "
            "ended",
            symptom="grad_wrong",
            why="nothing follows the end of an episode; everywhere else its value is part of the target",
            fix=f"turn the flag around: reward + gamma * (1 - {name}) * value"
            if is_product
            else f"turn the flag around: value.masked_fill({'' if flag.is_end else '~'}{name}, 0.0)",
            location=location_of_call(flow, row),
        )


_ENDS = re.compile(
    r"(^|[^a-zA-Z0-9])(dones?|terminals?|terminated|terminations?|is_done|finished|ended|episode_ends?|is_end|over)(_\w+)?$"
)
_LASTS = re.compile(
    r"(^|[^a-zA-Z0-9])(alive|not_?done|non_?terminal|non_?final|continues?|continuing|not_?terminal|ongoing)(_\w+)?$"
)


class _Flag(Struct, frozen=True):
    """What says where an episode has ended, or where it has not."""

    tensor: int
    is_end: bool


_BOTH = 2
_SCALES = frozenset({"mul", "float", "to", "unsqueeze", "squeeze", "view", "reshape", "double", "clone"})
_OF_NETWORKS = frozenset({"linear", "conv2d", "conv1d", "embedding"})
_MAX_SCALES = 4
_MAX_ABOVE = 40


def _flag_of(flow: Dataflow, row: int, call: Call) -> _Flag | None:
    """The flag by which a call chooses among a network's values, to which rewards are then added, if it keeps those at
    the ends."""
    name = plain_name(call.function)
    if name not in _OVERWRITES or not call.outputs:
        return None
    added = call.inputs[0] if name == "addcmul" and len(call.inputs) > _BOTH else None
    pair = call.inputs[1:] if added is not None else product_of(call)
    for flag, value in (pair, pair[::-1]) if pair is not None else ():
        named = None if flag.requires_grad else _named_end(flow, flag.tensor, row)
        if named is None or not _is_of_network(flow, value.tensor, row):
            continue
        if (added is not None and not _is_of_network(flow, added.tensor, row)) or _is_added(flow, row, call):
            return _Flag(named, is_end=True)
    hidden = hidden_by(flow, row)
    if hidden is None or hidden.value != 0:
        return None
    base, is_where_false = next(hidden.positions(flow))
    names = [_last_part(each) for each in flow.log.tensors[base].names]
    is_kept_at_end = any(_ENDS.search(each) and not _LASTS.search(each) for each in names) and is_where_false
    is_lost_before = any(map(_LASTS.search, names)) and not is_where_false
    is_value = is_kept_at_end or is_lost_before
    if is_value and _is_of_network(flow, hidden.data, row) and _is_added(flow, row, call):
        return _Flag(base, is_kept_at_end)
    return None


_OVERWRITES = frozenset({"mul", "addcmul", "einsum", "masked_fill", "where", "setitem"})


def _last_part(name: str) -> str:
    """``alive`` of ``batch['alive']``."""
    return name.rstrip("])\"'").lower()


def _named_end(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The tensor that is named for the end of an episode, perhaps times a discount."""
    for _ in range(_MAX_SCALES):
        if any(_ENDS.search(_last_part(name)) for name in flow.log.tensors[tensor].names):
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
            is_sum = plain_name(used.function) in ("add", "addcmul") and len(others) == 1
            if is_sum and not _is_of_network(flow, others[0], user):
                return True
        scaled = [(user, used) for user, used in users if _is_scaled(used)]
        if len(scaled) != 1:
            return False
        row, tensor = scaled[0][0], scaled[0][1].outputs[0].tensor
    return False


def _is_scaled(call: Call) -> bool:
    return plain_name(call.function) in _SCALES and len(call.inputs) == 1
