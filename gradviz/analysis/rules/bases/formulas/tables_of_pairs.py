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
_PRODUCTS = frozenset({
    "matmul", "mm", "mv", "einsum", "cosine_similarity", "inner", "linear", "tensordot", "vecdot", "cdist",
    "pairwise_distance",
})  # fmt: skip
_MAX_VIEWS = 3
_TWO = 2


def compares_with_itself(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether a call multiplies all rows of a tensor with all rows of the same one."""
    if len(call.outputs) != 1:
        return False
    shape = shape_of(flow, call.outputs[0].tensor)
    factors = _factors(flow, row, call)
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


def candidates_with_itself(flow: Dataflow, row: int, call: Call) -> int:
    """How many rows of a tensor a call compares with rows that are among them: with all of them, or with a part, as
    ``z[i]``; 0 if it does something else."""
    factors = _factors(flow, row, call) if len(call.outputs) == 1 else ()
    if len(factors) != _TWO:
        return 0
    shape, (one, other) = shape_of(flow, call.outputs[0].tensor), factors
    for rows, whole in ((one, other), (other, one)):
        source = _source(flow, whole.tensor, row)
        count = shape_of(flow, source)[:1]
        is_data = flow.log.tensors[source].role != "parameter" and len(shape_of(flow, source)) == _TWO
        if not is_data or not count or count[0] <= _TWO or count[0] not in shape:
            continue
        if _is_part(flow, rows.tensor, source, row) or _are_alike(flow, _source(flow, rows.tensor, row), source, row):
            return count[0]
    return 0


_DRAWS = frozenset({
    "rand", "rand_like", "randn", "randn_like", "randint", "randperm", "dropout", "alpha_dropout", "feature_dropout",
    "bernoulli", "normal", "uniform", "multinomial", "empty", "empty_like", "dropout1d", "dropout2d", "dropout3d",
    "exponential", "poisson", "random", "rrelu", "gumbel_softmax",
})  # fmt: skip
_MAX_ALIKE = 200


def _place(call: Call, tensor: int) -> int:
    """Which result of a call a tensor is; -1 if it is none."""
    return next((place for place, use in enumerate(call.outputs) if use.tensor == tensor), -1)


def _are_alike(flow: Dataflow, one: int, other: int, row: int) -> bool:
    """Whether the same calls computed two tensors of the same ones, between two steps, and drew nothing."""
    waiting = [(one, row, other, row)]
    for first, before, second, until in waiting:
        if first == second:
            continue
        made = flow.newest_producer(first, before), flow.newest_producer(second, until)
        if made[0] is None or made[1] is None or flow.step_before(made[0]) != flow.step_before(made[1]):
            return False
        if flow.changes(first, made[0], before) or flow.changes(second, made[1], until):
            return False
        calls = [flow.log.calls[each] for each in made if each is not None]
        # Two results of one call, as of split(), are two parts.
        places = [_place(call, each) for call, each in zip(calls, (first, second), strict=True)]
        told = [(call.function, call.scalars, len(call.inputs)) for call in calls]
        if told[0] != told[1] or places[0] != places[1] or places[0] < 0 or len(waiting) > _MAX_ALIKE:
            return False
        if plain_name(calls[0].function) in _DRAWS or calls[0].scalars.get("dropout_p") or not calls[0].inputs:
            return False
        pairs = zip(calls[0].inputs, calls[1].inputs, strict=True)
        waiting += [(use.tensor, made[0], also.tensor, made[1]) for use, also in pairs]
    return True


_PARTS = _VIEWS | {"split", "chunk", "select", "index_select", "narrow", "unbind", "iter"}


def _is_part(flow: Dataflow, tensor: int, whole: int, row: int) -> bool:
    """Whether a tensor is another one, or rows that were taken out of it."""
    for made, call in flow.makers(tensor, row, _MAX_VIEWS):
        if tensor == whole or plain_name(call.function) not in _PARTS:
            break
        tensor, row = call.inputs[0].tensor, made
    return tensor == whole


def _factors(flow: Dataflow, row: int, call: Call) -> tuple[TensorUse, ...]:
    """The two tensors whose rows a call compares, if it is one that compares rows."""
    name = plain_name(call.function)
    if name in _PRODUCTS:
        return call.inputs
    return _summed_factors(flow, row, call) if name in _SUMS else ()


def _summed_factors(flow: Dataflow, row: int, call: Call) -> tuple[TensorUse, ...]:
    """The factors of a product by hand, ``(z[:, None] * z[None]).sum(-1)``, or the two sides of a difference:
    ``(z[:, None] - z[None]).norm(dim=-1)``."""
    axis, last = call.scalars.get("dim", call.scalars.get("1")), len(_shape_of_first(flow, call)) - 1
    is_of_last = axis in (last, -1) or (plain_name(call.function) != "sum" and call.scalars.get("dim[0]") in (last, -1))
    if not is_of_last or last < 1:
        return ()
    for _, maker in flow.makers(call.inputs[0].tensor, row, _TWO):
        name = plain_name(maker.function)
        if name == "sub" or (name == "mul" and len({use.tensor for use in maker.inputs}) == _TWO):
            return maker.inputs
        if name not in _OF_DIFFERENCES and not is_square(maker):
            return ()
    return ()


def _shape_of_first(flow: Dataflow, call: Call) -> tuple[int, ...]:
    return shape_of(flow, call.inputs[0].tensor) if call.inputs else ()


_SUMS = frozenset({"sum", "norm", "vector_norm"})
_OF_DIFFERENCES = frozenset({"abs", "square", "pow"})


def is_of_distances(flow: Dataflow, row: int) -> bool:
    """Whether a call returns distances, where a loss may add up the exponentials of all: an estimate of a density."""
    call = flow.log.calls[row]
    name = plain_name(call.function)
    made = next((plain_name(maker.function) for _, maker in flow.makers(call.inputs[0].tensor, row, 1)), "")
    return name in ("cdist", "pairwise_distance") or (name in _SUMS and (made != "mul" or name != "sum"))


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
