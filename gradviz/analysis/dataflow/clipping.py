"""Which changes of gradients only clip them."""

from __future__ import annotations

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow


def is_clipping(flow: Dataflow, row: int) -> bool:
    """Whether a call bounds gradients, or multiplies them by a factor that was computed from gradients: their norm."""
    call = flow.log.calls[row]
    if plain_name(call.function).lstrip("_").removeprefix("foreach_").startswith(("clamp", "clip")):
        return True
    changed = {use.tensor for use in call.changed}
    factors = [use.tensor for use in call.inputs if use.tensor not in changed]
    return bool(factors) and all(_is_made_of_gradients(flow, factor, row) for factor in factors)


def _is_made_of_gradients(flow: Dataflow, tensor: int, before: int) -> bool:
    """Depth first: gradients are few calls above their norm, however many there are."""
    waiting, seen = [(tensor, before)], set[int]()
    while waiting and len(seen) < _MAX_VISITS:
        row = flow.newest_producer(*waiting.pop())
        if row is None or row in seen:
            continue
        seen.add(row)
        for use in flow.log.calls[row].inputs:
            if flow.log.tensors[use.tensor].gradient_of is not None:
                return True
            waiting.append((use.tensor, row))
    return False


_MAX_VISITS = 200
