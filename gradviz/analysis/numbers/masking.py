"""Calls that select some values and drop others, in the forward, and the zeros that they make in gradients."""

from __future__ import annotations

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call
from gradviz.graph.gradients import TensorFigures
from gradviz.graph.model import Graph, Node
from gradviz.graph.query.operation_names import stem_of

_CHOOSING = frozenset({
    "where", "masked_fill", "setitem", "index_put", "masked_scatter", "index_fill", "index_copy", "copy", "getitem",
    "masked_select", "gather", "index_select", "take", "take_along_dim", "nan_to_num", "nansum", "nanmean", "scatter",
    "fmax", "fmin", "clamp", "clip", "clamp_min", "clamp_max", "maximum", "minimum", "narrow", "select", "split",
    "chunk", "topk", "sort", "max", "min", "amax", "amin", "fill", "zero",
})  # fmt: skip
_CHOOSING_NODES = frozenset({
    "Where", "MaskedFill", "IndexPut", "MaskedScatter", "IndexFill", "IndexCopy", "CopySlices", "Index", "Gather",
    "MaskedSelect", "IndexSelect", "Take", "NanToNum", "Nansum", "Scatter", "Slice", "Select", "Narrow", "Split",
})  # fmt: skip


def hides_by_choice(call: Call) -> bool:
    """Whether a call replaces some values with others, and does not compute with all of them."""
    return plain_name(call.function) in _CHOOSING


def is_masked_in_backward(graph: Graph, node: Node, flow: Dataflow) -> int | None:
    """The call that made zeros in the gradient of a node that turns zeros into NaN; None if a slope made them.

    The search goes from the node towards the loss, to the nearest nodes that send more zeros than they got: a mask
    makes zeros by selection, but ``d ** 2`` does so because d is zero.
    """
    if any(sent is not None and sent.infs for sent in node.gradients) or not any(map(_zero_share, node.arrived)):
        return None
    makers = _makers_of_zeros(graph, node)
    rows = [flow.call_of_node(maker) for maker in makers]
    chosen = [row for maker, row in zip(makers, rows, strict=True) if _chooses(maker, row, flow)]
    return chosen[0] if makers and len(chosen) == len(makers) else None


def _makers_of_zeros(graph: Graph, node: Node) -> list[Node]:
    senders: dict[int, list[tuple[Node, TensorFigures]]] = {}
    for each in graph.nodes:
        for edge, sent in zip(each.edges, each.gradients, strict=False):
            if edge is not None and sent is not None and sent.zeros:
                senders.setdefault(edge.target, []).append((each, sent))
    makers, waiting, seen = [], [node.id], {node.id}
    while waiting:
        for sender, sent in senders.get(waiting.pop(), ()):
            if sender.id in seen:
                continue
            seen.add(sender.id)
            if _zero_share(sent) > max(map(_zero_share, sender.arrived), default=0.0):
                makers.append(sender)
            else:
                waiting.append(sender.id)
    return makers


def _zero_share(figures: TensorFigures | None) -> float:
    return figures.zeros / figures.count if figures is not None and figures.count else 0.0


def _chooses(node: Node, row: int | None, flow: Dataflow) -> bool:
    if row is None:
        return False
    call = flow.log.calls[row]
    if plain_name(call.function) in ("clamp", "clip", "clamp_min", "clamp_max", "maximum", "minimum"):
        return False
    return stem_of(node.name) in _CHOOSING_NODES or (stem_of(node.name) == "Mul" and _has_zeros_aside(call, row, flow))


def _has_zeros_aside(call: Call, row: int, flow: Dataflow) -> bool:
    """Whether a factor that contains zeros is a mask: it needs no gradient."""
    for use in call.inputs:
        if not use.requires_grad:
            values = flow.values_of(use, row)
            if values is None or values.zeros:
                return True
    return False
