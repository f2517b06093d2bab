"""GV971."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import ERRORS_OF_VALUES, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import dense_weights_above
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.parameters.copied_parameters import original_of
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, calls_in_training, value_maker
from gradviz.graph.call_log import Call, TensorUse


class CopyChooses(Rule):
    """In a double Q-learning, the target network chooses the action and the trained network tells its value.

    What it finds
    -------------
    An error whose target adds a reward and a value of the trained network, where the action of that value is the best
    one by a copy of the same network, which no optimizer has and which follows the trained one. A copy that stays as it
    is may be a policy that is to be judged: it is left alone, and so is one that is named for a policy.

    Why it matters
    --------------
    The trained network should choose, and the copy, which changes slowly, should tell the value. The other way round,
    each step also moves its own target, so errors of the values feed themselves, and the newest network, with its
    newest overestimates, gives the value.

    Example
    -------
    network, target = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(4):
        target.load_state_dict(network.state_dict())
        states, following, rewards = torch.randn(8, 4), torch.randn(8, 4), torch.randn(8)
        with torch.no_grad():
            best = target(following).argmax(1, keepdim=True)
            wanted = rewards + 0.9 * network(following).gather(1, best)[:, 0]
        loss = torch.nn.functional.mse_loss(network(states)[:, 0], wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    network, target = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(4):
        target.load_state_dict(network.state_dict())
        states, following, rewards = torch.randn(8, 4), torch.randn(8, 4), torch.randn(8)
        with torch.no_grad():
            best = network(following).argmax(1, keepdim=True)
            wanted = rewards + 0.9 * target(following).gather(1, best)[:, 0]
        loss = torch.nn.functional.mse_loss(network(states)[:, 0], wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV971"
    name = "copy_chooses"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for rows in calls_in_training(flow, ERRORS_OF_VALUES):
            found = [_swapped(case, row) for row in rows[-_EXAMINED:]]
            if found[-1] is None or not all(each is not None for each in found):
                continue
            if not _follows(case, rows, found[-1]):
                continue
            site = flow.log.calls[found[-1].best].call_site
            if site not in told:
                told.add(site)
                yield self._finding(case, found[-1])

    def _finding(self, case: Case, found: _Swapped) -> Finding:
        location, value = two_lines(case.dataflow, found.best, found.chosen)
        return self.finding(
            "the target network chooses the best action of the next state, by "
            f"{case.histories.together(found.copies)}, and the trained network tells the value of that action",
            symptom="grad_wrong",
            why="the target network is there to tell the value, which should stay still for a while; as it is, each "
            "step moves its own target",
            fix="exchange the two: best = network(following).argmax(1, keepdim=True), then "
            "target(following).gather(1, best)",
            location=location,
            symptom_location=value,
            tensors=names_of(case.dataflow, found.copies),
        )


class _Swapped(Struct, frozen=True):
    best: int
    """The call that chose the actions."""
    chosen: int
    """The call that took the values of these actions."""
    copies: list[int]
    """The weights of the target network."""


_SUMS = frozenset({"add", "addcmul", "sub"})
_THROUGH = SHAPE_ONLY | _SUMS | {"mul", "div", "detach", "where", "masked_fill", "min", "minimum", "clamp", "tanh"}
_CHOOSE = frozenset({"gather", "take_along_dim", "getitem"})
_BEST = frozenset({"argmax", "max", "topk", "argsort", "sort"})
_OF_INDEX = SHAPE_ONLY | {"detach", "long"}
_EXAMINED = 4
_BOTH = 2
_MAX_CALLS = 40
_POLICIES = re.compile(r"policy|(^|[._])pi([._0-9]|$)|actor|behaviou?r", re.IGNORECASE)


def _swapped(case: Case, row: int) -> _Swapped | None:
    """How a copy chooses and the trained network tells the value, in the target of an error."""
    flow = case.dataflow
    call = flow.log.calls[row]
    if len(call.inputs) != _BOTH or len(call.live_inputs) != 1:
        return None
    live, target = sorted(call.inputs, key=lambda use: not use.requires_grad)
    above = list(flow.makers_above(target.tensor, row, _MAX_CALLS, _onward))
    if not any(plain_name(each.function) in _SUMS and len(each.inputs) >= _BOTH for _, each in above):
        return None
    own = dense_weights_above(flow, live.tensor, row)
    for made, each in above:
        if plain_name(each.function) not in _CHOOSE or len(each.inputs) < _BOTH:
            continue
        best = _best_by(flow, each.inputs[-1].tensor, made)
        if best is None:
            continue
        judges = dense_weights_above(flow, each.inputs[0].tensor, made)
        choosers = dense_weights_above(flow, flow.log.calls[best].inputs[0].tensor, best)
        if judges and judges <= own and _are_copies(case, choosers, judges):
            return _Swapped(best, made, sorted(choosers))
    return None


def _follows(case: Case, rows: Sequence[int], found: _Swapped) -> bool:
    """Whether the copy changes while its choices are learned from, or is made anew."""
    first = _swapped(case, rows[0])
    is_new = first is not None and first.copies != found.copies
    flow = case.dataflow
    return is_new or any(
        flow.changes(each, rows[0], len(flow.log.calls)) or any(at > rows[0] for at in flow.data_replacements(each))
        for each in found.copies
    )


def _onward(call: Call) -> Iterable[TensorUse]:
    return call.inputs if plain_name(call.function) in _THROUGH and call.kind == "operation" else ()


def _best_by(flow: Dataflow, index: int, row: int) -> int | None:
    """The call that found the places of the largest values, if it made an index."""
    made = value_maker(flow, index, row, through=_OF_INDEX)
    return made[0] if made is not None and plain_name(made[1].function) in _BEST and made[1].inputs else None


def _are_copies(case: Case, choosers: set[int], judges: set[int]) -> bool:
    """Whether no optimizer has the weights by which an action is chosen, and all are copies of trained ones that tell
    its value. A copy of the values may also stand for the policy which they are to judge."""
    histories = case.histories
    if not choosers or not judges <= histories.trained or not choosers.isdisjoint(histories.trained):
        return False
    if any(_POLICIES.search(name) for each in choosers for name in histories.tensor(each).names):
        return False
    return all(original_of(histories, each, frozenset(judges)) is not None for each in choosers)
