"""The loss functions of torch in a training, line by line, and where the values of their arguments were computed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.dataflow.call_words import calls_named, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call, TensorUse

SHAPE_ONLY = frozenset({
    "view", "reshape", "flatten", "squeeze", "unsqueeze", "transpose", "permute", "contiguous", "float", "getitem",
    "to", "double", "expand", "expand_as", "view_as", "broadcast_tensors", "clone", "T", "t", "swapaxes", "unflatten",
    "select", "narrow", "ravel", "movedim", "swapdims", "mT", "broadcast_to", "reshape_as", "atleast_1d", "atleast_2d",
})  # fmt: skip
"""They change the shape or the type, or take a part, and keep the values."""
PARTS = frozenset({"getitem", "select", "narrow"})
"""Those of them that take a part."""
LOSSES_BY_SAMPLE = frozenset({
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
})  # fmt: skip
"""They compare each row of a prediction with that of its target."""
_MAX_SHAPING = 8


def calls_in_training(flow: Dataflow, functions: frozenset[str]) -> Iterator[list[int]]:
    """By line and function: the calls of these functions that a step may use, of which an argument needs a gradient.

    Of a long run, what a block without gradients computes is recorded at some steps only: where an argument of a line
    comes from such a block, the calls at other steps are left out, since nothing is known of it there.
    """
    lines: dict[tuple[int | None, str], list[int]] = defaultdict(list)
    for row, call in calls_named(flow, functions):
        if call.kind == "operation" and call.live_inputs and flow.is_by_program(call):
            is_used = bool(call.outputs) and bool(flow.users(call.outputs[0].tensor, row))
            if is_used and flow.has_step_after(row):
                lines[call.call_site, plain_name(call.function)].append(row)
    yield from (_with_known_arguments(flow, rows) for rows in lines.values())


def _with_known_arguments(flow: Dataflow, rows: list[int]) -> list[int]:
    """Those calls of a line of which it is known how arguments without a gradient were made, if it is of any."""
    known = {row: _made_arguments(flow, row) for row in rows}
    most = max(known.values(), default=0)
    return [row for row in rows if known[row] == most] if most else rows


def _made_arguments(flow: Dataflow, row: int) -> int:
    inputs = (use for use in flow.log.calls[row].inputs if not use.requires_grad)
    return sum(flow.newest_producer(use.tensor, row) is not None for use in inputs)


def argument(call: Call, position: int, name: str) -> TensorUse | None:
    """The tensor that a call got as this argument, by position or by name."""
    return next((use for use in call.inputs if use.place in (str(position), name)), None)


def value_maker(
    flow: Dataflow, tensor: int, before: int, *, through: frozenset[str] = frozenset()
) -> tuple[int, Call] | None:
    """The call that computed the values of a tensor, before they were only brought into another shape.

    Args:
        through: operations with a single tensor that are also passed over.
    """
    for _ in range(_MAX_SHAPING):
        made = flow.producers(tensor, before)
        if not made:
            return None
        before = made[-1]
        call = flow.log.calls[before]
        name = plain_name(call.function)
        is_passed = name in SHAPE_ONLY or (name in through and len(call.inputs) == 1)
        if not is_passed or not call.inputs or call.kind != "operation":
            return before, call
        tensor = _source(call, name, tensor)
    return None


def _source(call: Call, name: str, result: int) -> int:
    """The input from which a call that keeps values made a result."""
    if name != "broadcast_tensors":
        return call.inputs[0].tensor
    index = next((index for index, use in enumerate(call.outputs) if use.tensor == result), 0)
    return call.inputs[min(index, len(call.inputs) - 1)].tensor


def tensor_before(flow: Dataflow, tensor: int, row: int, passed: frozenset[str]) -> int:
    """The tensor before it went through operations of a single tensor that are passed over."""
    for _ in range(_MAX_SHAPING):
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or len(call.inputs) != 1 or plain_name(call.function) not in passed:
            break
        row, tensor = made, call.inputs[0].tensor
    return tensor


def reads_its_target(flow: Dataflow, row: int, target: int) -> bool:
    """Whether the model reads what its loss asks for, or rows of it, as one that learns to restore its input."""
    memory = flow.memory_of(target)
    for each in flow.ancestors(flow.log.calls[row].inputs[0].tensor, row, flow.step_before(row)):
        call = flow.log.calls[each]
        for use in call.inputs if call.live_inputs else ():
            made = None if use.requires_grad else flow.newest_producer(use.tensor, each)
            taken = made is not None and plain_name(flow.log.calls[made].function) in ("getitem", "index_select")
            read = flow.log.calls[made].inputs[0].tensor if made is not None and taken else use.tensor
            if memory in (flow.memory_of(use.tensor), flow.memory_of(read)):
                return True
    return False


def is_reduced_as_a_whole(flow: Dataflow, row: int) -> bool:
    """Whether what a loss function returns is one number, or elements that are only averaged or added up.

    Elements that are multiplied with a mask or selected may contain some that count for nothing.
    """
    call = flow.log.calls[row]
    if call.scalars.get("reduction") != "none":
        return True
    users = [flow.log.calls[user] for user in flow.users(call.outputs[0].tensor, row)]
    return bool(users) and all(plain_name(user.function) in ("mean", "sum") for user in users)
