"""Changes of a parameter that the program computes from its gradient."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.formulas.moments import moment_of
from gradviz.analysis.rules.bases.losses.signed_terms import number_of
from gradviz.graph.call_log import Call, TensorUse


def goes_up_gradient(case: Case, tensor: int, row: int) -> bool:
    """Whether a call adds a positive multiple of a tensor's own gradient, or of sums of it, to the tensor."""
    flow = case.dataflow
    own = {tensor, *flow.sharing_memory(tensor)}
    of_it = (each for each in flow.lists.singles(row) if any(use.tensor in own for use in each.changed))
    call = next(of_it, flow.log.calls[row])
    if plain_name(call.function) in ("copy", "set") and call.inputs:
        # The sum is new memory, which is written there.
        made = flow.newest_producer(call.inputs[-1].tensor, row)
        if made is None:
            return False
        call = flow.lists.single(made, call.inputs[-1].tensor)
        own |= {use.tensor for use in call.inputs if _is_taken_from(flow, use.tensor, made, tensor)}
    name, added = plain_name(call.function), [use for use in call.inputs if use.tensor not in own]
    if name in _PRODUCTS:
        return _adds_product(flow, tensor, row, call)
    if name not in ("add", "sub") or len(added) != 1:
        return False
    if name == "sub" or number_of(call, "alpha", missing=1.0) < 0:
        return _takes_off_a_fall(case, tensor, call, added[0], row)
    return _is_of_gradient(flow, tensor, added[0], row)


def _takes_off_a_fall(case: Case, tensor: int, call: Call, taken: TensorUse, row: int) -> bool:
    """Whether a call subtracts a momentum that had the gradient subtracted: ``v = 0.9 * v - g``, then ``p -= v``."""
    if any(use.tensor == taken.tensor for use in call.inputs[:1]):
        return False  # The parameter is taken off something else.
    moment = moment_of(case.dataflow, case.histories.leaves_of_gradients, taken.tensor, row)
    is_own = moment is not None and moment.leaf == tensor and not moment.is_square
    return is_own and moment is not None and moment.taken is not None and moment.taken < 0


def _is_taken_from(flow: Dataflow, part: int, row: int, tensor: int) -> bool:
    """Whether it is ``tensor.data`` or ``tensor.detach()``, also after other memory was assigned to the tensor."""
    made = flow.newest_producer(part, row)
    call = None if made is None else flow.log.calls[made]
    return call is not None and plain_name(call.function) in ("data", "detach") and call.inputs[0].tensor == tensor


def _adds_product(flow: Dataflow, tensor: int, row: int, call: Call) -> bool:
    """Whether ``p.addcdiv_(m, d)`` adds what was computed from the gradient, times or over what is never negative."""
    factors = [use for use in call.inputs if use.place in _FACTORS]
    values = [flow.values_of(use, row) for use in factors[1:]]
    is_positive = len(values) == 1 and values[0] is not None and (values[0].minimum or 0.0) >= 0
    is_added = number_of(call, "value", missing=1.0) > 0
    return is_positive and is_added and _is_of_gradient(flow, tensor, factors[0], row)


def _is_of_gradient(flow: Dataflow, tensor: int, use: TensorUse, row: int) -> bool:
    """Whether something is a positive multiple of the gradient of a tensor, or of sums of it."""
    if flow.log.tensors[use.tensor].gradient_of == tensor:
        return True
    above = flow.ancestors(use.tensor, row, flow.step_before(row))
    makers = [flow.log.calls[each] for each in above]
    is_turned = any(
        plain_name(each.function) in _TURNS or number_of(each, "1", "alpha", missing=1.0) < 0 for each in makers
    )
    from_gradient = any(flow.log.tensors[used.tensor].gradient_of == tensor for each in makers for used in each.inputs)
    return from_gradient and not is_turned


_TURNS = frozenset({"neg", "sub", "_foreach_neg", "_foreach_sub"})
_PRODUCTS = frozenset({"addcmul", "addcdiv"})
_FACTORS = ("1", "2", "tensor1", "tensor2")


class NewValues(Struct, frozen=True):
    """A call that makes the next values of a tensor, as new memory, from its values and its gradient."""

    row: int
    backward: int
    """The call that computed the gradient."""
    goes_up: bool


_MIN_TENSORS = 2
_MOST_VIEWS = 200


def new_values(case: Case) -> Iterator[NewValues]:
    """Steps of programs that keep parameters as plain tensors and make new ones at each step: of each line that asks
    for the gradients of several tensors, all calls that make what the next call of the line is asked for.

    Inside of ``torch.func.grad`` a tensor is another one than outside, in the same memory: the memory is compared.
    """
    flow = case.dataflow
    lines: dict[int | None, list[int]] = defaultdict(list)
    for row in flow.rows_of_kind("backward"):
        call = flow.log.calls[row]
        if len(call.asked) >= _MIN_TENSORS and len(call.outputs) == len(call.asked):
            lines[call.call_site].append(row)
    for rows in lines.values():
        # Inputs may be moved up a loss on purpose, as an attack does; the weights of a model then have gradients, too.
        for row, following in pairwise(rows if _are_weights(flow, rows[-1]) else ()):
            call = flow.log.calls[row]
            wanted = {flow.memory_of(use.tensor) for use in flow.log.calls[following].asked}
            for asked, gradient in zip(call.asked, call.outputs, strict=True):
                made = _made_from(flow, asked, (row, following), wanted)
                if made is not None:
                    yield NewValues(made[0], row, _adds(flow, *made, row, flow.memory_of(gradient.tensor)))


def _are_weights(flow: Dataflow, backward: int) -> bool:
    """Whether what a call asks for is all that the loss could train, and a layer has one of it for its weight."""
    call = flow.log.calls[backward]
    asked = {flow.memory_of(use.tensor) for use in call.asked}
    above = {row for root in call.roots for row in flow.ancestors(root.tensor, backward, flow.step_before(backward))}
    uses = [(flow.log.calls[row], use) for row in above for use in flow.log.calls[row].inputs]
    others = any(use.is_live_leaf and flow.memory_of(use.tensor) not in asked for _, use in uses)
    return not others and any(
        plain_name(user.function) in _LAYERS
        and use.place in ("1", "2", "weight")
        and flow.memory_of(use.tensor) in asked
        for user, use in uses
    )


_LAYERS = frozenset({
    "linear", "matmul", "mm", "addmm", "bmm", "mv", "einsum", "conv1d", "conv2d", "conv3d", "embedding", "layer_norm",
    "batch_norm", "mul",
})  # fmt: skip


def _made_from(flow: Dataflow, asked: TensorUse, between: tuple[int, int], wanted: set[int]) -> tuple[int, Call] | None:
    """The call that takes a tensor after its gradient was computed, and returns what is asked for next."""
    shared = flow.sharing_memory(asked.tensor)
    for tensor in shared if len(shared) <= _MOST_VIEWS else ():
        for row in flow.users(tensor, between[0]):
            if row >= between[1]:
                break
            for call in flow.lists.singles(row) if flow.log.calls[row].kind == "operation" else ():
                is_of_it = any(use.tensor in shared for use in call.inputs)
                made = {flow.memory_of(use.tensor) for use in call.outputs} - {flow.memory_of(asked.tensor)}
                if is_of_it and made & wanted:
                    return row, call
    return None


def _adds(flow: Dataflow, row: int, call: Call, backward: int, gradient: int) -> bool:
    """Whether a call adds a positive multiple of a gradient to what it takes beside it."""
    name = plain_name(call.function)
    if name in _PRODUCTS:
        factors = [use for use in call.inputs if use.place in _FACTORS]
        own = [use for use in factors if flow.memory_of(use.tensor) == gradient]
        others = [flow.values_of(use, row) for use in factors if flow.memory_of(use.tensor) != gradient]
        known = [each.minimum for each in others if each is not None and each.minimum is not None]
        is_positive = len(own) == 1 and len(known) == 1 and known[0] >= 0
        return is_positive and number_of(call, "value", missing=1.0) > 0
    if name != "add" or number_of(call, "alpha", missing=1.0) < 0:
        return False
    if any(flow.memory_of(use.tensor) == gradient for use in call.inputs):
        return True
    makers = [flow.log.calls[each] for use in call.inputs for each in flow.ancestors(use.tensor, row, since=backward)]
    is_turned = any(
        plain_name(each.function) in ("neg", "sub") or number_of(each, "1", "alpha", "value", missing=1.0) < 0
        for each in makers
    )
    return not is_turned and any(flow.memory_of(use.tensor) == gradient for each in makers for use in each.inputs)
