"""With what each plain formula is compared with autograd: shapes, broadcasting, dimensions."""

from __future__ import annotations

from typing import Any

import torch

from tests.integration.formulas.drawn import (
    Case,
    between,
    complex_number,
    constant,
    covariance,
    given,
    integers,
    on_shapes,
    positive,
    real,
    single_precision,
    truth,
)

_BROADCASTS = (((3, 4), (3, 4)), ((3, 1), (4,)), ((), (2, 3)))


def _pairs(*nodes: str, **others: Any) -> list[Case]:
    """Operations of two inputs, with and without broadcasting; the second is above 0."""
    return [
        given(node, self=positive(*one), other=positive(*two), **others) for node in nodes for one, two in _BROADCASTS
    ]


ARITHMETIC = [
    *_pairs("AddBackward0", "SubBackward0", alpha=0.5),
    *_pairs("MulBackward0", "DivBackward0"),
    given("RsubBackward1", self=real(3, 4), other=1, alpha=2),
    *on_shapes("NegBackward0"),
    *on_shapes("AddBackward1", other=2, alpha=3),
    *on_shapes("MulBackward1", "DivBackward1", other=2.5),
    *_pairs("RsubBackward0", alpha=0.5),
    *_pairs("HypotBackward0"),
    *on_shapes("LerpBackward0", end=real(3, 4), weight=0.3),
    given("LerpBackward1", self=real(3, 4), end=real(4), weight=real(3, 1)),
    *(
        given(node, self=real(3, 4), tensor1=real(4), tensor2=positive(3, 1), value=0.5)
        for node in ("AddcmulBackward0", "AddcdivBackward0")
    ),
    *on_shapes("ReciprocalBackward0", draw=positive),
]

EXPONENTIALS = [
    *on_shapes("ExpBackward0", "Exp2Backward0", "Expm1Backward0"),
    *on_shapes("LogBackward0", "Log2Backward0", "Log10Backward0", "Log1PBackward0", draw=positive),
    *on_shapes("SqrtBackward0", "RsqrtBackward0", draw=positive),
    *(given("PowBackward0", self=positive(3, 4), exponent=exponent) for exponent in (2, 0.5, -1, 0)),
    given("PowBackward0", self=real(3, 4), exponent=3),
    *(given("PowBackward1", self=positive(*one), exponent=real(*two)) for one, two in _BROADCASTS),
    given("PowBackward2", self=2.5, exponent=real(3, 4)),
    *_pairs("LogaddexpBackward0", "XlogyBackward0"),
    given("XlogyBackward1", self=2.5, other=positive(3, 4)),
    given("XlogyBackward2", self=real(3, 4), other=2.5),
    *_pairs("Logaddexp2Backward0"),
    *on_shapes("LogitBackward0", eps=None, draw=lambda *shape: between(0.1, 0.9, *shape)),
    *on_shapes("LogitBackward0", eps=0.2, draw=lambda *shape: between(0.01, 0.99, *shape)),
    *on_shapes("SpecialEntrBackward0", draw=lambda *shape: between(0.1, 0.9, *shape)),
]

TRIGONOMETRIC = [
    *on_shapes("SinBackward0", "CosBackward0", "TanBackward0", "AtanBackward0"),
    *on_shapes("SinhBackward0", "CoshBackward0", "TanhBackward0", "AsinhBackward0"),
    *on_shapes("AsinBackward0", "AcosBackward0", "AtanhBackward0", draw=lambda *shape: between(-0.9, 0.9, *shape)),
    *on_shapes("AcoshBackward0", draw=lambda *shape: between(1.1, 3, *shape)),
    *(given("Atan2Backward0", self=real(*one), other=real(*two)) for one, two in _BROADCASTS),
    *on_shapes("ErfBackward0", "ErfcBackward0"),
    *on_shapes("ErfinvBackward0", draw=lambda *shape: between(-0.9, 0.9, *shape)),
    *on_shapes("LgammaBackward0", "DigammaBackward0", draw=positive),
    *on_shapes("SincBackward0", "Deg2RadBackward0", "Rad2DegBackward0"),
]

ACTIVATIONS = [
    *on_shapes("ReluBackward0", "SiluBackward0", "MishBackward0", "SigmoidBackward0", "LogSigmoidBackward0"),
    *on_shapes("LeakyReluBackward0", "LeakyReluBackward1", negative_slope=0.1),
    given("PreluKernelBackward0", self=real(2, 3, 4), weight=real(1)),
    *on_shapes("EluBackward0", "EluBackward1", alpha=1.5, scale=2.0),
    *on_shapes("CeluBackward0", "CeluBackward1", alpha=1.5),
    *on_shapes("GeluBackward0", approximate="none"),
    *on_shapes("GeluBackward0", approximate="tanh"),
    *on_shapes("SoftplusBackward0", beta=1, threshold=20),
    given("SoftplusBackward0", self=real(20), beta=2, threshold=1),
    *on_shapes("HardtanhBackward0", min_val=-0.5, max_val=0.6),
    *on_shapes("HardsigmoidBackward0", "HardswishBackward0", draw=lambda *shape: between(-6, 6, *shape)),
    *on_shapes("ThresholdBackward0", "ThresholdBackward1", threshold=0.2, value=-1),
    *on_shapes("SoftshrinkBackward0", "HardshrinkBackward0", lambd=0.5),
    given("GluBackward0", self=real(3, 4), dim=1),
    given("GluBackward0", self=real(2, 3, 4), dim=0),
    *(
        given(node, self=real(*shape), dim=dim)
        for node in ("SoftmaxBackward0", "SafeSoftmaxBackward0", "LogSoftmaxBackward0")
        for shape, dim in (((3, 4), 1), ((3, 4, 2), -3), ((5,), 0))
    ),
]

CHOICES = [
    *on_shapes("AbsBackward0"),
    *(
        given(node, self=real(*one), other=real(*two))
        for node in ("MaximumBackward0", "MinimumBackward0")
        for one, two in _BROADCASTS
    ),
    *on_shapes("ClampBackward1", min=-0.5, max=0.6),
    given("ClampBackward0", self=real(5, 4), min=real(5, 4), max=real(5, 1)),
    *on_shapes("ClampMinBackward0", min=0.1),
    *on_shapes("ClampMaxBackward0", max=0.1),
    *(
        given("WhereBackward0", condition=truth(3, 4), self=real(*one), other=real(*two))
        for one, two in _BROADCASTS[:2]
    ),
    given("MaskedFillBackward0", self=real(3, 4), mask=truth(3, 4), value=-2.0),
    given("MaskedFillBackward0", self=real(3, 4), mask=truth(4), value=-2.0),
    given("MaskedSelectBackward0", self=real(3, 4), mask=truth(3, 4)),
    given("MaskedScatterBackward0", self=real(3, 4), mask=truth(4), source=real(4, 4)),
    *on_shapes("RoundBackward0", "FloorBackward0", "CeilBackward0", "TruncBackward0", "SignBackward0"),
    *on_shapes("FracBackward0", "NanToNumBackward0"),
    *on_shapes("FmodBackward0", "RemainderBackward0", other=0.7),
    *_pairs("RemainderBackward1"),
    *(given("ClampBackward1", self=real(3, 4), min=low, max=high) for low, high in ((0.1, None), (None, 0.1))),
    given("ClampBackward0", self=real(3, 4), min=real(4), max=None),
    given("MaskedFillBackward1", self=real(3, 4), mask=truth(3, 4), value=real()),
    given("ClampMinBackward1", self=real(3, 4), min=real(4)),
    given("ClampMaxBackward1", self=real(3, 4), max=real(4)),
    *(
        given(node, self=real(3, 4), other=real(3, 1))
        for node in ("FmaxBackward0", "FminBackward0", "CopysignBackward0")
    ),
    given("DivBackward2", self=real(3, 4), other=positive(4), rounding_mode="floor"),
    *_pairs("FmodBackward1"),
]

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

LINEAR_ALGEBRA = [
    given("MmBackward0", self=real(3, 4), mat2=real(4, 5)),
    given("BmmBackward0", self=real(2, 3, 4), mat2=real(2, 4, 5)),
    given("AddmmBackward0", self=real(5), mat1=real(3, 4), mat2=real(4, 5), beta=1, alpha=1),
    given("AddmmBackward0", self=real(3, 1), mat1=real(3, 4), mat2=real(4, 5), beta=0.5, alpha=2),
    given("BaddbmmBackward0", self=real(2, 1, 5), batch1=real(2, 3, 4), batch2=real(2, 4, 5), beta=0.5, alpha=2),
    given("AddbmmBackward0", self=real(3, 5), batch1=real(2, 3, 4), batch2=real(2, 4, 5), beta=0.5, alpha=2),
    given("MvBackward0", self=real(3, 4), vec=real(4)),
    given("AddmvBackward0", self=real(3), mat=real(3, 4), vec=real(4), beta=0.5, alpha=2),
    given("DotBackward0", self=real(4), tensor=real(4)),
    given("VdotBackward0", self=real(4), other=real(4)),
    given("LinalgCrossBackward0", self=real(2, 3), other=real(2, 3), dim=1),
    *(given("CdistBackward0", x1=real(3, 4), x2=real(5, 4), p=p) for p in (2.0, 3.0)),
    *(given("DistBackward0", self=real(3, 4), other=real(3, 4), p=p) for p in (2, 3)),
    given("LinalgDetBackward0", A=real(4, 4)),
    given("LinalgDetBackward0", A=real(2, 4, 4)),
    given("LinalgSlogdetBackward0", A=real(4, 4)),
    given("LinalgInvExBackward0", A=real(4, 4)),
    given("LinalgSolveExBackward0", A=real(4, 4), B=real(4, 2)),
    given("LinalgSolveExBackward0", A=real(4, 4), B=real(4)),
    *(given("LinalgSolveTriangularBackward0", self=real(4, 4), B=real(4, 2), upper=upper) for upper in (True, False)),
    given("LinalgCholeskyExBackward0", self=covariance(4), upper=False),
    given("LinalgCholeskyExBackward0", self=covariance(4), upper=True),
    given("LinalgEighBackward0", A=covariance(4)),
    given(
        "GroupedMmBackward0",
        self=single_precision(real(8, 16)),
        mat2=single_precision(real(3, 16, 8)),
        offs=torch.tensor([2, 5, 8], dtype=torch.int32),
    ),
    given("LinalgQrBackward0", A=real(5, 3)),
    *(given("LinalgSvdBackward0", A=real(*shape)) for shape in ((4, 4), (5, 3), (3, 5))),
    *(given("LinalgPinvBackward0", self=real(*shape)) for shape in ((4, 4), (5, 3), (3, 5))),
]

NORMALISATIONS = [
    given(
        "NativeLayerNormBackward0", input=real(2, 3, 4), normalized_shape=(4,), weight=real(4), bias=real(4), eps=0.1
    ),
    given(
        "NativeLayerNormBackward0",
        input=real(2, 3, 4),
        normalized_shape=(3, 4),
        weight=real(3, 4),
        bias=real(3, 4),
        eps=1e-5,
    ),
    *(
        given(
            "NativeBatchNormBackward0",
            input=real(*shape),
            weight=real(3),
            bias=real(3),
            running_mean=torch.ones(3, dtype=torch.float64),
            running_var=torch.full((3,), 2.0, dtype=torch.float64),
            training=training,
            momentum=0.0,
            eps=0.1,
        )
        for shape in ((5, 3), (2, 3, 4, 2))
        for training in (True, False)
    ),
    given(
        "NativeGroupNormBackward0", input=real(2, 4, 3), weight=real(4), bias=real(4), N=2, C=4, HxW=3, group=2, eps=0.1
    ),
    given("WeightNormInterfaceBackward0", v=real(3, 4, 2), g=real(3, 1, 1), dim=0),
]

_SCALES: dict[str, Any] = {"scales_h": None, "scales_w": None}
_POOLING: dict[str, Any] = {"ceil_mode": True, "count_include_pad": False, "divisor_override": None}
IMAGES = [
    *(
        given(
            "ConvolutionBackward0",
            input=real(2, 6 if transposed else 4, *size),
            weight=real(6, 4 // groups, *kernel),
            bias=real(4 if transposed else 6),
            stride=stride,
            padding=padding,
            dilation=dilation,
            transposed=transposed,
            output_padding=(0,) * len(size),
            groups=groups,
        )
        for transposed in (False, True)
        for size, kernel, stride, padding, dilation, groups in (
            ((7, 6), (3, 2), (1, 1), (0, 0), (1, 1), 1),
            ((7, 6), (3, 2), (2, 1), (1, 2), (1, 2), 2),
            ((9,), (3,), (2,), (1,), (2,), 1),
            ((4, 3, 4), (2, 1, 2), (1, 2, 1), (0, 1, 1), (1, 1, 1), 1),
        )
    ),
    given("MaxPool2DWithIndicesBackward0", self=real(2, 3, 7, 6), kernel_size=3, stride=2, padding=1, dilation=1),
    given("AdaptiveMaxPool2DBackward0", self=real(2, 3, 7, 6), output_size=(3, 2)),
    given("AvgPool2DBackward0", self=real(2, 3, 7, 6), kernel_size=3, stride=2, padding=1, **_POOLING),
    given("AdaptiveAvgPool2DBackward0", self=real(2, 3, 7, 6), output_size=(3, 2)),
    given("UpsampleNearest1DBackward0", self=real(2, 3, 4), output_size=(7,), scales=None),
    given("UpsampleNearest2DBackward0", self=real(2, 3, 4, 3), output_size=(7, 6), scales_h=1.8, scales_w=None),
    given("UpsampleLinear1DBackward0", self=real(2, 3, 4), output_size=(7,), align_corners=True, scales=None),
    given(
        "UpsampleBilinear2DBackward0",
        self=real(2, 3, 4, 3),
        output_size=(7, 6),
        align_corners=False,
        scales_h=None,
        scales_w=None,
    ),
    given(
        "UpsampleBicubic2DBackward0",
        self=real(2, 3, 4, 3),
        output_size=(7, 6),
        align_corners=False,
        scales_h=None,
        scales_w=None,
    ),
    given("Im2ColBackward0", self=real(2, 3, 7, 6), kernel_size=(3, 2), dilation=1, padding=1, stride=2),
    given("Col2ImBackward0", self=real(2, 12, 12), output_size=(4, 5), kernel_size=2, dilation=1, padding=0, stride=1),
    given("PixelShuffleBackward0", self=real(2, 8, 3, 2), upscale_factor=2),
    given("PixelUnshuffleBackward0", self=real(2, 3, 4, 6), downscale_factor=2),
    given("UpsampleNearestExact2DBackward0", self=real(2, 3, 4, 3), output_size=(7, 2), **_SCALES),
    given(
        "UpsampleBilinear2DAaBackward0",
        self=real(2, 3, 6, 5),
        output_size=(3, 2),
        align_corners=False,
        scales_h=None,
        scales_w=None,
    ),
    given(
        "UpsampleNearest3DBackward0",
        self=real(2, 1, 2, 3, 2),
        output_size=(4, 5, 3),
        scales_d=None,
        scales_h=None,
        scales_w=None,
    ),
    given(
        "UpsampleTrilinear3DBackward0",
        self=real(2, 1, 2, 3, 2),
        output_size=(4, 5, 3),
        align_corners=False,
        scales_d=None,
        scales_h=None,
        scales_w=None,
    ),
    given("AvgPool3DBackward0", self=real(2, 1, 4, 3, 4), kernel_size=2, stride=1, padding=1, **_POOLING),
    given("AdaptiveAvgPool3DBackward0", self=real(2, 1, 4, 3, 4), output_size=(3, 2, 2)),
    given("MaxPool3DWithIndicesBackward0", self=real(2, 2, 4, 3, 4), kernel_size=2, stride=1, padding=1, dilation=1),
    given(
        "MaxUnpool2DBackward0",
        self=real(1, 1, 2, 2),
        indices=torch.tensor([[[[0, 3], [9, 14]]]]),
        output_size=(4, 4),
    ),
    given("ChannelShuffleBackward0", self=real(2, 6, 3, 2), groups=2),
]

_REDUCTIONS = (0, 1, 2)
LOSSES = [
    *(given("MseLossBackward0", self=real(3, 4), target=real(3, 4), reduction=reduction) for reduction in _REDUCTIONS),
    *(
        given("SmoothL1LossBackward0", self=real(3, 4), target=real(3, 4), reduction=reduction, beta=0.7)
        for reduction in _REDUCTIONS
    ),
    *(
        given("HuberLossBackward0", self=real(3, 4), target=real(3, 4), reduction=reduction, delta=0.7)
        for reduction in _REDUCTIONS
    ),
    *(
        given(
            "BinaryCrossEntropyBackward0",
            self=between(0.1, 0.9, 3, 4),
            target=between(0, 1, 3, 4),
            weight=weight,
            reduction=reduction,
        )
        for weight in (None, constant(positive(4)))
        for reduction in _REDUCTIONS
    ),
    *(
        given(
            "BinaryCrossEntropyWithLogitsBackward0",
            self=real(3, 4),
            target=between(0, 1, 3, 4),
            weight=weight,
            pos_weight=weight,
            reduction=reduction,
        )
        for weight in (None, constant(positive(4)))
        for reduction in _REDUCTIONS
    ),
    *(
        given("SoftMarginLossBackward0", self=real(3, 4), target=constant(real(3, 4)), reduction=reduction)
        for reduction in _REDUCTIONS
    ),
    *(
        given(node, self=real(*shape), target=integers(4, *targets), weight=weight, ignore_index=1, reduction=reduction)
        for node, shape, targets in (
            ("NllLossBackward0", (6, 4), (6,)),
            ("NllLoss2DBackward0", (2, 4, 3, 2), (2, 3, 2)),
        )
        for weight, reduction in ((None, 1), (constant(positive(4)), 1), (constant(positive(4)), 0), (None, 2))
    ),
]

_MASK = torch.where(torch.arange(25).reshape(5, 5) % 3 == 0, -torch.inf, 0.5).double()
ATTENTION = [
    given(
        "ScaledDotProductFlashAttentionForCpuBackward0",
        query=real(2, 3, 5, 8),
        key=real(2, 3, 5, 8),
        value=real(2, 3, 5, 8),
        is_causal=is_causal,
        attn_mask=mask,
        scale=scale,
    )
    for is_causal, mask, scale in ((False, None, None), (False, None, 0.7), (True, None, None), (False, _MASK, None))
]

COMPLEX_NUMBERS = [
    *on_shapes("ConjBackward0", "ViewAsRealBackward0", "AngleBackward0", draw=complex_number),
    given("ViewAsComplexBackward0", self=real(3, 4, 2)),
    given("ComplexBackward0", real=real(3, 4), imag=real(3, 4)),
    given("PolarBackward0", abs=positive(3, 4), angle=real(3, 4)),
    *(
        given("FftC2CBackward0", self=complex_number(3, 4), dim=dim, normalization=normalization, forward=forward)
        for dim, normalization, forward in (([1], 0, True), ([0, 1], 2, False), ([0], 1, True))
    ),
    *(
        given("FftR2CBackward0", self=real(3, size), dim=dim, normalization=1, onesided=onesided)
        for size, dim, onesided in ((4, [1], True), (5, [1], True), (5, [0], True), (4, [0, 1], False))
    ),
    *(
        given("FftC2RBackward0", self=complex_number(3, 3), dim=[1], normalization=2, last_dim_size=size)
        for size in (4, 5)
    ),
]

RANDOMNESS = [
    given("NativeDropoutBackward0", input=real(3, 4), p=0.5, train=True),
    given("BernoulliBackward0", self=between(0, 1, 3, 4)),
    given("NormalBackward1", mean=real(3, 4), std=2.0),
    given("ZeroBackward0", self=real(3, 4)),
    given("FillBackward2", self=real(3, 4), value=2.5),
    given("torch::autograd::CopyBackwards", self=real(3, 4), src=real(4)),
    *on_shapes("UniformBackward0", "NormalBackward0", "ExponentialBackward0"),
    *on_shapes("BernoulliBackward2", p=0.5),
    given("FillBackward3", self=real(3, 4), value=real()),
]

CASES: list[Case] = [
    *ARITHMETIC,
    *EXPONENTIALS,
    *TRIGONOMETRIC,
    *ACTIVATIONS,
    *CHOICES,
    *REDUCTIONS,
    *SHAPES,
    *INDEXING,
    *LINEAR_ALGEBRA,
    *NORMALISATIONS,
    *IMAGES,
    *LOSSES,
    *ATTENTION,
    *COMPLEX_NUMBERS,
    *RANDOMNESS,
]
