"""Attention calls, whole or written out: what they take as keys, and whether a mask hides the padding among these."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.scores_before_softmax import scores_of
from gradviz.analysis.rules.bases.sequences.attention.future_attended import is_masked_after
from gradviz.analysis.rules.bases.sequences.attention.masks_of_scores import hidden_of
from gradviz.graph.call_log import Call, TensorUse


class Attention(Struct, frozen=True):
    """An attention over the positions of the keys."""

    row: int
    query: int
    keys: int
    length: int
    """Positions of the keys."""
    has_mask: bool
    padding: int | None
    """The mask that hides other keys for each sample, if there is one."""
    is_own: bool
    """Whether the positions of the queries are those of the keys."""


_LAYER = "multi_head_attention_forward"
_FUSED = "scaled_dot_product_attention"
_AXES = 3
_MATRIX = 2
_NEAR = 8
_RANDOM = frozenset({"rand", "rand_like", "bernoulli", "randn", "dropout", "randperm"})


def attentions(flow: Dataflow) -> Iterator[Attention]:
    """Every attention of a batch that gets a gradient, in order."""
    for row, call in enumerate(flow.log.calls):
        name = plain_name(call.function) if call.live_inputs and call.outputs and call.kind == "operation" else ""
        found = None
        if name == _LAYER:
            found = _of_layer(flow, row, call)
        elif name == _FUSED:
            found = _of_fused(flow, row, call)
        elif name == "softmax":
            found = _written_out(flow, row)
        if found is not None:
            yield found


def _of_layer(flow: Dataflow, row: int, call: Call) -> Attention | None:
    """Of the function that ``nn.MultiheadAttention`` calls, which takes (positions, samples, features)."""
    query, keys = call.inputs[0].tensor, call.inputs[1].tensor
    shape = shape_of(flow, keys)
    if len(shape) != _AXES:
        return None
    masks = {use.place: use for use in call.inputs if use.place in ("key_padding_mask", "attn_mask")}
    padding = masks.get("key_padding_mask")
    hidden = None if padding is None else _hidden(flow, row, padding, hides_true=True)
    return Attention(row, query, keys, shape[0], bool(masks), hidden, query == keys)


def _of_fused(flow: Dataflow, row: int, call: Call) -> Attention | None:
    query, keys = call.inputs[0].tensor, call.inputs[1].tensor
    shape = shape_of(flow, keys)
    if len(shape) < _AXES or len(shape_of(flow, query)) < _AXES:
        return None
    mask = next((use for use in call.inputs if use.place in ("3", "attn_mask")), None)
    is_causal = call.scalars.get("is_causal", call.scalars.get("5")) is True
    padding = None if mask is None else _of_samples(flow, row, mask, shape, hides_true=False)
    is_own = shape_of(flow, query)[-2] == shape[-2] and _have_one_source(flow, query, keys, row)
    return Attention(row, query, keys, shape[-2], mask is not None or is_causal, padding, is_own)


def _written_out(flow: Dataflow, row: int) -> Attention | None:
    """Of a softmax over the last axis of a matrix product."""
    scores = scores_of(flow, row)
    shape = shape_of(flow, flow.log.calls[row].outputs[0].tensor)
    product = None if scores.product is None else flow.log.calls[scores.product]
    if scores.product is None or product is None or len(product.live_inputs) != _MATRIX or len(shape) < _AXES:
        return None
    query, keys = (use.tensor for use in product.live_inputs)
    padding = None
    for edit in scores.edits:
        uses = flow.log.calls[edit.row].inputs
        mask = next((use for use in uses if use.tensor == edit.mask), None)
        if mask is not None and edit.kind in ("fill", "term"):
            padding = padding or _of_samples(flow, edit.row, mask, (shape[0],), hides_true=edit.hides_true)
    has_mask = bool(scores.edits) or is_masked_after(flow, row, flow.log.calls[row])
    is_own = shape[-1] == shape[-2] and _have_one_source(flow, query, keys, scores.product)
    return Attention(row, query, keys, shape[-1], has_mask, padding, is_own)


def _of_samples(flow: Dataflow, row: int, mask: TensorUse, keys: tuple[int, ...], *, hides_true: bool) -> int | None:
    """A mask that hides something, from all queries alike, and not the same of all samples."""
    shape = shape_of(flow, mask.tensor)
    is_of_samples = len(shape) >= _AXES and shape[0] == keys[0] > 1 == shape[-2]
    return _hidden(flow, row, mask, hides_true=hides_true) if is_of_samples else None


def _hidden(flow: Dataflow, row: int, mask: TensorUse, *, hides_true: bool) -> int | None:
    """A mask that was not drawn and hides something."""
    hidden = hidden_of(flow, row, mask.tensor, hides_true=hides_true)
    above = flow.makers_above(mask.tensor, row, 2 * _NEAR, lambda call: call.inputs)
    is_drawn = any(plain_name(call.function) in _RANDOM for _, call in above)
    return mask.tensor if hidden is not None and hidden[0] and not is_drawn else None


def _have_one_source(flow: Dataflow, query: int, keys: int, row: int) -> bool:
    """Whether queries and keys were computed from one tensor."""
    first, second = (
        {tensor, *(call.inputs[0].tensor for _, call in flow.makers(tensor, row, _NEAR) if call.inputs)}
        for tensor in (query, keys)
    )
    return not first.isdisjoint(second)
