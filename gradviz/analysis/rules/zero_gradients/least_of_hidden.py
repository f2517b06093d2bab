"""GV213."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, call_words, calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.tables_of_pairs import compares_with_itself, is_of_distances
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, value_maker
from gradviz.graph.call_log import Call, TensorUse, ValueFacts


class LeastOfHidden(Rule):
    """The smallest of several distances is always a zero: one that a mask has put there, or that to the sample itself.

    What it finds
    -------------
    ``(distances * mask).min(dim)`` of numbers that are never negative, where the mask has zeros in every row: the
    result is 0 at every step. Also ``where(mask, distances, 0)`` and ``distances.masked_fill(mask, 0)``, the largest of
    numbers that are never positive, and ``amin``, ``amax``, ``topk`` and ``kthvalue``. Likewise the smallest distance
    in each row of ``torch.cdist(z, z)`` of which a mask hides others, and not the diagonal.

    Why it matters
    --------------
    A factor of 0 hides a number from a sum, or from a maximum of positive numbers. For a minimum, 0 is the best that
    there is: the hardest negative of a triplet loss is then a hidden one, at a distance of 0 and without a gradient.

    Example
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        z, y = model(torch.randn(12, 4)), torch.arange(12) % 3
        distances, same = torch.cdist(z, z), (y[:, None] == y).float()
        positive = (distances * same).max(1).values
        negative = (distances * (1 - same)).min(1).values
        loss = torch.relu(positive - negative + 0.5).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        z, y = model(torch.randn(12, 4)), torch.arange(12) % 3
        distances, same = torch.cdist(z, z), (y[:, None] == y).float()
        positive = (distances * same).max(1).values
        negative = distances.masked_fill(same > 0, 1e9).min(1).values
        loss = torch.relu(positive - negative + 0.5).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV213"
    name = "least_of_hidden"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[int]] = defaultdict(list)
        for row, call in calls_named(flow, _EXTREMES):
            if call.live_inputs and flow.has_step_after(row):
                lines[call.call_site].append(row)
        for rows in lines.values():
            products = [_product_of_mask(flow, row, flow.log.calls[row]) for row in rows]
            if products[-1] is not None and None not in products and _is_used(flow, rows[-1]):
                yield self._finding(flow, rows[-1], products[-1], len(rows))
                continue
            tables = [_own_distances(flow, row, flow.log.calls[row]) for row in rows]
            if tables[-1] is not None and None not in tables and _is_used(flow, rows[-1]):
                yield self._of_itself(flow, rows[-1], tables[-1], len(rows))

    def _of_itself(self, flow: Dataflow, row: int, table: int, times: int) -> Finding:
        location, compared = two_lines(flow, row, table)
        return self.finding(
            f"{call_words(flow.log.calls[row])} always finds the distance of each sample to itself{at_line(compared)}: "
            f"its results are all zero, {times:,} time{'s' if times > 1 else ''} of {times:,}",
            symptom="grad_zero",
            why="a table of a batch with itself has zeros on its diagonal, and nothing is nearer than that",
            fix="for the farthest of those with the same label, take the largest: "
            "distances.masked_fill(~same, 0).max(dim=1); for the nearest other sample, hide the diagonal: "
            'distances.masked_fill(torch.eye(n, dtype=torch.bool), float("inf"))',
            location=location,
            symptom_location=compared,
            evidence={"times": times},
        )

    def _finding(self, flow: Dataflow, row: int, product: int, times: int) -> Finding:
        call = flow.log.calls[row]
        location, hidden = two_lines(flow, row, product)
        is_least, number = _is_least(call), "-1e9"
        if is_least:
            number = "1e9"
        at = at_line(hidden)
        return self.finding(
            f"{call_words(call)} always finds a 0 that the mask has put there{at}: its results are all zero, {times:,} "
            f"time{'s' if times > 1 else ''} of {times:,}",
            symptom="grad_zero",
            why=f"what it chooses from is never {'negative' if is_least else 'positive'}, so that a factor of 0 makes "
            f"a number the {'smallest' if is_least else 'largest'} one instead of hiding it",
            fix=f"hide it behind a number that is never chosen: distances.masked_fill(mask == 0, {number})",
            location=location,
            symptom_location=hidden,
            evidence={"times": times},
        )


_EXTREMES = frozenset({"min", "amin", "max", "amax", "topk", "kthvalue"})
_FILLS = frozenset({"where", "masked_fill", "setitem", "index_put"})
"""They write a number at the places that a mask tells."""
_TWO = 2


def _is_least(call: Call) -> bool:
    name = plain_name(call.function)
    if name == "topk":
        return call.scalars.get("largest", call.scalars.get("3")) is False
    return name in ("min", "amin") or (name == "kthvalue" and 1 in (call.scalars.get("1"), call.scalars.get("k")))


def _product_of_mask(flow: Dataflow, row: int, call: Call) -> int | None:
    """The product with zeros and ones, of numbers of one sign, of which an extreme finds nothing but zeros."""
    if len(call.inputs) != 1 or not call.outputs or not _are_all_zero(call.outputs[0].values):
        return None
    made = value_maker(flow, call.inputs[0].tensor, row)
    hidden = None if made is None else _hidden_with_zero(flow, *made)
    if made is None or hidden is None:
        return None
    values = flow.values_of(hidden, made[0])
    if values is None or values.minimum is None or values.maximum is None or values.zeros * _TWO > values.count:
        return None
    is_fitting = values.minimum >= 0 if _is_least(call) else values.maximum <= 0
    return made[0] if is_fitting else None


def _own_distances(flow: Dataflow, row: int, call: Call) -> int | None:
    """The call that compared a batch with itself, if a mask hides others, and of each row nothing but its zero on the
    diagonal is found."""
    if not _is_least(call) or not call.outputs or not _are_all_zero(call.outputs[0].values):
        return None
    tensor, before, is_masked = call.inputs[0].tensor, row, False
    for _ in range(_MAX_FILLS):
        made = flow.newest_producer(tensor, before)
        if made is None:
            return None
        maker = flow.log.calls[made]
        if compares_with_itself(flow, made, maker) and is_of_distances(flow, made):
            values = maker.outputs[0].values
            return made if is_masked and values is not None and values.zeros * _TWO <= values.count else None
        if plain_name(maker.function) not in _KEEP_ZEROS or len(maker.live_inputs) != 1:
            return None
        is_masked |= len(maker.inputs) > 1
        tensor, before = maker.live_inputs[0].tensor, made
    return None


_MAX_FILLS = 6
_KEEP_ZEROS = _FILLS | SHAPE_ONLY | {"add", "mul", "square", "pow", "sqrt", "div"}


def _hidden_with_zero(flow: Dataflow, row: int, call: Call) -> TensorUse | None:
    """What a call puts zeros in, at the places that a mask tells: by a product, or by a choice between it and zero."""
    live, dead = call.live_inputs, [use for use in call.inputs if not use.requires_grad]
    name = plain_name(call.function)
    if len(live) != 1 or not any(_is_mask(flow, use, row) for use in dead):
        return None
    if name == "mul":
        return live[0] if len(call.inputs) == _TWO else None
    numbers = [value for value in call.scalars.values() if type(value) in (int, float)]
    others = [use for use in dead if not _is_mask(flow, use, row)]
    if name not in _FILLS or len(numbers) + len(others) != 1:
        return None
    is_zero = numbers == [0] if numbers else _is_only_zero(flow.values_of(others[0], row))
    return live[0] if is_zero else None


def _is_only_zero(values: ValueFacts | None) -> bool:
    return values is not None and values.zeros == values.count


def _are_all_zero(values: ValueFacts | None) -> bool:
    return values is not None and values.count > 1 and values.zeros == values.count


def _is_mask(flow: Dataflow, use: TensorUse, row: int) -> bool:
    values = flow.values_of(use, row)
    return values is not None and values.minimum == 0 and values.maximum == 1 and values.zeros < values.count


def _is_used(flow: Dataflow, row: int) -> bool:
    """Whether anything with a gradient is computed from the values that were found."""
    found = flow.log.calls[row].outputs[0].tensor
    return any(flow.log.calls[user].live_inputs for user in flow.users(found, row))
