"""GV663."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import tensor_words
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sequences.positions.position_tables import (
    is_beginning,
    is_of_model,
    is_turned,
    table_in_order,
)
from gradviz.graph.call_log import Call, TensorUse


class PositionsOfSamples(Rule):
    """An encoding of positions is added along the batch: each sample gets one, and all its positions the same.

    What it finds
    -------------
    The beginning of a table of positions with the shape (n, 1, width) that is added to (batch, time, width), cut to the
    size of the batch, where attention or the targets of the loss tell which axis is the batch; or with the shape
    (n, width), that is added after the time was put first, in the data or in the ids that were looked up.

    Why it matters
    --------------
    Such a table is made for data with the time first. With ``batch_first=True`` the model cannot tell positions apart,
    and gets instead a number that says where in the batch a sample happened to stand: noise.

    Example
    -------
    table = torch.randn(40, 1, 8)
    embed, head = torch.nn.Embedding(9, 8), torch.nn.Linear(8, 2)
    attend = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    optimizer = torch.optim.SGD([*embed.parameters(), *attend.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        x = embed(torch.randint(0, 9, (6, 5)))
        x = x + table[: x.size(0)]
        loss = torch.nn.functional.cross_entropy(head(attend(x, x, x)[0].mean(1)), torch.randint(0, 2, (6,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    table = torch.randn(40, 1, 8)
    embed, head = torch.nn.Embedding(9, 8), torch.nn.Linear(8, 2)
    attend = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    optimizer = torch.optim.SGD([*embed.parameters(), *attend.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        x = embed(torch.randint(0, 9, (6, 5)))
        x = x + table[: x.size(1)].transpose(0, 1)
        loss = torch.nn.functional.cross_entropy(head(attend(x, x, x)[0].mean(1)), torch.randint(0, 2, (6,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV663"
    name = "positions_of_samples"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, ("add",)):
            if call.call_site in told or len(call.live_inputs) not in (1, _BOTH):
                continue
            table = _table_along_first_axis(flow, row, call)
            until = case.histories.backward_after(row)
            if table is None or until is None or not flow.has_step_after(row):
                continue
            number, shape = table
            if _is_batch_first(flow, row, until, shape):
                told.add(call.call_site)
                is_time_first = shape_of(flow, call.outputs[0].tensor) != shape
                yield self._finding(flow, row, number, shape, is_time_first=is_time_first)

    def _finding(self, flow: Dataflow, row: int, table: int, shape: Shape, *, is_time_first: bool) -> Finding:
        return self.finding(
            f"{tensor_words(flow, table)}, an encoding of positions, is added along the batch: one for each of the "
            f"{shape[0]:,} samples, and the same for all its {shape[1]:,} positions",
            symptom="grad_wrong",
            why="a table with the shape (n, width) is spread along the first axis; here the time is first"
            if is_time_first
            else "a table with the shape (n, 1, width) is for data with the time first; here the batch is first",
            fix="take a row for each position, along the first axis: x + table[: x.size(0)].unsqueeze(1)"
            if is_time_first
            else "take a row for each position, along the second axis: x + table[: x.size(1)].transpose(0, 1)",
            location=location_of_call(flow, row),
            evidence={"batch": shape[0], "positions": shape[1]},
        )


_BOTH = 2
_AXES = 3
_LOSSES = frozenset({"cross_entropy", "nll_loss", "mse_loss", "binary_cross_entropy_with_logits", "l1_loss"})
_ATTENTION = "multi_head_attention_forward"


def _table_along_first_axis(flow: Dataflow, row: int, call: Call) -> tuple[int, Shape] | None:
    """The table of positions of which a call adds the beginning to a whole batch, along one of two axes: with the
    length of that axis, of the other one, and the width."""
    if len(call.inputs) != _BOTH or not call.outputs:
        return None
    shape = shape_of(flow, call.outputs[0].tensor)
    for use, other in (call.inputs, call.inputs[::-1]):
        given = shape_of(flow, use.tensor)
        if len(shape) != _AXES or shape[0] == shape[1] or 1 in shape[:_BOTH]:
            continue
        if given == (shape[0], 1, shape[2]):
            table = _longer_table(flow, row, use)
            return None if table is None else (table, shape)
        if given[-_BOTH:] == shape[1:] and given in (shape[1:], (1, *shape[1:])) and is_turned(flow, row, other):
            table = _longer_table(flow, row, use)
            return None if table is None else (table, (shape[1], shape[0], shape[2]))
    return None


def _longer_table(flow: Dataflow, row: int, use: TensorUse) -> int | None:
    """The table from whose beginning a tensor was cut, if it is longer and no call of this step made it."""
    made = flow.producers(use.tensor, row)
    cut = flow.log.calls[made[-1]] if made else None
    if cut is None or not cut.inputs:
        return None
    if plain_name(cut.function) == "unsqueeze":
        return _looked_up_in_order(flow, made[-1], cut.inputs[0].tensor)
    if plain_name(cut.function) in ("embedding", "index_select"):
        return _looked_up_in_order(flow, row, use.tensor)
    table = cut.inputs[0].tensor
    is_longer = shape_of(flow, table)[:1] > shape_of(flow, use.tensor)[:1]
    return table if is_beginning(cut) and is_longer and is_of_model(flow, table, row) else None


def _looked_up_in_order(flow: Dataflow, row: int, tensor: int) -> int | None:
    """The table of whose rows 0, 1, 2 ... a tensor was made, if it has more."""
    made = flow.newest_producer(tensor, row)
    table = None if made is None else table_in_order(flow, made, flow.log.calls[made])
    return table if table is not None and shape_of(flow, table)[0] > shape_of(flow, tensor)[0] else None


def _is_batch_first(flow: Dataflow, row: int, until: int, shape: Shape) -> bool:
    """Whether attention runs along the second axis, or the targets of a loss are as many as the first axis is long."""
    for call in flow.log.calls[row:until]:
        name = plain_name(call.function)
        if name == _ATTENTION and shape_of(flow, call.inputs[0].tensor)[:_BOTH] == (shape[1], shape[0]):
            return True
        scores = shape_of(flow, call.outputs[0].tensor) if name == "softmax" and call.outputs else ()
        if len(scores) >= _AXES and scores[-_BOTH:] == (shape[1], shape[1]) and scores[0] % shape[0] == 0:
            return True
        if name in _LOSSES and len(call.inputs) > 1 and not call.inputs[1].requires_grad:
            target = shape_of(flow, call.inputs[1].tensor)
            if target[:1] == shape[:1] and shape[1] not in target:
                return True
    return False
