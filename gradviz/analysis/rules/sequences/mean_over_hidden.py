"""GV666."""

from __future__ import annotations

from collections.abc import Iterator
from math import isclose

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import moved_axes
from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import at_line, calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.divided_later import is_divided_later
from gradviz.analysis.rules.bases.formulas.means import MEANS, POOLS, averaged_axes
from gradviz.analysis.rules.bases.formulas.products import product_of, summed_axes
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, tensor_before
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, is_number_first, number_of
from gradviz.analysis.rules.bases.sequences.attention.masks_of_scores import is_of_yes_and_no
from gradviz.graph.call_log import Call, TensorUse


class MeanOverHidden(Rule):
    """A mean over positions also counts those that a mask set to zero.

    What it finds
    -------------
    ``(h * mask).mean(dim)`` over an axis along which the mask hides another number of positions in each sample, also as
    a sum or a matrix product with the mask that is divided by the number of all positions, as average pooling over all
    positions, and with positions that ``masked_fill()`` or ``where()`` made zero. As a note: ``(loss * mask).mean()``
    over everything.

    Why it matters
    --------------
    The sum has only the positions that count, and it is divided by the number of all. What belongs to a short sequence
    gets smaller the more padding its batch happens to have, and so do its gradients.

    Example
    -------
    embed, head = torch.nn.Embedding(9, 8), torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        real = torch.arange(7) < torch.randint(2, 8, (6, 1))
        mask = real.float().unsqueeze(-1)
        h = (embed(torch.randint(0, 9, (6, 7))) * mask).mean(dim=1)
        loss = torch.nn.functional.cross_entropy(head(h), torch.randint(0, 2, (6,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    embed, head = torch.nn.Embedding(9, 8), torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)
    for step in range(3):
        real = torch.arange(7) < torch.randint(2, 8, (6, 1))
        mask = real.float().unsqueeze(-1)
        h = (embed(torch.randint(0, 9, (6, 7))) * mask).sum(dim=1) / mask.sum(dim=1)
        loss = torch.nn.functional.cross_entropy(head(h), torch.randint(0, 2, (6,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV666"
    name = "mean_over_hidden"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, _CANDIDATES):
            if call.call_site in told or len(call.live_inputs) != 1:
                continue
            masked = _masked(flow, row, call)
            if masked is not None and flow.has_step_after(row) and not is_divided_later(flow, row, call):
                told.add(call.call_site)
                yield self._finding(flow, row, *masked)

    def _finding(self, flow: Dataflow, row: int, masked: int, mask: int) -> Finding:
        values = flow.values(mask, masked)
        hidden = "some" if values is None else f"{values.zeros / values.count:.0%}"
        location, made = two_lines(flow, row, masked)
        is_of_all = shape_of(flow, flow.log.calls[row].outputs[0].tensor) == ()
        return self.finding(
            f"this mean also counts the {hidden} of the positions that a mask set to zero{at_line(made)}",
            severity="note" if is_of_all else "warning",
            symptom="grad_wrong",
            why="it divides by the number of all positions: the more of them are hidden, the smaller the result",
            fix="divide by the number of positions that count: (h * mask).sum(1) / mask.sum(1).clamp(min=1)",
            location=location,
            symptom_location=made,
        )


_CANDIDATES = frozenset({"div", "mul", *MEANS, *POOLS})
_BOTH = 2
_SUMS = frozenset({"sum", "einsum", "bmm", "matmul"})
_FILLS = frozenset({"masked_fill", "where", "setitem"})


def _masked(flow: Dataflow, row: int, call: Call) -> tuple[int, int] | None:
    """The call that hides positions of which a call takes the mean along the axis of the mask, and the mask."""
    if plain_name(call.function) in _CANDIDATES - {"div", "mul"}:
        made, summing = row, call
    else:
        tensor = tensor_before(flow, call.live_inputs[0].tensor, row, SHAPE_ONLY)
        found = flow.newest_producer(tensor, row)
        summing = call if found is None else flow.log.calls[found]
        if found is None or plain_name(summing.function) not in _SUMS:
            return None
        made = found
    pair = product_of(summing)
    if pair is None:
        return _hidden_before(flow, made, summing, row)
    return _hidden_in_product(flow, made, summing, pair, row)


def _hidden_before(flow: Dataflow, row: int, call: Call, mean: int) -> tuple[int, int] | None:
    """The same of ``(h * mask).mean(1)`` and ``h.masked_fill(~mask, 0).sum(1) / h.size(1)``."""
    use = call.live_inputs[0]
    rank = len(shape_of(flow, use.tensor))
    summed = averaged_axes(flow, call, use) if mean == row else summed_axes(call, use, rank)
    made, summed = _before_turning(flow, use.tensor, row, summed or frozenset())
    mask = None if made is None else _mask_of(flow, made)
    if made is None or mask is None:
        return None
    shape, whole = shape_of(flow, mask), shape_of(flow, flow.log.calls[made].outputs[0].tensor)
    if len(summed) == len(whole) and mean == row:
        return (made, mask) if len(shape) >= _BOTH and min(shape[:_BOTH]) > 1 else None
    axis = next(iter(summed)) if len(summed) == 1 else None
    # The mask differs from sample to sample, along an axis of its own.
    is_along = axis is not None and len(shape) == len(whole) and axis > 0 and shape[axis] > 1 and shape[0] > 1
    is_only_along = is_along and all(size == 1 for place, size in enumerate(shape) if place not in (0, axis))
    is_mean = mean == row or (axis is not None and _divides_by(flow.log.calls[mean], shape, axis))
    return (made, mask) if is_only_along and is_mean else None


def _before_turning(
    flow: Dataflow, tensor: int, before: int, axes: frozenset[int]
) -> tuple[int | None, frozenset[int]]:
    """The call that made a tensor before its axes changed places, and where some of them were then."""
    for _ in range(_MAX_TURNS):
        row = flow.newest_producer(tensor, before)
        call = None if row is None else flow.log.calls[row]
        if row is None or call is None or plain_name(call.function) not in _TURNS or len(call.inputs) != 1:
            return row, axes
        rank = len(shape_of(flow, call.inputs[0].tensor))
        moved = moved_axes(flow, call, plain_name(call.function), tuple(range(rank)), tensor)
        if moved is None:
            return None, axes
        axes = frozenset(place for axis in axes if (place := moved[axis]) is not None)
        tensor, before = call.inputs[0].tensor, row
    return None, axes


_TURNS = frozenset({"transpose", "permute", "mT", "movedim", "contiguous"})
_MAX_TURNS = 3


def _hidden_in_product(
    flow: Dataflow, row: int, call: Call, pair: tuple[TensorUse, TensorUse], mean: int
) -> tuple[int, int] | None:
    """The same of ``bmm(mask[:, None], h) / h.size(1)`` and ``einsum("btd,bt->bd", h, mask) / h.size(1)``."""
    dead = [use for use in pair if not use.requires_grad]
    if len(dead) != 1 or not is_of_yes_and_no(flow, row, dead[0].tensor):
        return None
    shape = shape_of(flow, dead[0].tensor)
    summed = [axis for axis in summed_axes(call, dead[0], len(shape)) or () if shape[axis] > 1]
    if len(summed) != 1:
        return None
    (axis,) = summed
    is_of_each = axis > 0 and shape[0] > 1 and all(size == 1 for at, size in enumerate(shape) if at not in (0, axis))
    return (row, dead[0].tensor) if is_of_each and _divides_by(flow.log.calls[mean], shape, axis) else None


def _divides_by(call: Call, shape: Shape, axis: int) -> bool:
    """Whether a call divides by the size of one axis, or multiplies with its reciprocal.

    A square mask may be one of pairs, of which the number in each row is no length.
    """
    number, count = number_of(call, *OPERAND, missing=0.0), shape[axis]
    if not number or count <= 1 or is_number_first(call) or shape[0] == count:
        return False
    return isclose(number, count if plain_name(call.function) == "div" else 1 / count, rel_tol=1e-6)


def _mask_of(flow: Dataflow, row: int) -> int | None:
    """The mask with which a call makes some elements zero."""
    call = flow.log.calls[row]
    name = plain_name(call.function)
    dead = [use.tensor for use in call.inputs if not use.requires_grad]
    if name == "mul" and len(call.inputs) == _BOTH and len(dead) == 1:
        return dead[0] if is_of_yes_and_no(flow, row, dead[0]) else None
    if name not in _FILLS or len(call.live_inputs) != 1 or not dead:
        return None
    numbers = [value for value in call.scalars.values() if type(value) in (int, float)]
    others = [flow.values(tensor, row) for tensor in dead[1:]]
    zeros = [values is not None and values.zeros == values.count for values in others]
    is_zero = numbers == [0] if numbers else zeros == [True]
    return dead[0] if is_zero and is_of_yes_and_no(flow, row, dead[0]) else None
