"""Targets that are computed from the trained model itself, and that the loss differentiates as well.

Three shapes are known. A bootstrapped target, data plus a discounted output of the model, is compared with another
output of the same model: the comparison is not symmetric, so one side is the target. The weight of a log-probability,
an advantage, is computed by a trained model: the weight of a score function is a constant. That of actions from data is
known by the value in it, which the same loss fits to the returns. And the weight of an error, one over the probability
of a sample, is computed by a model that labels train: inverse propensities are constants (Horvitz and Thompson 1952).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from msgspec import Struct

from gradviz.analysis.cuts.cut_paths import alive_above
from gradviz.analysis.dataflow.backward_calls import BackwardCalls
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import DIFFERENCES, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call, TensorUse

_PASS = frozenset({
    "squeeze", "unsqueeze", "view", "reshape", "flatten", "expand", "getitem", "max", "amax", "min", "amin", "minimum",
    "maximum", "gather", "clamp", "neg", "float", "to", "chunk", "unbind", "transpose", "take_along_dim", "select",
    "narrow", "index_select", "split",
})  # fmt: skip
"""What keeps a value, or chooses one."""
_ELEMENTWISE = frozenset({"add", "sub", "mul", "div"})
_ARRANGES_TARGETS = frozenset({
    "stack", "cat", "flip", "flipud", "roll", "movedim", "permute", "contiguous", "clone", "setitem", "copy", "where",
    "lerp", "addcmul",
})  # fmt: skip
"""What a target of several steps is put together with, one step after another."""
_MIN_DISCOUNT = 0.8


class OwnTarget(Struct, frozen=True):
    """One comparison, or one weighted log-probability."""

    kind: str
    """``bootstrapped``, ``weight``, or ``propensity``."""
    call: int
    """The call that compares, or multiplies."""
    source: int
    """The call of the trained model from which the target comes; if the prediction comes from the same call, the one
    that takes the target's part of its result."""
    backward: int
    parameters: tuple[int, ...]
    model: int
    """The call of the trained model, also where `source` is another one."""


class _Side(Struct, frozen=True):
    """What one operand was computed from, above arithmetic."""

    sources: tuple[int, ...]
    """Calls that are no arithmetic, newest first."""
    has_data: bool
    """Whether a tensor of data was added."""
    is_discounted: bool
    """Whether it was multiplied by a number just below 1, or by numbers from 0 to 1 that are not all 1."""
    passed: tuple[int, ...]
    """The other calls above it, newest first."""
    adds_later: bool = True
    """Whether data were added behind the first such product: flags times a sum of data and an output weigh both."""


def own_targets(histories: ParameterHistories, backward_calls: BackwardCalls) -> Iterator[OwnTarget]:
    """Those of the last backward call of each line."""
    for backward in histories.last_trained_backward_of_each_line:
        rows = backward_calls.reached(backward).rows
        states = _StatesOfSimulations(histories.flow, backward, rows)
        for row in rows:
            call = histories.log.calls[row]
            operands = [use for use in call.inputs if use.has_grad_fn]
            if call.kind != "operation" or len(operands) != _OPERANDS:
                continue
            name = plain_name(call.function)
            if name in DIFFERENCES:
                yield from _bootstrapped(histories, backward, row, operands, states)
            elif name == "mul" or _is_product_of_vectors(histories.flow, name, operands):
                yield from _weight(histories, backward, row, operands)
                yield from _advantage(histories, backward, row, operands)
                yield from _propensity(histories, backward, row, operands)


_OPERANDS = 2


def _is_product_of_vectors(flow: Dataflow, name: str, operands: list[TensorUse]) -> bool:
    """Whether a call multiplies two vectors element by element, and adds up the products."""
    return name in _SUMS_PRODUCTS and all(len(shape_of(flow, use.tensor)) == 1 for use in operands)


_SUMS_PRODUCTS = frozenset({"dot", "vdot", "inner", "matmul", "einsum"})


def _bootstrapped(
    histories: ParameterHistories, backward: int, row: int, operands: list[TensorUse], states: _StatesOfSimulations
) -> Iterator[OwnTarget]:
    sides = [_side(histories.flow, use.tensor, row) for use in operands]
    for side, other in (sides, sides[::-1]):
        is_target = side.has_data and side.is_discounted and side.adds_later
        is_target = is_target and not other.has_data and not other.is_discounted
        if not is_target or not side.sources or not other.sources:
            continue
        shared = _trained_behind(histories, side) & _trained_behind(histories, other)
        if shared and not states.have(row, shared):
            yield OwnTarget("bootstrapped", row, _begin(side, other), backward, tuple(sorted(shared)), side.sources[0])


class _StatesOfSimulations:
    """Differences that a network takes as the state of a simulation, before one backward call."""

    def __init__(self, flow: Dataflow, backward: int, rows: Iterable[int]) -> None:
        self._flow, self._backward, self._rows = flow, backward, rows
        self._is_state = cache(self._is_state_at)

    def have(self, row: int, parameters: frozenset[int]) -> bool:
        """Whether a difference is one, or another one of its line, as in the last round of the simulation."""
        return self._is_state(self._flow.log.calls[row].call_site, parameters)

    def _is_state_at(self, site: int | None, parameters: frozenset[int]) -> bool:
        same_line = (row for row in self._rows if self._flow.log.calls[row].call_site == site)
        return any(_goes_into_network(self._flow, row, self._backward, parameters) for row in same_line)


def _goes_into_network(flow: Dataflow, difference: int, backward: int, parameters: frozenset[int]) -> bool:
    """Whether the same network takes what comes of a difference, as the state of a simulation: it is no error."""
    below = (
        row
        for use in flow.log.calls[difference].outputs
        for row in flow.descendants(use.tensor, difference, backward, live=True)
    )
    return any(use.tensor in parameters for row in below for use in flow.log.calls[row].inputs)


def _begin(target: _Side, prediction: _Side) -> int:
    """Where the target begins: ``values[1:]``, if the prediction is ``values[:-1]``."""
    if target.sources[0] not in prediction.sources:
        return target.sources[0]
    of_prediction = set(prediction.passed)
    own = [row for row in target.passed if row not in of_prediction]
    return own[-1] if own else target.sources[0]


def _weight(histories: ParameterHistories, backward: int, row: int, operands: list[TensorUse]) -> Iterator[OwnTarget]:
    flow = histories.flow
    for score, weight in (operands, operands[::-1]):
        drawn_from = _drawn_from(flow, score.tensor, row)
        if not drawn_from or _drawn_from(flow, weight.tensor, row):
            continue
        side = _side(flow, weight.tensor, row)
        parameters = _trained_behind(histories, side)
        if side.sources and parameters and drawn_from.isdisjoint(_outputs(flow, side.sources)):
            yield OwnTarget("weight", row, side.sources[0], backward, tuple(sorted(parameters)), side.sources[0])


def _advantage(
    histories: ParameterHistories, backward: int, row: int, operands: list[TensorUse]
) -> Iterator[OwnTarget]:
    """Weights ``exp(returns - value)``, where the same loss fits the value to the returns: of actions from data."""
    flow = histories.flow
    for weighted, weight in (operands, operands[::-1]):
        above = list(_calls_above(flow, weight.tensor, row, _PASS | _ELEMENTWISE | {"exp"}))
        if not any(plain_name(call.function) == "exp" for _, call, _ in above):
            continue
        for made, call, _ in above:
            if plain_name(call.function) != "sub" or len(call.inputs) != _OPERANDS or len(call.live_inputs) != 1:
                continue
            value = call.live_inputs[0].tensor
            behind = frozenset(histories.live_leaves((value,), made)[0]) & histories.trained
            others = alive_above(flow, ((weighted.tensor, row),))
            if _is_fitted(flow, made, backward) and behind and not _is_of(flow, weighted.tensor, row, value):
                yield OwnTarget("weight", row, made, backward, tuple(sorted(behind - others) or sorted(behind)), made)
                break


def _propensity(
    histories: ParameterHistories, backward: int, row: int, operands: list[TensorUse]
) -> Iterator[OwnTarget]:
    """Weights ``1 / p`` of errors, where labels train the probability ``p`` in the same loss."""
    flow = histories.flow
    for weighted, weight in (operands, operands[::-1]):
        for made, call, _ in _calls_above(flow, weight.tensor, row, _PASS | _ELEMENTWISE):
            is_inverse = plain_name(call.function) in ("div", "reciprocal") and call.inputs[-1].has_grad_fn
            divisor = call.inputs[-1].tensor if is_inverse else None
            if divisor is None or not _is_of_labels(flow, divisor, made, backward):
                continue
            behind = frozenset(histories.live_leaves((divisor,), made)[0]) & histories.trained
            if behind and behind.isdisjoint(alive_above(flow, ((weighted.tensor, row),))):
                yield OwnTarget("propensity", row, made, backward, tuple(sorted(behind)), made)
                return


def _is_of_labels(flow: Dataflow, probability: int, row: int, backward: int) -> bool:
    """Whether a cross-entropy of the same step trains a probability, one minus it, or the scores it was made of."""
    above = _calls_above(flow, probability, row, _PASS | {"sub", "rsub", "sigmoid", "softmax"})
    tensors = {probability, *(use.tensor for _, call, is_passed in above if is_passed for use in call.live_inputs)}
    users = {user for tensor in tensors for user in flow.users(tensor, flow.step_before(backward)) if user < backward}
    calls = (flow.log.calls[user] for user in users if plain_name(flow.log.calls[user].function) in _CROSS_ENTROPIES)
    return any(call.inputs[0].tensor in tensors for call in calls)


_CROSS_ENTROPIES = frozenset({"binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "nll_loss"})


def _is_fitted(flow: Dataflow, difference: int, backward: int) -> bool:
    """Whether another call of the step compares the two operands of a difference, as a loss does, or squares it."""
    both = {use.tensor for use in flow.log.calls[difference].inputs}
    rows = {row for tensor in both for row in flow.users(tensor, flow.step_before(backward)) if row < backward}
    calls = (flow.log.calls[row] for row in rows - {difference})
    squared = (row for use in flow.log.calls[difference].outputs for row in flow.users(use.tensor, difference))
    return any(
        plain_name(call.function) in DIFFERENCES and {use.tensor for use in call.inputs} == both for call in calls
    ) or any(plain_name(flow.log.calls[row].function) in _SQUARES for row in squared if row < backward)


_SQUARES = frozenset({"square", "pow", "abs"})


def _is_of(flow: Dataflow, tensor: int, row: int, value: int) -> bool:
    return any(use.tensor == value for each in flow.ancestors(tensor, row) for use in flow.log.calls[each].inputs)


def _side(flow: Dataflow, tensor: int, before: int) -> _Side:
    sources, passed, adds, discounts = set[int](), set[int](), list[int](), list[int]()
    for row, call, is_passed in _calls_above(flow, tensor, before, _PASS | _ELEMENTWISE | _ARRANGES_TARGETS):
        if not is_passed:
            sources.add(row)
            continue
        passed.add(row)
        name = plain_name(call.function)
        constants = [use for use in call.inputs if not use.requires_grad]
        summands = constants if name != "addcmul" else [use for use in constants if use.place in ("0", "input")]
        if name in ("add", "sub", "addcmul") and any(_is_data(flow, use, row) for use in summands):
            adds.append(row)
        is_discount = name in ("mul", "addcmul") and _discounts(flow, row, call, constants)
        if is_discount or (name in ("add", "sub") and _is_discount(call.scalars.get("alpha"))):
            discounts.append(row)
    return _Side(
        tuple(sorted(sources, reverse=True)),
        bool(adds),
        bool(discounts),
        tuple(sorted(passed, reverse=True)),
        adds_later=min(discounts, default=0) <= max(adds, default=0),
    )


def _calls_above(flow: Dataflow, tensor: int, before: int, passed: frozenset[str]) -> Iterator[tuple[int, Call, bool]]:
    """The calls from which a tensor comes, through operations that are `passed`; for each, whether it is one."""
    waiting, seen = [(tensor, before)], set[int]()
    while waiting:
        row = flow.newest_producer(*waiting.pop())
        if row is None or row in seen:
            continue
        seen.add(row)
        call = flow.log.calls[row]
        is_passed = call.kind == "operation" and plain_name(call.function) in passed
        if is_passed:
            waiting += [(use.tensor, row) for use in call.live_inputs]
        yield row, call, is_passed


def _is_data(flow: Dataflow, use: TensorUse, row: int) -> bool:
    """Whether it is a tensor of data, and no first state of zeros."""
    values = flow.values_of(use, row)
    if values is not None and values.zeros == values.count:
        return False
    return flow.log.tensors[use.tensor].role == "tensor" and bool(shape_of(flow, use.tensor))


def _discounts(flow: Dataflow, row: int, call: Call, constants: list[TensorUse]) -> bool:
    if any(map(_is_discount, call.scalars.values())):
        return True
    known = [flow.values_of(use, row) for use in constants]
    return any(
        values is not None and values.minimum is not None and values.maximum is not None
        and 0 <= values.minimum < 1 and _MIN_DISCOUNT <= values.maximum <= 1
        for values in known
    )  # fmt: skip


def _is_discount(number: object) -> bool:
    return isinstance(number, float) and _MIN_DISCOUNT <= number < 1


def _trained_behind(histories: ParameterHistories, side: _Side) -> frozenset[int]:
    found: set[int] = set()
    for row in side.sources:
        call = histories.log.calls[row]
        leaves, _ = histories.live_leaves((use.tensor for use in call.outputs if use.requires_grad), row + 1)
        found |= leaves
    return frozenset(found) & histories.trained


def _outputs(flow: Dataflow, rows: tuple[int, ...]) -> set[int]:
    return {use.tensor for row in rows for use in flow.log.calls[row].outputs}


# -- log-probabilities of what was drawn -----------------------------------------------------------------------------


def _drawn_from(flow: Dataflow, tensor: int, before: int) -> frozenset[int]:
    """If a tensor is the log-probability of drawn values: the tensors from which they were drawn, or, with gradients
    off, the parameters."""
    for row, call, _ in _calls_above(flow, tensor, before, _PASS | _ELEMENTWISE | _OF_SCORES):
        if plain_name(call.function) not in _CHOOSE:
            continue
        constants = [use for use in call.inputs if not use.requires_grad and not _resamples(flow, use.tensor, call)]
        draws = [above for use in constants if (above := _draw_above(flow, use.tensor, row))]
        # Logits may be computed of the probabilities, or probabilities of logits.
        behind = alive_above(flow, ((use.tensor, row) for use in call.live_inputs)) if draws else frozenset()
        found = next((above for above in draws if not above.isdisjoint(behind)), None)
        if found is not None:
            return found
    return frozenset()


_CHOOSE = frozenset({"gather", "take_along_dim", "getitem", "sub", "cross_entropy", "nll_loss"})
"""What takes the log-probability of the action that was drawn, or its distance from the mean."""
_OF_SCORES = frozenset({"pow", "square", "sum", "log", "exp", "mean", "stack", "cat", "take_along_dim"})


def _resamples(flow: Dataflow, index: int, call: Call) -> bool:
    """Whether a call takes as many rows as there are, as a particle filter that draws its particles anew."""
    if plain_name(call.function) not in ("getitem", "index_select") or not call.outputs:
        return False
    chosen, taken = shape_of(flow, call.inputs[0].tensor), shape_of(flow, index)
    return len(taken) == 1 and taken[0] > 1 and taken == chosen[:1] and shape_of(flow, call.outputs[0].tensor) == chosen


def _draw_above(flow: Dataflow, tensor: int, before: int) -> frozenset[int]:
    """If a constant only arranges drawn values: what the distribution was computed from."""
    row = flow.newest_producer(tensor, before)
    while row is not None:
        call = flow.log.calls[row]
        if plain_name(call.function) in _DRAWS:
            if call.live_inputs:
                return alive_above(flow, ((use.tensor, row) for use in call.live_inputs))
            return _parameters_above(flow, call, row)
        if plain_name(call.function) not in _ARRANGE or not call.inputs:
            return frozenset()
        row = flow.newest_producer(call.inputs[0].tensor, row)
    return frozenset()


def _parameters_above(flow: Dataflow, draw: Call, row: int) -> frozenset[int]:
    """The parameters from which a distribution was computed with gradients off, as an agent does that acts."""
    since = flow.step_before(row)
    rows = (each for use in draw.inputs for each in flow.ancestors(use.tensor, row, since))
    uses = (use for each in rows for use in flow.log.calls[each].inputs)
    return frozenset(use.tensor for use in uses if flow.log.tensors[use.tensor].role == "parameter")


_DRAWS = frozenset({"multinomial", "bernoulli", "normal"})
_ARRANGE = _PASS | {
    "T", "t", "long", "type", "permute", "contiguous", "broadcast_tensors", "detach", "clone", "stack", "cat",
}  # fmt: skip
