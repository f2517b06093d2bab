"""GV795."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.products import product_of, summed_axes
from gradviz.analysis.rules.bases.losses.loss_arguments import argument, calls_in_training, value_maker
from gradviz.graph.call_log import Call, TensorUse


class SoftmaxOverAllGroups(Rule):
    """Weights that should add up to 1 in each group are normalized over all groups together.

    What it finds
    -------------
    A softmax over rows, which may be written as exponentials over their sum, that are then multiplied by it and added
    up by an index, with ``index_add`` or ``scatter_add``,
    into several groups: the edges of a graph at each node, the nodes of each graph. Nothing divides a group by the sum
    of its weights.

    Why it matters
    --------------
    The weights of all groups add up to 1, so those of one group are far less: with 1,000 edges a node gets a thousandth
    of its neighbours, and how much depends on the other graphs of the batch.

    Example
    -------
    head, score = torch.nn.Linear(4, 3), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*head.parameters(), *score.parameters()], lr=0.1)
    source, node = torch.randint(0, 6, (30,)), torch.arange(30) % 6
    for step in range(4):
        x, y = torch.randn(6, 4), torch.randint(0, 3, (6,))
        weights = torch.softmax(score(x[source] + x[node]), dim=0)
        total = torch.zeros(6, 4).index_add(0, node, weights * x[source])
        loss = torch.nn.functional.cross_entropy(head(total), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    head, score = torch.nn.Linear(4, 3), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*head.parameters(), *score.parameters()], lr=0.1)
    source, node = torch.randint(0, 6, (30,)), torch.arange(30) % 6
    for step in range(4):
        x, y = torch.randn(6, 4), torch.randint(0, 3, (6,))
        weights = torch.exp(score(x[source] + x[node]))
        total = torch.zeros(6, 4).index_add(0, node, weights * x[source])
        total = total / torch.zeros(6, 1).index_add(0, node, weights)
        loss = torch.nn.functional.cross_entropy(head(total), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV795"
    name = "softmax_over_all_groups"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for rows in calls_in_training(flow, _ADDS):
            found = [_softmax(flow, row) for row in rows]
            if found[-1] is not None and all(each is not None for each in found):
                yield self._finding(flow, rows[-1], found[-1])

    def _finding(self, flow: Dataflow, row: int, softmax: int) -> Finding:
        location, symptom = two_lines(flow, softmax, row)
        added = flow.log.calls[row]
        rows = shape_of(flow, _source(added, flow.log.calls[softmax].outputs[0]).tensor)[0]
        return self.finding(
            f"the softmax is over all {rows:,} rows, which {plain_name(added.function)}() then adds up in groups: the "
            "weights of one group do not add up to 1",
            symptom="grad_wrong",
            why="each group should be a weighted mean of its own rows; so it gets a small and changing part of one",
            fix="normalize each group by itself: e = torch.exp(score - score.max()), divided by "
            "torch.zeros(groups, 1).index_add(0, index, e)[index]",
            location=location,
            symptom_location=symptom,
        )


_ADDS = frozenset({"index_add", "scatter_add", "scatter_reduce", "index_put"})
_MAX_FOLLOWED = 20


def _softmax(flow: Dataflow, row: int) -> int | None:
    """The softmax over the rows that a call adds up in several groups, if their sums are not divided by anything."""
    call = flow.log.calls[row]
    index = next((use for use in call.inputs if _is_index(flow, use, row)), None)
    if index is None or _is_divided(flow, row):
        return None
    source = _source(call, index)
    return _softmax_above(flow, source, row, shape_of(flow, source.tensor)[:1])


def _is_index(flow: Dataflow, use: TensorUse, row: int) -> bool:
    """Whether these are whole numbers that differ."""
    values = flow.values_of(use, row)
    is_whole = flow.log.tensors[use.tensor].facts.dtype in ("int64", "int32")
    return is_whole and values is not None and values.minimum != values.maximum


def _source(call: Call, other: TensorUse) -> TensorUse:
    """The rows that are added up: what such a call gets last."""
    named = argument(call, 3, "source") or argument(call, 3, "src") or argument(call, 2, "values")
    return named or next((use for use in reversed(call.inputs) if use.tensor != other.tensor), other)


def _softmax_above(flow: Dataflow, source: TensorUse, row: int, rows: tuple[int, ...]) -> int | None:
    """The softmax along the first axis, among the factors of what is added up."""
    waiting, count = [(source.tensor, row, False)], 0
    while waiting and count < _MAX_FOLLOWED:
        count += 1
        tensor, before, is_factor = waiting.pop()
        made = value_maker(flow, tensor, before, through=_KEEPS)
        if made is None:
            continue
        made_row, call = made
        name = plain_name(call.function)
        shape = shape_of(flow, call.inputs[0].tensor) if call.inputs else ()
        # Shares of all rows that are added up as they are make a distribution over the groups.
        is_candidate = name == "softmax" or (is_factor and name in ("div", "exp"))
        if is_candidate and shape[:1] == rows and rows > (_FEW,):
            if _is_over_rows(flow, made_row, call, name, len(shape)):
                return made_row
        elif name in ("mul", "einsum") and product_of(call) is not None:
            waiting += [(use.tensor, made_row, True) for use in call.live_inputs]
    return None


def _is_over_rows(flow: Dataflow, row: int, call: Call, name: str, rank: int) -> bool:
    """Whether a call is a softmax along the first axis, which may be written as exponentials over their sum."""
    if name == "softmax":
        return axis_of(call, rank) == 0
    if name == "exp":  # of a log_softmax, or of scores minus their logsumexp
        logarithm = value_maker(flow, call.inputs[0].tensor, row)
        if logarithm is None or plain_name(logarithm[1].function) == "log_softmax":
            return logarithm is not None and axis_of(logarithm[1], rank) == 0
        return plain_name(logarithm[1].function) == "sub" and _is_sum_of(flow, *logarithm, "logsumexp", rank)
    made = flow.newest_producer(call.inputs[0].tensor, row)
    is_exponential = made is not None and plain_name(flow.log.calls[made].function) == "exp"
    return is_exponential and _is_sum_of(flow, row, call, "sum", rank)


def _is_sum_of(flow: Dataflow, row: int, call: Call, name: str, rank: int) -> bool:
    """Whether the second input of a call is the sum of the first one along its first axis."""
    if len(call.inputs) != _FEW:
        return False
    made = value_maker(flow, call.inputs[1].tensor, row, through=frozenset({"add", "clamp", "clamp_min"}))
    if made is None or plain_name(made[1].function) != name or made[1].inputs[0].tensor != call.inputs[0].tensor:
        return False
    return 0 in (summed_axes(made[1], made[1].inputs[0], rank) or {axis_of(made[1], rank)})


_KEEPS = frozenset({"dropout", "to", "half"})
_FEW = 2


def _is_divided(flow: Dataflow, row: int) -> bool:
    """Whether the groups are divided by something that was added up as well."""
    waiting, seen = [(flow.log.calls[row].outputs[0].tensor, row)], 0
    while waiting and seen < _MAX_FOLLOWED:
        tensor, after = waiting.pop()
        for user in flow.users(tensor, after):
            call = flow.log.calls[user]
            seen += 1
            name = plain_name(call.function)
            if name in ("div", "normalize"):
                return True
            if name in ("view", "reshape", "add", "mul") and call.outputs:
                waiting.append((call.outputs[0].tensor, user))
    return False
