"""GV753."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator
from math import prod

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import argument
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, number_of
from gradviz.graph.call_log import Call, TensorUse


class LabelsMixedOtherwise(Rule):
    """Samples are mixed with others, and the labels of the two count the other way round.

    What it finds
    -------------
    ``lam * x + (1 - lam) * x[order]``, or a part of ``x`` that is overwritten with that of ``x[order]``, where the loss
    weighs the labels ``y[order]`` with the share of ``x``, and ``y`` with that of ``x[order]``; and labels that are
    mixed with swapped shares.

    Why it matters
    --------------
    A sample that is mostly a cat and a little of a dog is said to be mostly a dog. What the model learns is the wrong
    way round for all samples, except those that are mixed in equal parts.

    Example
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        x, y, order, lam = torch.randn(8, 4), torch.arange(8) % 3, torch.randperm(8), 0.9 - 0.1 * step
        out = model(lam * x + (1 - lam) * x[order])
        entropy = torch.nn.functional.cross_entropy
        loss = (1 - lam) * entropy(out, y) + lam * entropy(out, y[order])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        x, y, order, lam = torch.randn(8, 4), torch.arange(8) % 3, torch.randperm(8), 0.9 - 0.1 * step
        out = model(lam * x + (1 - lam) * x[order])
        entropy = torch.nn.functional.cross_entropy
        loss = lam * entropy(out, y) + (1 - lam) * entropy(out, y[order])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV753"
    name = "labels_mixed_otherwise"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        swapped: dict[int | None, list[tuple[_Mix, _Mix]]] = defaultdict(list)
        agreeing = set[int | None]()
        for found in _mixes_by_order(flow).values():
            mixes = sorted(found, key=lambda mix: _is_of_labels(flow, mix.row))
            data = mixes[0]
            for labels in mixes[1:]:
                site = flow.log.calls[labels.row].call_site
                if _are_same(data.own, labels.own) or not _are_same(data.own, labels.other):
                    agreeing.add(site)
                elif _are_same(data.other, labels.own):
                    swapped[site].append((data, labels))
        for site, pairs in swapped.items():
            if site not in agreeing and len(pairs) >= _OFTEN:
                yield self._finding(flow, *pairs[-1], len(pairs))

    def _finding(self, flow: Dataflow, data: _Mix, labels: _Mix, times: int) -> Finding:
        location, mixed = location_of_call(flow, labels.row), location_of_call(flow, data.row)
        share, weight = data.own[0], labels.own[0]
        at = at_line(mixed) if mixed != location else ""
        return self.finding(
            f"each sample keeps a share of {share:.3g} of its own{at}, and its own label counts {weight:.3g}: the "
            f"weights of the two labels are swapped ({times:,} times)",
            symptom="grad_wrong",
            why="the model is told that a mixed sample is mostly what it contains least of",
            fix="swap the weights: that of y is the share of x, and that of y[order] the share of x[order]",
            location=location,
            symptom_location=mixed if mixed != location else None,
            evidence={"share": share, "weight": weight, "times": times},
        )


Share = tuple[float, float]
"""The smallest and the largest of the shares of a batch."""


class _Mix(Struct, frozen=True):
    """Something that is mixed with itself in another order."""

    row: int
    own: Share
    other: Share


class _Part(Struct, frozen=True):
    """A summand: what it multiplies, and in which order it took that."""

    source: int
    order: Hashable
    share: Share


_OFTEN = 2
_TWO = 2
_EPSILON = 1e-3
_CLEARLY = 0.02
_MAX_STEPS = 6
_TAKES = frozenset({"getitem", "index_select", "take_along_dim"})
_TURNS = frozenset({"flip", "roll"})
_REDUCES = frozenset({"mean", "sum", "view", "reshape", "squeeze", "unsqueeze"})
_PASSES = frozenset({"clone", "to", "float", "contiguous", "detach"})


def _are_same(one: Share, other: Share) -> bool:
    return all(abs(a - b) < _EPSILON for a, b in zip(one, other, strict=True))


def _mixes_by_order(flow: Dataflow) -> dict[Hashable, list[_Mix]]:
    """By order: what was mixed with itself in that order, unless the shares are equal."""
    found: dict[Hashable, list[_Mix]] = defaultdict(list)
    for row, call in enumerate(flow.log.calls):
        if not flow.has_step_after(row):
            break
        name = plain_name(call.function)
        made = _pasted(flow, row, call) if name == "setitem" else _mixed(flow, row, call) if name == "add" else None
        if made is not None and any(abs(a - b) > _CLEARLY for a, b in zip(made[1].own, made[1].other, strict=True)):
            found[made[0]].append(made[1])
    return found


def _is_of_labels(flow: Dataflow, row: int) -> bool:
    """Whether something that was mixed is a loss, the target of one, or a factor of what is trained."""
    made = flow.log.calls[row].outputs[0]
    users = [flow.log.calls[user] for user in flow.users(made.tensor, row)]
    return made.requires_grad or any(
        user.live_inputs and (plain_name(user.function) == "mul" or made.tensor == _target(user)) for user in users
    )


def _target(call: Call) -> int | None:
    target = argument(call, 1, "target")
    return None if target is None else target.tensor


def _mixed(flow: Dataflow, row: int, call: Call) -> tuple[Hashable, _Mix] | None:
    """``a * x + b * x[order]``, of data, of labels, or of the losses of two labels."""
    if len(call.inputs) != _TWO:
        return None
    one, other = (_part(flow, use.tensor, row) for use in call.inputs)
    if one is None or other is None or one.source != other.source or (one.order is None) == (other.order is None):
        return None
    own, second = (one, other) if one.order is None else (other, one)
    return second.order, _Mix(row, own.share, second.share)


def _part(flow: Dataflow, tensor: int, before: int) -> _Part | None:
    row = flow.newest_producer(tensor, before)
    call = None if row is None else flow.log.calls[row]
    if row is None or call is None or plain_name(call.function) != "mul":
        return None
    for use in call.inputs:
        share = _factor_beside(flow, call, use, row)
        if share is not None:
            given = _target_of_loss(flow, use.tensor, row) if use.requires_grad else None
            source, order = _taken(flow, use.tensor if given is None else given, row)
            if order is not None or use.requires_grad or len(call.inputs) == 1:
                return _Part(source, order, share)
    plain = [use for use in call.inputs if shape_of(flow, use.tensor) == shape_of(flow, tensor)]
    share = _factor_beside(flow, call, plain[0], row) if len(plain) == 1 else None
    return None if share is None else _Part(_taken(flow, plain[0].tensor, row)[0], None, share)


def _factor_beside(flow: Dataflow, call: Call, use: TensorUse, row: int) -> Share | None:
    """The other factor of a product: a number, or the numbers of a batch, between 0 and 1."""
    others = [each for each in call.inputs if each is not use]
    values = flow.values_of(others[0], row) if others else None
    number = number_of(call, *OPERAND, missing=-1.0)
    lowest, highest = (number, number) if values is None else (values.minimum, values.maximum)
    if lowest is None or highest is None or not 0 <= lowest <= highest <= 1:
        return None
    return lowest, highest


def _taken(flow: Dataflow, tensor: int, before: int) -> tuple[int, Hashable]:
    """What a tensor was taken from, and in which order; None if it is as it was."""
    order: Hashable = None
    for _, call in flow.makers(tensor, before, _MAX_STEPS):
        name = plain_name(call.function)
        if order is not None and name not in _PASSES:
            break
        if name in _TAKES and len(call.inputs) == _TWO:
            order = call.inputs[1].tensor
        elif name in _TURNS:
            order = name, tuple(sorted(call.scalars.items())), flow.step_before(before)
        elif name not in _PASSES or not call.inputs:
            break
        tensor = call.inputs[0].tensor
    return tensor, order


def _target_of_loss(flow: Dataflow, tensor: int, before: int) -> int | None:
    """The target of the loss function that computed a number."""
    for _, call in flow.makers(tensor, before, _MAX_STEPS):
        target = argument(call, 1, "target")
        if target is not None and not target.requires_grad and call.live_inputs:
            return target.tensor
        if plain_name(call.function) not in _REDUCES:
            return None
    return None


def _pasted(flow: Dataflow, row: int, call: Call) -> tuple[Hashable, _Mix] | None:
    """``x[..., a:b, c:d] = x[order, ..., a:b, c:d]``: what is left of each sample, and the share that it gets."""
    if len(call.inputs) != _TWO:
        return None
    whole, value = (shape_of(flow, use.tensor) for use in call.inputs)
    for _, taken in flow.makers(call.inputs[1].tensor, row, _MAX_STEPS):
        if plain_name(taken.function) not in (*_TAKES, *_PASSES) or not taken.inputs:
            return None
        if len(taken.inputs) == _TWO:
            share = prod(value) / max(prod(whole), 1)
            is_part = 0 < share < 1 and len(whole) == len(value) and whole[0] == value[0]
            return (taken.inputs[1].tensor, _Mix(row, (1 - share,) * 2, (share,) * 2)) if is_part else None
    return None
