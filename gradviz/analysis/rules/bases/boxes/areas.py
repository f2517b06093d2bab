"""Ratios that say how much two areas overlap: Dice, Jaccard (IoU), Tversky and F1, of a result and a target."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.formulas.products import is_squared
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, tensor_before
from gradviz.graph.call_log import Call, TensorUse


class Overlap(Struct, frozen=True):
    """What a ratio compares."""

    product: int
    """The call that multiplies result and target."""
    area: TensorUse
    target: TensorUse


_BOTH = 2
_MAX_TERMS = 40
_SUMS = frozenset({"add", "sub"})
_PRODUCTS = frozenset(
    {"mul", "dot", "einsum", "vdot", "inner", "vecdot", "linalg_vecdot", "tensordot", "matmul", "bmm"}
)
"""Those that sum over what they multiply are given tensors of one shape."""
_KEEPS = frozenset({
    "sum", "mean", "mul", "div", "clamp", "clamp_min", "flatten", "view", "reshape", "squeeze", "getitem", "float",
    "einsum", "nansum", "nanmean",
})  # fmt: skip
"""They are passed where they take a single tensor."""


def overlap_with_target(flow: Dataflow, row: int) -> Overlap | None:
    """The overlap that a division computes, if its denominator has all of the result and of the target."""
    call = flow.log.calls[row]
    if plain_name(call.function) != "div" or len(call.live_inputs) != _BOTH or len(call.inputs) != _BOTH:
        return None
    above, below = call.inputs
    whole = None
    for tensor, before in summed(flow, above.tensor, row):
        found = product_with_target(flow, tensor, before)
        if found is not None:
            whole = _Whole(flow, below.tensor, row) if whole is None else whole
            if whole.contains(found):
                return found
    return None


def root(flow: Dataflow, use: TensorUse, row: int) -> int:
    """A tensor before only its shape was changed."""
    return tensor_before(flow, use.tensor, row, SHAPE_ONLY)


class _Whole:
    """What the denominator of a ratio adds up."""

    def __init__(self, flow: Dataflow, tensor: int, before: int) -> None:
        self._flow = flow
        self._added: set[int] = set()
        self._products: list[set[int]] = []
        self._rows: set[int] = set()
        for each, row in summed(flow, tensor, before):
            self._added.add(tensor_before(flow, each, row, SHAPE_ONLY))
            made = flow.newest_producer(each, row)
            if made is not None:
                self._note(made, flow.log.calls[made])

    def _note(self, row: int, call: Call) -> None:
        roots = [root(self._flow, use, row) for use in call.inputs]
        if is_squared(call) or (plain_name(call.function) in ("max", "maximum") and len(roots) == _BOTH):
            self._added.update(roots)
        elif plain_name(call.function) in _PRODUCTS and len(roots) == _BOTH:
            self._rows.add(row)
            self._products.append(set(roots))

    def contains(self, overlap: Overlap) -> bool:
        """Whether it has both areas; or the overlap, and what only one of the two has."""
        area, target = (root(self._flow, use, overlap.product) for use in (overlap.area, overlap.target))
        if area in self._added and target in self._added:
            return True
        of_one = [roots for roots in self._products if len(roots & {area, target}) == 1]
        return overlap.product in self._rows and set().union(*of_one) >= {area, target}


def product_with_target(flow: Dataflow, tensor: int, before: int) -> Overlap | None:
    """The product of a result and a target of zeros and ones that made a tensor."""
    row = flow.newest_producer(tensor, before)
    call = None if row is None else flow.log.calls[row]
    if row is None or call is None or len(call.inputs) != _BOTH or len(call.live_inputs) != 1:
        return None
    if plain_name(call.function) not in _PRODUCTS | {"min", "minimum", "fmin"}:
        return None
    live, dead = sorted(call.inputs, key=lambda use: not use.requires_grad)
    values = flow.values_of(dead, row)
    is_target = values is not None and values.minimum == 0 and values.maximum == 1
    is_one_shape = shape_of(flow, live.tensor) == shape_of(flow, dead.tensor)
    return Overlap(row, live, dead) if is_target and is_one_shape else None


def summed(flow: Dataflow, tensor: int, before: int) -> Iterator[tuple[int, int]]:
    """Every tensor of which a number is a sum, perhaps times a weight, at any depth, with the call that takes it."""
    waiting, seen = [(tensor, before)], set[int]()
    while waiting and len(seen) < _MAX_TERMS:
        each, row = waiting.pop()
        yield each, row
        made = flow.newest_producer(each, row)
        if made is None or made in seen:
            continue
        seen.add(made)
        call = flow.log.calls[made]
        name = plain_name(call.function)
        if name in _SUMS or (name in _KEEPS and len(call.inputs) == 1):
            waiting += [(use.tensor, made) for use in call.inputs]
        elif name == "mul" and (weighed := _weighed(flow, call)) is not None:
            waiting.append((weighed, made))


def _weighed(flow: Dataflow, call: Call) -> int | None:
    """What a call multiplies with a weight of each class or sample."""
    sizes = {use.tensor: shape_of(flow, use.tensor) for use in call.inputs}
    live = call.live_inputs
    return live[0].tensor if len(live) == 1 and len(set(sizes.values())) == _BOTH else None
