"""Tables that compare all rows of a tensor with all rows of the same one: products, and distances."""

from __future__ import annotations

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.formulas.products import is_square
from gradviz.graph.call_log import Call, TensorUse

_VIEWS = frozenset({
    "t", "T", "mT", "H", "mH", "adjoint", "transpose", "swapaxes", "swapdims", "movedim", "permute", "contiguous",
    "unsqueeze", "getitem", "detach", "clone", "expand", "view", "reshape",
})  # fmt: skip
_PRODUCTS = frozenset(
    {"matmul", "mm", "einsum", "cosine_similarity", "inner", "linear", "tensordot", "vecdot", "cdist"}
)
_MAX_VIEWS = 3
_TWO = 2


def compares_with_itself(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether a call multiplies all rows of a tensor with all rows of the same one."""
    name = plain_name(call.function)
    if len(call.outputs) != 1:
        return False
    shape = shape_of(flow, call.outputs[0].tensor)
    factors = call.inputs if name in _PRODUCTS else _summed_factors(flow, row, call) if name in _SUMS else ()
    sources = {_source(flow, use.tensor, row) for use in factors}
    if len(factors) != _TWO:
        return False
    source = sources.pop()
    given = shape_of(flow, source)
    return (
        not sources
        and shape == (given[0], given[0])
        and len(given) == _TWO
        and shape[0] > _TWO
        and (flow.log.tensors[source].role != "parameter")
    )


def _summed_factors(flow: Dataflow, row: int, call: Call) -> tuple[TensorUse, ...]:
    """The factors of a product by hand, ``(z[:, None] * z[None]).sum(-1)``, or the two sides of a difference:
    ``(z[:, None] - z[None]).norm(dim=-1)``."""
    axis = call.scalars.get("dim", call.scalars.get("1"))
    is_of_last = axis in (_TWO, -1) or (plain_name(call.function) != "sum" and call.scalars.get("dim[0]") in (_TWO, -1))
    if not is_of_last or not call.inputs or len(shape_of(flow, call.inputs[0].tensor)) != 3:
        return ()
    for _, maker in flow.makers(call.inputs[0].tensor, row, _TWO):
        name = plain_name(maker.function)
        if name == "sub" or (name == "mul" and len({use.tensor for use in maker.inputs}) == _TWO):
            return maker.inputs
        if name not in _OF_DIFFERENCES and not is_square(maker):
            return ()
    return ()


_SUMS = frozenset({"sum", "norm", "vector_norm"})
_OF_DIFFERENCES = frozenset({"abs", "square", "pow"})


def is_of_distances(flow: Dataflow, row: int) -> bool:
    """Whether a call returns distances, where a loss may add up the exponentials of all: an estimate of a density."""
    call = flow.log.calls[row]
    name = plain_name(call.function)
    made = next((plain_name(maker.function) for _, maker in flow.makers(call.inputs[0].tensor, row, 1)), "")
    return name == "cdist" or (name in _SUMS and made != "mul") or (name in _SUMS and name != "sum")


def _source(flow: Dataflow, tensor: int, row: int) -> int:
    for _ in range(_MAX_VIEWS):
        made = flow.producers(tensor, row)
        if not made or plain_name(flow.log.calls[made[-1]].function) not in _VIEWS:
            break
        call = flow.log.calls[made[-1]]
        if len(call.inputs) != 1 or call.scalars.keys() & {"1.start", "1.stop", "1[0].start", "1[0].stop"}:
            break
        row, tensor = made[-1], call.inputs[0].tensor
    return tensor
