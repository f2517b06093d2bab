"""GV746."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import (
    DIFFERENCES,
    callers,
    calls_named,
    line_outside_modules,
    location_of_call,
    plain_name,
    two_lines,
)
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.parameters.copied_parameters import original_of
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.analysis.rules.bases.losses.targets.summands import is_discount, summands
from gradviz.analysis.rules.bases.losses.targets.update_lines import may_be_updated_later
from gradviz.analysis.rules.bases.sources.saving_lines import may_save
from gradviz.graph.call_log import Call, TensorUse


class TargetNeverUpdated(Rule):
    """The target network of a value function keeps the values that it began with.

    What it finds
    -------------
    A loss that compares a network's values with rewards plus the discounted values of a copy of that network, where
    nothing changes the copy after training began, and no line of the program could do so later: lines that ran, and
    changed nothing of it, will not do so either. The copy may be a dictionary of tensors for ``functional_call()``.
    Likewise a loss with the discounted values of the trained network itself, where the program makes a copy follow that
    network, and no layer ever uses the copy. Programs that save something are left alone then.

    Why it matters
    --------------
    The copy is to follow the network slowly, so that what is learned of a state reaches those before it. A copy that
    stays as it was gives the values of an untrained network for ever: nothing beyond one reward is learned.

    Example
    -------
    network, target = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)
    target.load_state_dict(network.state_dict())
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(4):
        states, following, rewards = torch.randn(8, 4), torch.randn(8, 4), torch.randn(8)
        with torch.no_grad():
            wanted = rewards + 0.9 * target(following).max(1)[0]
        loss = torch.nn.functional.mse_loss(network(states)[:, 0], wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    network, target = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)
    target.load_state_dict(network.state_dict())
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(4):
        states, following, rewards = torch.randn(8, 4), torch.randn(8, 4), torch.randn(8)
        with torch.no_grad():
            wanted = rewards + 0.9 * target(following).max(1)[0]
        loss = torch.nn.functional.mse_loss(network(states)[:, 0], wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 2 == 1:
            target.load_state_dict(network.state_dict())
    """

    code = "GV746"
    name = "target_never_updated"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        last: dict[int | None, int] = {}
        for row, call in calls_named(flow, DIFFERENCES):
            is_error = len(call.inputs) == _BOTH and len(call.live_inputs) == 1
            if is_error and flow.has_step_after(row):
                last[call.call_site] = row
        for row in last.values():
            used = _bootstrap(flow, row)
            copies = {} if used is None else _fixed_copies(case, used)
            if used is not None and copies and not may_be_updated_later(case, list(copies)):
                yield self._finding(case, row, used, copies)
            unread = {} if used is None or copies or may_save(case) else _unread_copies(case, used)
            if used is not None and unread:
                yield self._unread(case, row, used, unread)

    def _finding(self, case: Case, row: int, used: int, copies: dict[int, int]) -> Finding:
        flow, histories = case.dataflow, case.histories
        step = next(each for each in histories.steps if each > row)
        location, read = two_lines(flow, step, used)
        location = _line_that_discards(case, copies) or _line_that_mixes_a_copy(case, copies) or location
        originals = set(copies.values())
        return self.finding(
            f"{histories.together(sorted(copies))} of the target network {'is' if len(copies) == 1 else 'are'} copied "
            f"from {histories.together(sorted(originals))} once, and never again in {len(histories.steps):,} steps",
            symptom="grad_wrong",
            why="the targets stay those of an untrained network, so nothing but the next reward is learned",
            fix="let the copy follow after the step: target.load_state_dict(network.state_dict()) every few hundred "
            "steps, or a part of the way at each, t.lerp_(p, 0.005)",
            location=location,
            symptom_location=read,
            tensors=names_of(flow, sorted(copies)),
        )

    def _unread(self, case: Case, row: int, used: int, copies: dict[int, int]) -> Finding:
        flow, histories = case.dataflow, case.histories
        own = histories.together(sorted(set(copies.values())))
        location = location_of_line(line_outside_modules(flow, used))
        error = location_of_call(flow, row)
        return self.finding(
            f"the discounted values of the target are those of the trained network, {own}; "
            f"its copy, {histories.together(sorted(copies))}, follows it and is never used",
            symptom="grad_wrong",
            why="each step also moves the target, so that errors of the values feed themselves; the copy is to hold "
            "the target still for a while",
            fix="compute the target with the copy: target(next_states)",
            location=location,
            symptom_location=error if error != location else None,
            tensors=names_of(flow, sorted(copies)),
        )


_THROUGH = frozenset({
    "add", "sub", "mul", "neg", "detach", "div", "max", "min", "amax", "amin", "minimum", "gather", "mean", "sum",
    "stack", "cat", "logsumexp", "where", "masked_fill", "clamp", "maximum", "softmax", *SHAPE_ONLY,
})  # fmt: skip
_BOTH = 2
_MAX_CALLS = 60
_MIN_STEPS = 4


def _bootstrap(flow: Dataflow, row: int) -> int | None:
    """The last layer of a network whose discounted values the target of an error adds to something else."""
    dead = next(use for use in flow.log.calls[row].inputs if not use.requires_grad)

    def onward(call: Call) -> Iterable[TensorUse]:
        is_followed = plain_name(call.function) in _THROUGH and call.kind == "operation"
        return call.inputs if is_followed and not _is_layer(flow, call) else ()

    def discounts(row: int, call: Call) -> bool:
        return is_discount(call) or any(_is_discounted(flow, use.tensor, row) for use in call.inputs)

    for part in summands(flow, dead, row, onward, discounts, _MAX_CALLS):
        call = flow.log.calls[part.made]
        is_network = call.kind == "operation" and _is_layer(flow, call)
        if part.is_added and part.is_discounted and is_network:
            return part.made
    return None


def _is_layer(flow: Dataflow, call: Call) -> bool:
    return any(_is_weight(flow, use.tensor) for use in call.inputs)


def _is_weight(flow: Dataflow, tensor: int) -> bool:
    """Whether a tensor is a parameter, or a copy of one: ``{k: v.detach().clone() for k, v in named_parameters()}``."""
    if flow.log.tensors[tensor].role == "parameter":
        return True
    row = flow.log.tensors[tensor].producer
    for _, call in flow.makers(tensor, row + 1, _MAX_COPIES) if row is not None else ():
        if plain_name(call.function) not in _COPIES or not call.inputs:
            return False
        if flow.log.tensors[call.inputs[0].tensor].role == "parameter":
            return True
    return False


_MAX_COPIES = 3
_COPIES = frozenset({"clone", "detach", "data", "deepcopy", "to", "requires_grad"})


def _line_that_discards(case: Case, copies: dict[int, int]) -> Location | None:
    """The line that copies the trained parameters again in the training, where nothing uses these copies."""
    flow, first = case.dataflow, case.histories.steps[0]
    before = {(site.file, site.line) for copy in copies for row in flow.producers(copy) for site in callers(flow, row)}
    for original in set(copies.values()):
        for row in flow.users(original, first):
            call = flow.log.calls[row]
            made = call.outputs[0].tensor if plain_name(call.function) in _COPIES and call.outputs else None
            later = () if made is None else flow.users(made, row)
            is_unused = plain_name(call.function) == "clone" if not later else _is_unused_copy(flow, later[0])
            if made is not None and len(later) < _BOTH and is_unused:
                lines = (site for site in callers(flow, row) if (site.file, site.line) not in before)
                return location_of_line(next(lines, None))
    return None


_JOINS = frozenset({"cat", "stack", "clone", "deepcopy", "mul", "lerp", "add"})
_MIXES = frozenset({"lerp", "mul", "add", "sub", "copy"})
_MOST_MIXED = 8


def _line_that_mixes_a_copy(case: Case, copies: dict[int, int]) -> Location | None:
    """The line of the training that mixes or overwrites new memory, made of the target network's parameters, which
    nothing reads later: ``parameters_to_vector(...).lerp_(...)``."""
    flow, first = case.dataflow, case.histories.steps[0]
    waiting = [(user, copy) for copy in copies for user in flow.users(copy, first)[:_MOST_MIXED]]
    last, seen = None, set[int]()
    while waiting and len(seen) < _MAX_CALLS:
        row, given = waiting.pop(0)
        call = flow.lists.single(row, given)
        is_recorded = call.grad_mode == "enabled" and any(use.requires_grad for use in call.outputs)
        if row in seen or call.kind != "operation" or is_recorded or not call.outputs:
            continue
        seen.add(row)
        name, made = plain_name(call.function), call.outputs[0].tensor
        is_view = flow.memory_of(made) == flow.memory_of(given)
        if not is_view and name not in _JOINS:
            continue
        later = flow.users(made, row)
        if name in _MIXES and not later and not _is_state(case, made):
            last = row if last is None else min(last, row)
        waiting += [(user, made) for user in later[:_MOST_MIXED]]
    return None if last is None else location_of_call(flow, last)


def _is_state(case: Case, tensor: int) -> bool:
    """Whether a tensor has the memory of a parameter."""
    shared = case.dataflow.sharing_memory(tensor)
    return any(case.dataflow.log.tensors[each].role != "tensor" for each in shared)


def _is_unused_copy(flow: Dataflow, row: int) -> bool:
    call = flow.log.calls[row]
    is_copy = plain_name(call.function) == "clone" and bool(call.outputs)
    return is_copy and not flow.users(call.outputs[0].tensor, row)


def _is_discounted(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a factor is itself a product with a number between 0 and 1: ``(1 - done) * gamma``."""
    made = flow.newest_producer(tensor, row)
    call = None if made is None else flow.log.calls[made]
    return call is not None and plain_name(call.function) == "mul" and len(call.inputs) == 1 and is_discount(call)


def _fixed_copies(case: Case, used: int) -> dict[int, int]:
    """By parameter of the network that a call belongs to, the trained one that it is a copy of; empty unless all are
    copies or without a trained counterpart, and none ever changes."""
    flow, histories = case.dataflow, case.histories
    if len(histories.steps) < _MIN_STEPS:
        return {}
    out = flow.log.calls[used].outputs[0].tensor
    above = [used, *flow.ancestors(out, used, since=flow.step_before(used))]
    numbers = {use.tensor for row in above for use in flow.log.calls[row].inputs}
    own = {use.tensor for use in flow.log.calls[used].inputs}
    parameters = {each for each in numbers if _is_weight(flow, each)}
    copies: dict[int, int] = {}
    for number in sorted(parameters):
        original = None if number in histories.trained else original_of(histories, number, histories.trained)
        if original is not None:
            if _is_changed(case, number) or (flow.log.tensors[number].producer or 0) > histories.steps[0]:
                return {}
            copies[number] = original
    return copies if not own.isdisjoint(copies) else {}


def _unread_copies(case: Case, used: int) -> dict[int, int]:
    """By copy of the parameters of a trained layer, its original, where the copy follows it and no layer uses it."""
    flow, histories = case.dataflow, case.histories
    own = frozenset(use.tensor for use in flow.log.calls[used].inputs) & histories.trained
    if len(histories.steps) < _MIN_STEPS or not own:
        return {}
    copies: dict[int, int] = {}
    for number, tensor in enumerate(flow.log.tensors):
        if tensor.role != "parameter" or number in histories.trained or not _is_changed(case, number):
            continue
        original = original_of(histories, number, histories.trained)
        if original is not None and (tensor.is_used_elsewhere or _is_in_layer(flow, number)):
            return {}  # Another part of the copy may be what it is for: a policy that acts.
        if original in own:
            copies[number] = original
    return copies


def _is_in_layer(flow: Dataflow, number: int) -> bool:
    users = (row for each in flow.sharing_memory(number) for row in flow.users(each))
    return any(plain_name(flow.log.calls[row].function) in _LAYERS for row in users)


_LAYERS = frozenset({
    "linear", "matmul", "mm", "addmm", "bmm", "baddbmm", "einsum", "conv1d", "conv2d", "conv3d", "embedding", "gru",
    "lstm", "rnn_tanh", "gru_cell", "lstm_cell", "bilinear", "t", "T", "mv", "transpose",
})  # fmt: skip


def _is_changed(case: Case, number: int) -> bool:
    flow, first = case.dataflow, case.histories.steps[0]
    is_written = any(row > first for row in flow.data_assignments.get(number, ()))
    return is_written or bool(flow.changes(number, first, len(flow.log.calls)))
