"""Derivatives by tensors on which the result does not depend, where zeros stand for what torch has none of.

``autograd.grad()`` refuses such a tensor. With ``allow_unused=True`` it returns None, and with
``materialize_grads=True`` zeros: then a loss may be computed of a derivative that is zero whatever is trained.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.cuts.cut_causes import is_gradient
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow

_GRAD = "torch.autograd.grad"
_ZEROS = frozenset({"zeros_like", "new_zeros", "zeros"})
_SUMS = frozenset({"sum", "mean"})
_NEAR = 3
"""Calls between ``grad()`` and the zeros by hand."""
_MIN_TIMES = 2


class HiddenZeros(Struct, frozen=True):
    """One line that asks for such derivatives, at each of its calls. Calls are numbers of the log."""

    row: int
    """The last of them."""
    tensors: tuple[int, ...]
    """What the derivative of the last one is by."""
    every: frozenset[int]
    """What those of all are by."""
    result: int
    """What it is a derivative of, before its elements were added up."""
    times: int
    is_filled: bool
    """Whether the program itself puts zeros in the place of None."""


def hidden_zeros(flow: Dataflow) -> Iterator[HiddenZeros]:
    """The lines whose derivatives are all of this kind, and all go into losses that optimizers step for."""
    lines: dict[tuple[str, int] | None, list[int]] = defaultdict(list)
    for row in flow.rows_of_kind("backward"):
        call = flow.log.calls[row]
        if call.asked and call.roots and call.inside is None:
            here = flow.line_of(row)
            lines[None if here is None else (here.file, here.line)].append(row)
    for line, rows in lines.items():
        if line is None or len(rows) < _MIN_TIMES or any(flow.log.calls[row].outputs for row in rows):
            continue  # of several tensors, some may be used by each of several results
        stepped = [row for row in rows if flow.has_step_after(row)]
        found = [zeros for row in stepped if (zeros := _zeros(flow, row)) is not None and _is_in_loss(flow, *zeros)]
        if (
            len(found) >= _MIN_TIMES
            and len(found) == len(stepped)
            and not any(_is_of_a_slope(flow, row) for row in stepped)
        ):
            row, (made, _) = stepped[-1], found[-1]
            is_filled = flow.log.calls[made].function != _GRAD
            every = frozenset(use.tensor for each in rows for use in flow.log.calls[each].asked)
            asked = tuple(dict.fromkeys(use.tensor for use in flow.log.calls[row].asked))
            yield HiddenZeros(row, asked, every, _before_sum(flow, row), len(rows), is_filled)


def _before_sum(flow: Dataflow, row: int) -> int:
    root = flow.log.calls[row].roots[0].tensor
    made = flow.newest_producer(root, row)
    call = None if made is None else flow.log.calls[made]
    is_sum = call is not None and plain_name(call.function) in _SUMS and bool(call.inputs)
    return call.inputs[0].tensor if call is not None and is_sum else root


def _zeros(flow: Dataflow, row: int) -> tuple[int, int] | None:
    """The call that made the zeros of a derivative, right behind it, and these zeros."""
    calls, call = flow.log.calls, flow.log.calls[row]
    asked = [flow.log.tensors[use.tensor].facts.shape for use in call.asked]
    for made in range(row + 1, min(row + 1 + _NEAR, len(calls))):
        each = calls[made]
        if call.raised is not None or not each.outputs or each.kind != "operation":
            continue
        tensor, values = each.outputs[0].tensor, each.outputs[0].values
        is_of_grad = each.function == _GRAD and each.call_site == call.call_site
        is_by_hand = plain_name(each.function) in _ZEROS and flow.log.tensors[tensor].facts.shape in asked
        if (is_of_grad or is_by_hand) and (values is None or values.zeros == values.count):
            return made, tensor
    return None


def _is_in_loss(flow: Dataflow, made: int, tensor: int) -> bool:
    """Whether the next backward that computes gradients for a step starts from a result of the zeros."""
    rows = flow.rows_of_kind("backward")
    until = next((row for row in rows if row > made and not flow.log.calls[row].asked), None)
    return until is not None and until in flow.descendants(tensor, made, until + 1)


def _is_of_a_slope(flow: Dataflow, row: int) -> bool:
    """Whether the result is computed of another derivative: that of a straight line depends on no input."""
    since, calls = flow.step_before(row), flow.log.calls
    return any(is_gradient(calls[each]) for use in calls[row].roots for each in flow.ancestors(use.tensor, row, since))
