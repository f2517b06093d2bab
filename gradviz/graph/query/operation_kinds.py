"""What kind of operation a node is: a convolution, a normalisation, an activation; for colours and legends."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, get_args

from gradviz.graph.model import Node, NodeKind
from gradviz.graph.query.operation_names import call_word, stem_of

OperationKind = Literal[
    "convolution", "linear", "normalisation", "activation", "attention", "pooling", "embedding", "loss",
    "elementwise", "shape",
]  # fmt: skip
OPERATION_KINDS: tuple[OperationKind, ...] = get_args(OperationKind)

_OF_ANY_KIND: frozenset[NodeKind] = frozenset({"custom", "checkpoint", "compiled", "parameter", "input"})
"""Nodes whose name does not say what they compute, and leaves."""

_CALLS: tuple[tuple[OperationKind, str], ...] = (
    ("attention", r"scaled_dot_product_attention|multi_head_attention_forward|flex_attention"),
    ("loss", r".*_loss|.*cross_entropy.*|kl_div"),
    ("pooling", r".*pool\dd.*|interpolate|upsample.*|pixel_(un)?shuffle|grid_sample"),
    ("normalisation", r"(batch|layer|group|instance|rms)_norm|normalize|local_response_norm"),
)
"""Python functions that make several nodes, whose own names say less."""
_STEMS: tuple[tuple[OperationKind, str], ...] = (
    ("attention", r".*Attention.*"),
    ("loss", r".*Loss.*|BinaryCrossEntropy.*|KlDiv.*"),
    ("normalisation", r".*(Batch|Layer|Group|Instance|Rms|Weight|Response)Norm.*"),
    ("pooling", r".*Pool\d?D?.*|.*Unpool.*|Upsample.*|GridSampler.*|Pixel(Un)?[Ss]huffle"),
    ("embedding", r"Embedding.*"),
    ("convolution", r".*Conv.*"),
    ("linear", r"(Sparse|Scaled|Grouped)?(Addmm|Addbmm|Baddbmm|Addmv|Addr|Mm|Bmm|Mv)|Dot|Vdot|(Mkldnn|Cudnn)?Linear"),
    ("linear", r"Trilinear|.*(Rnn|Lstm|Gru).*"),
    (
        "activation",
        r"(Leaky|P|R)?Relu.*|Hard(tanh|swish|sigmoid|shrink)|Soft(plus|shrink|sign)|(Log)?Sigmoid|Tanh"
        r"|(E|Se|Ce|Ge|G)lu|Silu|Mish|Threshold|(Log|Safe)?Softmax",
    ),
    (
        "shape",
        r"AsStrided|(Un)?Squeeze|Unbind|.*(View|Reshape|Expand|Permute|Transpose|Slice|Select|Split|Chunk).*"
        r"|Cat|Stack|Repeat|Clone|.*Copy.*|Index|IndexSelect|Gather|ConstantPadNd|.*Pad\d?D?|Flip|Roll|T|Unfold|Alias"
        r"|Diagonal|Im2Col|Col2Im|Tril|Triu",
    ),
)


def kind_of_operation(node: Node) -> OperationKind | None:
    """The kind of a node; None for leaves and for code whose name does not say what it computes."""
    if node.kind in _OF_ANY_KIND and not node.is_recomputed:
        return None
    kind = _kind(node.name, node.forward_call or "")
    return "shape" if node.kind == "view" and kind != "pooling" else kind


@lru_cache(maxsize=1000)
def _kind(name: str, forward_call: str) -> OperationKind:
    word, stem = call_word(forward_call), stem_of(name)
    by_call = [kind for kind, pattern in _CALLS if re.fullmatch(pattern, word)]
    by_stem = [kind for kind, pattern in _STEMS if re.fullmatch(pattern, stem, re.IGNORECASE)]
    return (by_call or by_stem or ["elementwise"])[0]


def kind_of_several(nodes: Iterable[Node]) -> OperationKind | None:
    """The kind of a box: the kind of its main operations; None if these are of several kinds, or if it is not known.

    What layers have beside their main operations does not count: normalisation and activation beside convolutions,
    projections beside an attention.
    """
    kinds = {kind_of_operation(node) for node in nodes if not node.is_leaf}
    if None in kinds:
        return None
    for beside in _BESIDE:
        kinds = (kinds - beside) or kinds
    kinds -= {"linear"} if "attention" in kinds else set()
    return kinds.pop() if len(kinds) == 1 else None


_BESIDE: tuple[frozenset[OperationKind], ...] = (
    frozenset({"shape"}), frozenset({"elementwise"}), frozenset({"normalisation", "activation"}),
)  # fmt: skip
"""Kinds that do not count beside others, in turn."""
