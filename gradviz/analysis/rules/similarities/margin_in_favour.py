"""GV783."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import (
    PARTS,
    SHAPE_ONLY,
    argument,
    calls_in_training,
    tensor_before,
    value_maker,
)
from gradviz.analysis.rules.bases.losses.signed_terms import number_of
from gradviz.analysis.rules.bases.losses.targets.masks_of_classes import exchange, is_one_hot
from gradviz.graph.call_log import Call, TensorUse, ValueFacts


class MarginInFavour(Rule):
    """A margin makes the score of the right class larger before the cross entropy, not smaller.

    What it finds
    -------------
    ``cross_entropy`` of scores to which something positive was added where the class is the right one, or whose right
    one was exchanged for a larger one, as ``cos(acos(score) - margin)``: with a mask, or read with ``gather()`` and put
    back with ``scatter()``.

    Why it matters
    --------------
    A margin (CosFace, ArcFace) asks more of the right class, so that classes move apart. With the other sign it asks
    less than no margin would: the loss is small though the classes lie together.

    Example
    -------
    embed, centres = torch.nn.Linear(8, 6), torch.nn.Parameter(torch.randn(5, 6))
    optimizer = torch.optim.SGD([*embed.parameters(), centres], lr=0.1)
    unit = torch.nn.functional.normalize
    for step in range(3):
        x, y = torch.randn(32, 8), torch.randint(0, 5, (32,))
        score = unit(embed(x)) @ unit(centres).T
        right = torch.nn.functional.one_hot(y, 5)
        loss = torch.nn.functional.cross_entropy(30 * (score + 0.35 * right), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    embed, centres = torch.nn.Linear(8, 6), torch.nn.Parameter(torch.randn(5, 6))
    optimizer = torch.optim.SGD([*embed.parameters(), centres], lr=0.1)
    unit = torch.nn.functional.normalize
    for step in range(3):
        x, y = torch.randn(32, 8), torch.randint(0, 5, (32,))
        score = unit(embed(x)) @ unit(centres).T
        right = torch.nn.functional.one_hot(y, 5)
        loss = torch.nn.functional.cross_entropy(30 * (score - 0.35 * right), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV783"
    name = "margin_in_favour"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for rows in calls_in_training(case.dataflow, frozenset({"cross_entropy"})):
            found = [_favour(case.dataflow, row) for row in rows]
            if all(each is not None for each in found) and found[-1] is not None:
                yield self._finding(case.dataflow, found[-1], rows[-1])

    def _finding(self, flow: Dataflow, made: int, row: int) -> Finding:
        location, loss = two_lines(flow, made, row)
        return self.finding(
            "a margin makes the score of the right class larger before cross_entropy() compares it with the others",
            symptom="grad_wrong",
            why="a margin should ask more of the right class: with this sign the loss is small before the classes are "
            "apart",
            fix="turn its sign: score - margin, or cos(acos(score) + margin)",
            location=location,
            symptom_location=loss,
        )


_BOTH = 2
_SHIFT = 1e-4
"""The least by which one tensor must lie above another one."""


def _favour(flow: Dataflow, row: int) -> int | None:
    """The call that made the scores of the right classes larger, if one did."""
    scores, target = argument(flow.log.calls[row], 0, "input"), argument(flow.log.calls[row], 1, "target")
    made = value_maker(flow, scores.tensor, row, through=frozenset({"mul", "div"})) if scores is not None else None
    if made is None or target is None:
        return None
    number, call = made
    if plain_name(call.function) == "scatter_add":
        return number if _is_scattered_in_favour(flow, number, call, target) else None
    if plain_name(call.function) in _PLACES:
        return _placed_in_favour(flow, number, call, target)
    added = _added(call)
    if added is not None:
        values = flow.values_of(added, number)
        factor = number_of(call, "alpha", missing=1.0) * (-1 if plain_name(call.function) == "sub" else 1)
        ends = () if values is None else (factor * (values.minimum or 0), factor * (values.maximum or 0))
        is_positive = bool(ends) and min(ends) == 0 < max(ends)
        return number if is_positive and is_one_hot(flow, added, number, target) else None
    exchanged = exchange(flow, number, call)
    if exchanged is None or not is_one_hot(flow, exchanged.mask, number, target):
        return None
    is_larger = _is_above(flow.values_of(exchanged.right, number), flow.values_of(exchanged.others, number))
    return (flow.newest_producer(exchanged.right.tensor, number) or number) if is_larger else None


def _is_scattered_in_favour(flow: Dataflow, row: int, call: Call, target: TensorUse) -> bool:
    """Whether ``scores.scatter_add(1, y[:, None], m)`` adds something positive where the class is the right one."""
    given = {use.place: use for use in call.inputs}
    index, added = given.get("2", given.get("index")), given.get("3", given.get("src"))
    if index is None or added is None or added.requires_grad:
        return False
    values = flow.values_of(added, row)
    is_positive = values is not None and values.minimum is not None and values.minimum > 0
    return is_positive and _root(flow, index, row) == _root(flow, target, row)


_PLACES = frozenset({"setitem", "scatter", "index_put"})
_READS = frozenset({"gather", "take_along_dim", "getitem"})
_MAX_ABOVE = 12


def _placed_in_favour(flow: Dataflow, row: int, call: Call, target: TensorUse) -> int | None:
    """The call that made the scores of the right classes larger before they were put where they had been read:
    ``scores[rows, y] += m``, ``scores.scatter(1, y[:, None], larger)``."""
    if len(call.inputs) <= _BOTH:
        return None
    indices, value = call.inputs[1:-1], call.inputs[-1]
    wanted = _root(flow, target, row)
    if not value.requires_grad or wanted not in {_root(flow, use, row) for use in indices}:
        return None
    made = value_maker(flow, value.tensor, row)
    if made is None:
        return None

    def onward(each: Call) -> tuple[TensorUse, ...]:
        return () if plain_name(each.function) in _READS else each.live_inputs

    for number, read in flow.makers_above(value.tensor, row, _MAX_ABOVE, onward):
        is_read = plain_name(read.function) in _READS and len(read.inputs) > 1
        if is_read and wanted in {_root(flow, use, number) for use in read.inputs[1:]}:
            was = flow.values_of(read.outputs[0], number + 1)
            return made[0] if _is_above(flow.values_of(value, row), was) else None
    return None


def _root(flow: Dataflow, use: TensorUse, row: int) -> int:
    """A tensor before only its shape was changed."""
    return tensor_before(flow, use.tensor, row, SHAPE_ONLY - PARTS | {"getitem"})


def _added(call: Call) -> TensorUse | None:
    """The constant that a call adds to scores."""
    if plain_name(call.function) not in ("add", "sub") or len(call.inputs) != _BOTH or len(call.live_inputs) != 1:
        return None
    if call.live_inputs[0] is not call.inputs[0] and plain_name(call.function) == "sub":
        return None
    return next(use for use in call.inputs if not use.requires_grad)


def _is_above(right: ValueFacts | None, others: ValueFacts | None) -> bool:
    """Whether all of these values lie above those of the others, which are as many."""
    if right is None or others is None or right.count != others.count:
        return False
    if right.minimum is None or right.maximum is None or others.minimum is None or others.maximum is None:
        return False
    return right.minimum > others.minimum + _SHIFT and right.maximum > others.maximum - _SHIFT
