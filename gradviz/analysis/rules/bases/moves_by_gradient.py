"""Changes of a parameter that the program computes from its gradient."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.signed_terms import number_of
from gradviz.graph.call_log import Call, TensorUse


def goes_up_gradient(case: Case, tensor: int, row: int) -> bool:
    """Whether a call adds a positive multiple of a tensor's own gradient, or of sums of it, to the tensor."""
    flow = case.dataflow
    use = _added_to(flow, tensor, row)
    if use is None:
        return False
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


def _added_to(flow: Dataflow, tensor: int, row: int) -> TensorUse | None:
    """What a call adds to a tensor, in place or as the sum that it writes there."""
    call = flow.log.calls[row]
    own = {tensor, *flow.sharing_memory(tensor)}
    if plain_name(call.function) in ("copy", "set") and call.inputs:
        made = flow.newest_producer(call.inputs[-1].tensor, row)
        if made is None:
            return None
        call = flow.log.calls[made]
        own |= {use.tensor for use in call.inputs if _is_taken_from(flow, use.tensor, made, tensor)}
    if number_of(call, "alpha", missing=1.0) < 0:
        return None
    for name, first, second in pairs_of(call):
        if name == "add" and (first.tensor in own) != (second.tensor in own):
            return second if first.tensor in own else first
    return None


def _is_taken_from(flow: Dataflow, part: int, row: int, tensor: int) -> bool:
    """Whether it is ``tensor.data`` or ``tensor.detach()``, also after other memory was assigned to the tensor."""
    made = flow.newest_producer(part, row)
    call = None if made is None else flow.log.calls[made]
    return call is not None and plain_name(call.function) in ("data", "detach") and call.inputs[0].tensor == tensor


def pairs_of(call: Call) -> Iterator[tuple[str, TensorUse, TensorUse]]:
    """The operation of a call with two operands, and these; of ``torch._foreach_add_`` and others, of each tensor."""
    name = plain_name(call.function)
    if not name.startswith(_FOREACH):
        if len(call.inputs) > 1:
            yield name, call.inputs[0], call.inputs[1]
        return
    given = {use.place: use for use in call.inputs}
    for place, use in given.items():
        other = given.get(f"1{place[1:]}") if place.startswith("0[") else None
        if other is not None:
            yield name.removeprefix(_FOREACH), use, other


_FOREACH = "_foreach_"
