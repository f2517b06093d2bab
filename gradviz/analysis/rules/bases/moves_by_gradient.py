"""Changes of a parameter that the program computes from its gradient."""

from __future__ import annotations

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.rules.bases.losses.signed_terms import number_of


def goes_up_gradient(case: Case, tensor: int, row: int) -> bool:
    """Whether a call adds a positive multiple of a tensor's own gradient, or of sums of it, to the tensor."""
    flow = case.dataflow
    call = flow.log.calls[row]
    own = {tensor, *flow.sharing_memory(tensor)}
    added = [use for use in call.inputs if use.tensor not in own]
    if plain_name(call.function) != "add" or len(added) != 1 or number_of(call, "alpha", missing=1.0) < 0:
        return False
    (use,) = added
    if flow.log.tensors[use.tensor].gradient_of == tensor:
        return True
    above = flow.ancestors(use.tensor, row, flow.step_before(row))
    makers = [flow.log.calls[each] for each in above]
    is_turned = any(
        plain_name(each.function) in ("neg", "sub") or number_of(each, "1", "alpha", missing=1.0) < 0 for each in makers
    )
    from_gradient = any(flow.log.tensors[used.tensor].gradient_of == tensor for each in makers for used in each.inputs)
    return from_gradient and not is_turned
