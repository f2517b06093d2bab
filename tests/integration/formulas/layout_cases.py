"""Calls of operations that reduce, rearrange and pick elements."""

from __future__ import annotations

from typing import Any

import torch

from tests.integration.formulas.drawn import (
    given,
    integers,
    on_shapes,
    real,
)

_ALONG: list[dict[str, Any]] = [
    {"self": real(*shape), "dim": dim, "keepdim": keepdim}
    for shape, dim, keepdim in (((3, 4), 1, False), ((3, 4, 2), -3, True), ((5,), 0, False))
]
_ALONG_SEVERAL: list[dict[str, Any]] = [
    *_ALONG,
    {"self": real(3, 4, 2), "dim": (0, 2), "keepdim": False},
    {"self": real(3, 4, 2), "dim": (0, -1), "keepdim": True},
]
_WITHOUT_KEEPDIM = [{"self": each["self"], "dim": each["dim"]} for each in _ALONG]

REDUCTIONS = [
    *on_shapes("SumBackward0", "MeanBackward0", "ProdBackward0"),
    *on_shapes("MaxBackward1", "MinBackward1", "MedianBackward0"),
    *(
        given(node, **each)
        for node in ("SumBackward1", "MeanBackward1", "NansumBackward0", "AmaxBackward0", "AminBackward0")
        for each in _ALONG_SEVERAL
    ),
    *(given("LogsumexpBackward0", **each) for each in _ALONG_SEVERAL),
    *(
        given(node, **each)
        for node in ("ProdBackward1", "MaxBackward0", "MinBackward0", "MedianBackward1", "ModeBackward0")
        for each in _ALONG
    ),
    *(given("KthvalueBackward0", k=2, **each) for each in _ALONG),
    *(given("TopkBackward0", k=2, **each) for each in _WITHOUT_KEEPDIM),
    *(
        given(node, correction=correction, **each)
        for node in ("VarBackward0", "StdBackward0", "VarMeanBackward0", "StdMeanBackward0")
        for each, correction in zip(_ALONG_SEVERAL, (0, 1, 2, 1, 0.5), strict=True)
    ),
    given("VarBackward0", self=real(3, 4), dim=None, correction=None, keepdim=False),
    *on_shapes("NormBackward0", p=2),
    given("NormBackward0", self=real(3, 4), p=3),
    *(given("LinalgVectorNormBackward0", ord=ord, **each) for each in _ALONG_SEVERAL for ord in (1, 2, 3.5)),
    *(
        given(node, **each)
        for node in (
            "SortBackward0",
            "CumsumBackward0",
            "CumprodBackward0",
            "CummaxBackward0",
            "CumminBackward0",
            "LogcumsumexpBackward0",
        )
        for each in _WITHOUT_KEEPDIM
    ),
    given("TraceBackward0", self=real(3, 4)),
    *(given("AminmaxBackward0", **each) for each in _ALONG),
    *on_shapes("NanmedianBackward0"),
    *(given("NormBackward1", p=p, **each) for each in _ALONG_SEVERAL for p in (2, 3)),
]

SHAPES = [
    given("ViewBackward0", self=real(3, 4), size=(2, 6)),
    given("UnsafeViewBackward0", self=real(3, 4), size=(12,)),
    given("ReshapeAliasBackward0", self=real(3, 4), size=(2, 6), stride=(6, 1)),
    *(
        given(node, self=real(3, 4), dim=dim)
        for node in ("UnsqueezeBackward0", "UnsqueezeBackward1")
        for dim in (1, -1)
    ),
    given("SqueezeBackward0", self=real(3, 1, 4, 1)),
    given("SqueezeBackward1", self=real(3, 1, 4), dim=1),
    given("SqueezeBackward2", self=real(3, 1, 4, 1), dim=(1, -1)),
    *on_shapes("AliasBackward0", "CloneBackward0"),
    given("ToCopyBackward0", self=real(3, 4), dtype=torch.float32),
    given("TBackward0", self=real(3, 4)),
    given("TransposeBackward0", self=real(3, 4, 2), dim0=0, dim1=-1),
    given("PermuteBackward0", self=real(3, 4, 2), dims=(2, 0, -2)),
    given("ExpandBackward0", self=real(3, 1), size=(2, 3, 4)),
    given("RepeatBackward0", self=real(3, 2), repeats=(2, 1, 3)),
    given("FlipBackward0", self=real(3, 4), dims=(0, 1)),
    given("RollBackward0", self=real(3, 4), shifts=(1, -2), dims=(0, 1)),
    given("CatBackward0", tensors=[real(3, 1), real(3, 4)], dim=1),
    given("StackBackward0", tensors=[real(3, 4), real(3, 4)], dim=1),
    given("UnbindBackward0", self=real(3, 4), dim=1),
    given("SplitBackward0", self=real(3, 5), split_size=2, dim=1),
    given("SplitWithSizesBackward0", self=real(3, 5), split_sizes=[1, 4], dim=-1),
    *(
        given(node, self=real(4, 3), diagonal=diagonal)
        for node in ("TrilBackward0", "TriuBackward0")
        for diagonal in (0, 1)
    ),
    given("DiagonalBackward0", self=real(3, 4, 2), offset=1, dim1=0, dim2=1),
    given("DiagEmbedBackward0", self=real(3, 4), offset=-1, dim1=0, dim2=-1),
    given("ConstantPadNdBackward0", self=real(3, 4), pad=(1, 2, 0, 3), value=0.5),
    *(
        given(node, self=real(2, 5), padding=(1, 2))
        for node in ("ReflectionPad1DBackward0", "ReplicationPad1DBackward0")
    ),
    *(
        given(node, self=real(2, 5, 4), padding=(1, 2, 0, 3))
        for node in ("ReflectionPad2DBackward0", "ReplicationPad2DBackward0")
    ),
    given("AsStridedBackward0", self=real(4, 3), size=(2, 3), stride=(2, 1), storage_offset=1),
    given("AsStridedBackward1", self=real(4, 3), size=(2, 3), stride=(2, 1), storage_offset=1),
    given("UnfoldBackward0", self=real(3, 7), dimension=1, size=3, step=2),
    given("TBackward1", self=real(3, 4)),
    given("TransposeBackward1", self=real(3, 4, 2), dim0=0, dim1=-1),
    given("SqueezeBackward3", self=real(3, 1, 4, 1)),
    given("SqueezeBackward4", self=real(3, 1, 4), dim=1),
    given("Rot90Backward0", self=real(3, 4), k=1, dims=(0, 1)),
    *(
        given(node, self=real(2, 3, 3, 3), padding=(1, 2, 0, 1, 1, 0))
        for node in ("ReflectionPad3DBackward0", "ReplicationPad3DBackward0")
    ),
    given("PackPaddedSequenceBackward0", input=real(2, 3, 4), lengths=torch.tensor([3, 2]), batch_first=True),
    given("DiagonalBackward0_copy", self=real(3, 4), offset=1, dim1=0, dim2=1),
]

INDEXING = [
    given("SelectBackward0", self=real(3, 4), dim=1, index=-1),
    given("SliceBackward0", self=real(3, 7), dim=1, start=1, end=6, step=2),
    given("IndexBackward0", self=real(3, 4), indices=[torch.tensor([0, 2, 0]), torch.tensor([1, 3, 1])]),
    given("IndexBackward0", self=real(3, 4), indices=[torch.tensor([0, 2, 0])]),
    given("IndexBackward0", self=real(3, 4), indices=[None, torch.tensor([0, 2, 0])]),
    given("IndexSelectBackward0", self=real(3, 4), dim=1, index=integers(4, 6)),
    given("GatherBackward0", self=real(3, 4), dim=1, index=integers(4, 2, 6)),
    given("TakeBackward0", self=real(3, 4), index=torch.tensor([[0, 5], [-1, 5]])),
    *(
        given("IndexPutBackward0", self=real(3, 4), indices=[torch.tensor(rows)], values=real(2, 4), accumulate=adds)
        for rows, adds in (([0, 2], False), ([1, 1], True))
    ),
    given("IndexAddBackward0", self=real(3, 4), dim=1, index=integers(4, 6), source=real(3, 6), alpha=2),
    given("IndexCopyBackward0", self=real(3, 4), dim=1, index=torch.tensor([2, 0]), source=real(3, 2)),
    given("IndexFillBackward0", self=real(3, 4), dim=1, index=torch.tensor([2, 0]), value=1.5),
    given("ScatterBackward0", self=real(3, 4), dim=1, index=torch.tensor([[2, 0], [1, 3]]), src=real(2, 2)),
    given("ScatterBackward1", self=real(3, 4), dim=1, index=integers(4, 2, 2), value=1.5),
    given("ScatterAddBackward0", self=real(3, 4), dim=1, index=integers(4, 2, 6), src=real(2, 6)),
    *(
        given("ScatterReduceBackward0", self=real(3, 4), dim=1, index=integers(4, 3, 6), src=real(3, 6), reduce=reduce)
        for reduce in ("sum", "mean", "amax", "amin")
    ),
    given("SelectScatterBackward0", self=real(3, 4), src=real(3), dim=1, index=2),
    given("SliceScatterBackward0", self=real(3, 7), src=real(3, 3), dim=1, start=1, end=6, step=2),
    given("EmbeddingBackward0", indices=integers(5, 2, 6), weight=real(5, 3), padding_idx=1),
    *(
        given(
            "EmbeddingBagBackward0",
            indices=integers(5, 6),
            weight=real(5, 3),
            offsets=torch.tensor([0, 2, 3]),
            mode=mode,
        )
        for mode in (0, 1)
    ),
]
