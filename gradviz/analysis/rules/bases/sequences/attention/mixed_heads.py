"""Reshapes that take heads of attention for tokens: those behind its product, and those that split off the heads."""

from __future__ import annotations

from math import prod

from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.einsum_equations import equation_of
from gradviz.analysis.rules.bases.mixed_channels import KEEPS_AXES, Mixed, order_of
from gradviz.graph.call_log import Call

_MAX_ABOVE = 40


def heads_with_tokens(flow: Dataflow, row: int, call: Call) -> Mixed | None:
    """(..., heads, tokens, features) to (..., tokens, heads * features), where the heads had been split from the last
    axis of a tensor that has the tokens before it."""
    given, made = shape_of(flow, call.inputs[0].tensor), shape_of(flow, call.outputs[0].tensor)
    if len(given) < 3 or min(given[-3:]) < 2:
        return None
    *batch, heads, tokens, features = given
    if made not in ((*batch, tokens, heads * features), (prod(batch) * tokens, heads * features)):
        return None
    origin, is_attention = _split_into_heads(flow, row, call.inputs[0].tensor)
    # With as many heads as tokens the shape alone would fit the features of all tokens of a head, too.
    if origin is None or (heads == tokens and not is_attention):
        return None
    axes = f"axis {len(given) - 3} has the heads that were split off"
    fix = f"exchange the axes first: .transpose({len(given) - 3}, {len(given) - 2}).reshape(...)"
    return Mixed(origin, axes, "heads and tokens", fix)


def tokens_into_heads(flow: Dataflow, row: int, call: Call) -> Mixed | None:
    """(..., tokens, features) to (..., heads, tokens, features of a head): the heads are parts of the features."""
    given, made = shape_of(flow, call.inputs[0].tensor), shape_of(flow, call.outputs[0].tensor)
    if len(given) < 3 or len(made) != len(given) + 1 or not call.inputs[0].requires_grad:
        return None
    *batch, tokens, features = given
    heads = made[-3]
    if made != (*batch, heads, tokens, features // heads) or heads in (1, tokens) or tokens == 1 or features == heads:
        return None
    maker = flow.newest_producer(call.inputs[0].tensor, row)
    before, sizes = len(given) - 1, ", ".join(map(str, (*batch, tokens, heads, features // heads)))
    return Mixed(
        row if maker is None else maker,
        f"axis {before - 1} has the tokens, and the heads are parts of the last axis",
        "heads and tokens",
        f"split the last axis, then exchange: .reshape({sizes}).transpose({before - 1}, {before})",
    )


def _split_into_heads(flow: Dataflow, row: int, tensor: int) -> tuple[int | None, bool]:
    """The call that split the third last axis off the last one of its input, and the second last one not; and whether
    a product with weights of attention came after it."""
    is_attention = False
    rank = len(shape_of(flow, tensor))
    heads, tokens = rank - 3, rank - 2
    for _ in range(_MAX_ABOVE):
        made = flow.producers(tensor, row)
        if not made:
            break
        row = made[-1]
        call = flow.log.calls[row]
        above = _input_with_these_axes(flow, call)
        if above is None:
            break
        name, given, result = plain_name(call.function), shape_of(flow, above), shape_of(flow, tensor)
        if name in ("transpose", "swapaxes", "permute"):
            order = order_of(call, len(given))
            if order is None:
                break
            heads, tokens = order[heads], order[tokens]
        elif name in ("view", "reshape", "unflatten"):
            return (row if _is_split_from_last(given, result, heads, tokens) else None), is_attention
        elif name in ("getitem", "unbind", "select") and given[1:] == result:
            heads, tokens = heads + 1, tokens + 1
        elif len(given) != len(result) or name not in KEEPS_AXES | _PRODUCTS | _PARTS:
            break
        is_attention = is_attention or name in _PRODUCTS
        tensor = above
    return None, False


_PRODUCTS = frozenset({"matmul", "scaled_dot_product_attention", "einsum"})


_PARTS = frozenset({"chunk", "split", "repeat_interleave"})


def _input_with_these_axes(flow: Dataflow, call: Call) -> int | None:
    """The input whose axes are those of the result: of a product with the weights of attention, the values."""
    name = plain_name(call.function)
    if not call.inputs or not call.outputs:
        return None
    if name == "scaled_dot_product_attention":
        return call.inputs[2].tensor if len(call.inputs) > 2 else None
    if name == "matmul":
        shapes = [shape_of(flow, use.tensor) for use in call.inputs]
        return call.inputs[1].tensor if len(shapes) == 2 and len(shapes[0]) == len(shapes[1]) else None
    if name == "einsum":
        equation = equation_of(call)
        last, result = equation.terms[-1], equation.result
        # "bhts,bhsd->bhtd": heads stay heads, and the tokens come from the other factor.
        is_product = len(last) == len(result) > 2 and last[:-2] == result[:-2] and last[-1] == result[-1]
        return call.inputs[-1].tensor if is_product else None
    return call.inputs[0].tensor


def _is_split_from_last(given: Shape, result: Shape, heads: int, tokens: int) -> bool:
    """Whether a reshape made several axes of the last one, the heads among them, and kept the tokens before it."""
    if len(given) < 2 or tokens >= heads:
        return False
    first = next((axis for axis in range(len(result)) if prod(result[axis:]) == given[-1]), None)
    if first is None or not tokens < first <= heads < len(result) - 1:
        return False
    return result[:first] == given[:-1] or (len(given) == 2 and prod(result[:first]) == given[0])
