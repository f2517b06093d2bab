"""Attention in which a position of a sequence reads later positions: without a mask, or behind one that shows them."""

from __future__ import annotations

from msgspec import Struct

from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.einsum_equations import equation_of
from gradviz.analysis.rules.bases.losses.scores_before_softmax import scores_of
from gradviz.analysis.rules.bases.sequences.attention.masks_of_scores import FAR_BELOW, Triangle, hidden_of, triangle_of
from gradviz.analysis.rules.bases.sequences.shifted_tokens import Shifted
from gradviz.graph.call_log import Call


class FutureReader(Struct, frozen=True):
    """A line that lets positions read later ones."""

    row: int
    """The call that one would change."""
    what: str
    fix: str
    is_convolution: bool = False


_ADD_A_MASK = "hide what comes later: scores.masked_fill(torch.triu(torch.ones(T, T), diagonal=1).bool(), -inf)"
_HIDE_UPPER = "hide the triangle above the diagonal, and only that: torch.triu(torch.ones(T, T), diagonal=1).bool()"
_TWO = 2


def shown_by_softmax(
    flow: Dataflow, shifted: Shifted, row: int, call: Call
) -> tuple[FutureReader, tuple[int, int]] | None:
    """What lets a softmax of scores weigh later positions, and the keys, as the call with that number received them."""
    shape = shape_of(flow, call.outputs[0].tensor)
    is_square = len(shape) >= _TWO and shape[-1] == shape[-2] and shape[-1] in shifted.lengths
    if not is_square or axis_of(call, len(shape)) != len(shape) - 1 or is_masked_after(flow, row, call):
        return None
    scores = scores_of(flow, row)
    keys = None if scores.product is None else _keys_of(flow.log.calls[scores.product])
    if keys is None or scores.product is None:
        return None
    masks: list[tuple[int, int, bool]] = []
    for edit in scores.edits:
        if edit.kind == "term" and edit.mask is not None:
            values = flow.values(edit.mask, edit.row)
            if values is not None and not values.infs and (values.minimum or 0.0) > FAR_BELOW:
                continue  # a bias
            masks.append((edit.row, edit.mask, True))
        elif edit.kind == "fill" and edit.mask is not None and edit.value is not None and edit.value <= FAR_BELOW:
            masks.append((edit.row, edit.mask, edit.hides_true))
        else:
            return None
    reader = _of_masks(flow, row, shape[-1], masks, _ADD_A_MASK)
    return None if reader is None else (reader, (keys, scores.product))


def _keys_of(call: Call) -> int | None:
    """The factor of a product whose positions are the last axis of the result."""
    if plain_name(call.function) == "einsum":
        equation = equation_of(call)
        terms = equation.terms if equation.has_arrow else ()
        having = [number for number, each in enumerate(terms) if equation.result[-1:] in each]
        return call.inputs[having[0]].tensor if len(having) == 1 and len(terms) == len(call.inputs) else None
    return call.inputs[-1].tensor if len(call.inputs) >= _TWO else None


_PASSES = frozenset({"dropout", "to", "float", "half", "type_as", "view", "reshape"})


def is_masked_after(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether the weights themselves are masked."""
    tensor = call.outputs[0].tensor
    for _ in range(_TWO):
        for user in flow.users(tensor, row):
            used = flow.log.calls[user]
            name = plain_name(used.function)
            is_weighed = name == "mul" and len(used.inputs) > 1
            if name in ("masked_fill", "where", "tril", "triu", "setitem") or is_weighed:
                return True
            if name in _PASSES and used.outputs:
                tensor, row = used.outputs[0].tensor, user
                break
    return False


def shown_by_attention(flow: Dataflow, shifted: Shifted, row: int, call: Call, name: str) -> FutureReader | None:
    """The same for a call of torch that is a whole attention."""
    if len(call.inputs) <= _TWO or call.scalars.get("is_causal", call.scalars.get("5")) is True:
        return None
    is_whole = name == "scaled_dot_product_attention"
    # multi_head_attention_forward() takes (positions, samples, features).
    query, keys = (shape_of(flow, use.tensor) for use in call.inputs[:_TWO])
    lengths = {query[-2], keys[-2]} if is_whole else {query[0], keys[0]}
    if len(lengths) != 1 or not lengths <= shifted.lengths:
        return None
    places = ("3", "attn_mask") if is_whole else ("attn_mask",)
    mask = next((use.tensor for use in call.inputs if use.place in places), None)
    masks = [] if mask is None else [(row, mask, not (is_whole and flow.log.tensors[mask].facts.dtype == "bool"))]
    fix = (
        "give it is_causal=True"
        if is_whole
        else "give the layer a causal mask: nn.Transformer.generate_square_subsequent_mask(T)"
    )
    return _of_masks(flow, row, lengths.pop(), masks, fix)


def _of_masks(
    flow: Dataflow, row: int, length: int, masks: list[tuple[int, int, bool]], fix: str
) -> FutureReader | None:
    """What masks leave visible, each with the call that uses it and whether it hides where it is true.

    None where one of them may hide the future.
    """
    wrong: Triangle | None = None
    too_few: tuple[int, int] | None = None
    for user, mask, hides_true in masks:
        shape = shape_of(flow, mask)
        if len(shape) < _TWO or shape[-2] == 1:
            continue  # the same for all positions: padding
        triangle = triangle_of(flow, user, mask, hides_true=hides_true)
        hidden = hidden_of(flow, user, mask, hides_true=hides_true)
        is_square = shape[-2:] == (length, length)
        if triangle is not None and triangle.shows_the_future:
            wrong = triangle
        elif is_square and hidden is not None and _hides_less_than_the_future(hidden, length):
            too_few = user, hidden[0] // max(hidden[1] // length**2, 1)
        else:
            return None
    if wrong is not None:
        half = "below the diagonal" if not wrong.hides_upper else f"from diagonal {wrong.diagonal} on"
        return FutureReader(wrong.row, f"the mask hides what is {half}, so positions see later ones", _HIDE_UPPER)
    if too_few is not None:
        what = (
            f"the mask hides {too_few[1]} of the {length * (length - 1) // 2} pairs in which a later position is read"
        )
        return FutureReader(too_few[0], what, _HIDE_UPPER)
    only = " but one of padding" if masks else ""
    return FutureReader(row, f"each position attends to all {length}, without a mask{only}", fix)


def _hides_less_than_the_future(hidden: tuple[int, int], length: int) -> bool:
    count, elements = hidden
    return 2 * count * length < elements * (length - 1)
