"""GV934."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import leaf_names_above
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, calls_in_training
from gradviz.analysis.rules.bases.losses.signed_terms import is_number_first, number_of
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.source_tree import Key, SourceTree, called_name, is_read
from gradviz.graph.call_log import Call


class UnreachableEntropy(Rule):
    """The temperature of a policy is trained for an entropy that its squashed actions cannot have.

    What it finds
    -------------
    A loss of a temperature, ``log_alpha * (log_prob + target)``, whose target entropy is at least that of uniform
    actions, where ``tanh()`` keeps each of the actions between -1 and 1.

    Why it matters
    --------------
    The entropy of a value between -1 and 1 is log(2) = 0.69 at most, and mostly negative: the usual target is minus
    the number of actions (soft actor-critic). A target above what is possible is never met, so the temperature grows at
    every step, until the policy only wants to be random.

    Example
    -------
    policy, log_alpha = torch.nn.Linear(4, 4), torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.Adam([log_alpha], lr=0.01)
    for step in range(3):
        mean, log_std = policy(torch.randn(32, 4)).chunk(2, dim=1)
        normal = torch.distributions.Normal(mean, log_std.exp())
        u = normal.rsample()
        action = torch.tanh(u)
        log_prob = (normal.log_prob(u) - torch.log(1 - action**2 + 1e-6)).sum(1)
        loss = -(log_alpha * (log_prob + 2).detach()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    policy, log_alpha = torch.nn.Linear(4, 4), torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.Adam([log_alpha], lr=0.01)
    for step in range(3):
        mean, log_std = policy(torch.randn(32, 4)).chunk(2, dim=1)
        normal = torch.distributions.Normal(mean, log_std.exp())
        u = normal.rsample()
        action = torch.tanh(u)
        log_prob = (normal.log_prob(u) - torch.log(1 - action**2 + 1e-6)).sum(1)
        loss = -(log_alpha * (log_prob - 2).detach()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV934"
    name = "unreachable_entropy"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for rows in calls_in_training(flow, frozenset({"mul"})):
            row = rows[-1]
            target = _target(flow, row)
            actions = None if target is None else _squashed_actions(flow, target[1], target[2])
            if target is not None and actions is not None and target[0] >= actions * math.log(2):
                yield self._finding(case, row, *target, actions)

    def _finding(self, case: Case, row: int, target: float, tensor: int, shifted: int, actions: int) -> Finding:
        flow = case.dataflow
        line = location_of_call(flow, shifted)
        given = None if line is None else _line_of_number(case, line)
        return self.finding(
            f"the temperature is trained until the entropy of {actions} squashed actions is {target:.3g}, and it can "
            f"be {actions * math.log(2):.3g} at most: it grows at every step",
            symptom="grad_wrong",
            why="a value between -1 and 1 has an entropy of log(2) at most, where it is uniform",
            fix=f"take minus the number of actions for the target entropy: -{actions}",
            location=given or line,
            symptom_location=line if given is not None else None,
            tensors=leaf_names_above(flow, flow.log.calls[row].live_inputs[0].tensor, row),
            evidence={"target": target, "actions": actions},
        )


_BOTH = 2
_MAX_CALLS = 8
_KEEPS = SHAPE_ONLY | {"detach", "mean"}
_SQUASHES = frozenset({"tanh", "softplus", "logsigmoid", "cosh", "sigmoid"})
_DRAWS = frozenset({"randn", "randn_like", "normal", "_standard_normal"})


def _target(flow: Dataflow, row: int) -> tuple[float, int, int] | None:
    """The entropy at which a temperature rests, of a product with ``log_prob + target``; the log-probability, and the
    call that adds the target to it."""
    call = flow.log.calls[row]
    if len(call.inputs) != _BOTH or len(call.live_inputs) != 1:
        return None
    temperature, other = call.live_inputs[0], next(use for use in call.inputs if not use.requires_grad)
    if math.prod(shape_of(flow, temperature.tensor)) != 1 or not _is_temperature(flow, temperature.tensor, row):
        return None
    factor, added, shifted, tensor, at = 1.0, 0.0, None, other.tensor, row
    for _ in range(_MAX_CALLS):
        made = flow.newest_producer(tensor, at)
        step = None if made is None else flow.log.calls[made]
        if made is None or step is None or not step.inputs:
            return None
        name, number = plain_name(step.function), _number(flow, made, step)
        if name in ("add", "sub") and number is not None:
            added, factor = _shifted(step, name, number, added, factor)
            shifted = made
        elif name == "neg":
            factor = -factor
        elif name not in _KEEPS:
            return None if shifted is None else (added / factor, tensor, shifted)
        tensor, at = step.inputs[0].tensor, made
    return None


def _is_temperature(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a tensor is a leaf, or the exponential of one, perhaps with the sign that the loss needs."""
    made = flow.newest_producer(tensor, row)
    call = None if made is None else flow.log.calls[made]
    if flow.log.tensors[tensor].is_leaf and flow.log.tensors[tensor].requires_grad:
        return True
    if made is not None and call is not None and plain_name(call.function) == "neg":
        return _is_temperature(flow, call.inputs[0].tensor, made)
    is_exponential = call is not None and plain_name(call.function) == "exp"
    return is_exponential and call is not None and call.inputs[0].is_live_leaf


def _number(flow: Dataflow, row: int, call: Call) -> float | None:
    """What a call adds, if it is a number, or a tensor of one."""
    if len(call.inputs) == 1:
        value = number_of(call, "1", "0", "other", missing=math.nan)
        return None if math.isnan(value) else value
    values = flow.values_of(call.inputs[1], row) if len(call.inputs) == _BOTH else None
    is_one = values is not None and values.count == 1 and values.minimum == values.maximum
    return values.minimum if is_one and values is not None else None


def _shifted(call: Call, name: str, number: float, added: float, factor: float) -> tuple[float, float]:
    if name == "add":
        return added + factor * number, factor
    if len(call.inputs) == 1 and is_number_first(call):
        return added + factor * number, -factor
    return added - factor * number, factor


def _squashed_actions(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The number of actions of which a tensor has the log-probability, if ``tanh()`` of the sample bounds each by 1."""
    above = flow.ancestors(tensor, row, since=flow.step_before(flow.step_before(row)))
    used = {use.tensor for each in above for use in flow.log.calls[each].inputs}
    for each, call in calls_named(flow, ("tanh",)):
        shape = shape_of(flow, call.inputs[0].tensor)
        if call.inputs[0].tensor in used and shape and _is_drawn(flow, call.inputs[0].tensor, each):
            is_scaled = _is_scaled(flow, call.outputs[0].tensor, each)
            return None if is_scaled or not _counts_squash(flow, call.inputs[0].tensor, set(above)) else shape[-1]
    return None


def _counts_squash(flow: Dataflow, sample: int, above: set[int]) -> bool:
    """Whether a log-probability is that of the squashed actions; what is drawn before may have any entropy."""
    below = above.intersection(flow.descendants(sample, 0))
    return any(plain_name(flow.log.calls[row].function) in _SQUASHES for row in below)


def _is_scaled(flow: Dataflow, action: int, row: int) -> bool:
    """Whether the range of squashed actions is changed: something multiplies them, perhaps shifted, by a number."""
    waiting = [(action, row)]
    while waiting:
        tensor, at = waiting.pop()
        for user in flow.users(tensor, at):
            used = flow.log.calls[user]
            if len({use.tensor for use in used.inputs}) == 1 and len(used.inputs) > 1:
                continue  # its square
            if any(use.requires_grad and use.tensor != tensor for use in used.inputs):
                continue
            if plain_name(used.function) in ("mul", "div"):
                return True
            if plain_name(used.function) in ("add", "sub") and tensor == action:
                waiting.append((used.outputs[0].tensor, user))
    return False


def _is_drawn(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a tensor is a mean plus noise times a scale."""
    makers = flow.makers_above(tensor, row, _MAX_CALLS, lambda call: call.inputs if _is_sum(call) else ())
    return any(plain_name(call.function) in _DRAWS for _, call in makers)


def _is_sum(call: Call) -> bool:
    return plain_name(call.function) in ("add", "mul", "addcmul") or plain_name(call.function) in SHAPE_ONLY


# -- source ------------------------------------------------------------------------------------------------------------


def _line_of_number(case: Case, line: Location) -> Location | None:
    """The line that gives a variable its number, if a line reads only one variable of this kind."""
    for file, tree in own_files(case):
        if file == line.file:
            read = [node for node in tree.nodes if getattr(node, "lineno", 0) == line.line and _is_variable(node)]
            keys = {tree.key_of(node) for node in read} - {None}
            found = {value.lineno for target, value in tree.assignments if _gives_number(tree, target, value, keys)}
            return Location(file, found.pop()) if len(found) == 1 else None
    return None


def _is_variable(node: ast.AST) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute)) and is_read(node)


def _gives_number(tree: SourceTree, target: ast.expr, value: ast.expr, keys: set[Key | None]) -> bool:
    key = tree.key_of(target)
    is_number = isinstance(value, (ast.Constant, ast.UnaryOp, ast.BinOp, ast.Name, ast.Attribute, ast.Subscript))
    is_number |= called_name(value) in ("float", "int", "item", "prod", "len")
    is_once = key in keys and key is not None and tree.times_bound(key) == 1
    return is_number and is_once and next(tree.loops_around(value), None) is None
