"""GV641."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.normal_draws import is_normal_draw
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.linear_terms import linear_rows
from gradviz.analysis.rules.bases.losses.loss_arguments import PARTS, SHAPE_ONLY, value_maker
from gradviz.graph.call_log import Call, TensorUse


class TargetWithoutInfluence(Rule):
    """A target is only subtracted and averaged, so no gradient depends on it.

    What it finds
    -------------
    At every step, an output of a network from which data is subtracted, where the difference is only averaged, added
    up, scaled, and weighed with data on its way to the loss; also if the average is squared, or its absolute value is
    taken. Data that the loss uses a second time, and differences of things that a model computed, as those of critics,
    are left alone.

    Why it matters
    --------------
    The derivative of ``(prediction - target).mean()`` is the same for all targets. Training makes all predictions
    smaller without end, and the loss goes below zero; or it only brings the average of all predictions to that of all
    targets.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(8, 4), torch.randn(8, 1)
    for step in range(3):
        optimizer.zero_grad()
        loss = (model(x) - y).mean()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(8, 4), torch.randn(8, 1)
    for step in range(3):
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
    """

    code = "GV641"
    name = "target_without_influence"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        backwards: dict[int | None, int] = defaultdict(int)
        found: dict[int | None, list[int]] = defaultdict(list)
        for backward, root in flow.roots():
            if not flow.has_step_after(backward):
                continue
            site = flow.log.calls[backward].call_site
            backwards[site] += 1
            row = _difference(flow, backward, root)
            if row is not None:
                found[site].append(row)
        for site, rows in found.items():
            if len(rows) == backwards[site] >= _MIN_STEPS:
                yield self._finding(case, rows[-1])

    def _finding(self, case: Case, row: int) -> Finding:
        flow = case.dataflow
        target = next(use for use in flow.log.calls[row].inputs if not use.requires_grad)
        return self.finding(
            f"no gradient depends on {case.tensor_name(target.tensor)}: it is only subtracted, and the difference "
            "averaged, without a square or an absolute value of each element",
            symptom="grad_wrong",
            why="the derivative of an average difference is the same for all targets",
            fix="square each difference before the average: (prediction - target).square().mean(), or F.mse_loss()",
            location=location_of_call(flow, row),
        )


def _difference(flow: Dataflow, backward: int, root: int) -> int | None:
    """The call that subtracts data from what a network computed, or the other way round."""
    # The square of a weighed mean is a condition on moments.
    weighed = linear_rows(flow, backward, root, with_weights=True)
    rows = list(dict.fromkeys([*weighed, *linear_rows(flow, backward, root, with_squares=True)]))
    for row in rows:
        for call in flow.lists.singles(row):
            if not _subtracts(call) or len(call.inputs) != _SIDES or len(call.live_inputs) != 1:
                continue
            live = call.live_inputs[0]
            target = next(use for use in call.inputs if use is not live)
            if not _is_target(flow, target, live, row):
                continue
            above = frozenset(flow.ancestors(root, backward, flow.step_before(row)))
            is_elsewhere = _is_used_elsewhere(flow, target, row, above) or _is_of_noise(flow, target, row, above)
            if not is_elsewhere and not _goes_elsewhere(flow, row, above, frozenset(rows)):
                return row
    return None


def _subtracts(call: Call) -> bool:
    """``a - b``, also as ``torch.add(a, b, alpha=-1)``."""
    name, factor = plain_name(call.function), call.scalars.get("alpha", 1)
    return name == "sub" or (name == "add" and type(factor) in (int, float) and factor < 0)  # type: ignore[operator]


def _goes_elsewhere(flow: Dataflow, row: int, above: frozenset[int], linear: frozenset[int]) -> bool:
    """Whether the difference reaches the loss on another way, too, as through the exponential of a LINEX loss."""
    since = flow.step_before(row)
    waiting, seen = [row], {row}
    while waiting:
        for use in flow.log.calls[waiting.pop()].outputs:
            users = above.intersection(flow.users(use.tensor, since)) - seen
            if not users <= linear:
                return True
            seen |= users
            waiting += users
    return False


_SIDES = 2
_MIN_STEPS = 2


def _is_target(flow: Dataflow, target: TensorUse, live: TensorUse, row: int) -> bool:
    """Whether it is data for each element of the output of a network."""
    shape = shape_of(flow, target.tensor)
    made = value_maker(flow, live.tensor, row)
    if not any(size > 1 for size in shape) or shape != shape_of(flow, live.tensor) or made is None:
        return False
    values = flow.values_of(target, row)
    is_constant = values is None or values.minimum == values.maximum
    return not is_constant and plain_name(made[1].function) in _OF_NETWORKS and not _is_computed(flow, target, row)


def _is_computed(flow: Dataflow, target: TensorUse, row: int) -> bool:
    """Whether a model made it, or it is a constant of a likelihood, such as the logarithm of a factorial."""
    made = value_maker(flow, target.tensor, row)
    if made is not None and plain_name(made[1].function) in _IN_LIKELIHOODS:
        return True
    above = flow.ancestors(target.tensor, row, flow.step_before(row))
    uses = (use for each in above for use in flow.log.calls[each].inputs)
    return any(use.requires_grad or flow.log.tensors[use.tensor].role == "parameter" for use in uses)


_IN_LIKELIHOODS = frozenset({"lgamma", "log", "xlogy", "gammaln", "log_prob", "entropy", "logsumexp", "detach"})
_OF_NETWORKS = frozenset({
    "linear", "matmul", "mm", "addmm", "mv", "bmm", "einsum", "conv1d", "conv2d", "conv3d", "conv_transpose2d", "relu",
    "sigmoid", "tanh", "softplus", "gelu", "silu", "leaky_relu", "add", "softmax",
})  # fmt: skip


def _is_used_elsewhere(flow: Dataflow, target: TensorUse, row: int, above: frozenset[int]) -> bool:
    """Whether the loss takes the data, or the tensor of which it is a view, at another place, too."""
    since = flow.step_before(row)
    tensor, before = target.tensor, row
    while True:
        users = (user for user in flow.users(tensor, since) if user in above and user not in (row, before))
        if any(not _takes_another_part(flow.log.calls[user], flow.log.calls[before]) for user in users):
            return True
        made = flow.newest_producer(tensor, before)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or not call.inputs or plain_name(call.function) not in SHAPE_ONLY:
            return False
        tensor, before = call.inputs[0].tensor, made


def _is_of_noise(flow: Dataflow, target: TensorUse, row: int, above: frozenset[int]) -> bool:
    """Whether it is computed from noise that also stands in a sample, as the square of it in the logarithm of a
    density of that sample."""
    since, calls = flow.step_before(row), flow.log.calls
    computed = flow.ancestors(target.tensor, row, since)
    drawn = [use.tensor for each in computed if is_normal_draw(calls[each]) for use in calls[each].outputs]
    users = (calls[user] for tensor in drawn for user in flow.users(tensor, since) if user in above and user != row)
    return any(plain_name(call.function) in _OF_SAMPLES and call.live_inputs for call in users)


_OF_SAMPLES = frozenset({"mul", "add", "addcmul", "sub"})


def _takes_another_part(call: Call, own: Call) -> bool:
    """Whether two calls take different parts of a tensor, such as two of its columns."""
    names = {plain_name(each.function) for each in (call, own)}
    return len(names) == 1 and names <= PARTS and call.scalars != own.scalars
