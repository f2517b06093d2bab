"""Calls of operations that multiply, decompose, normalize and convolve."""

from __future__ import annotations

from typing import Any

import torch

from tests.integration.formulas.drawn import (
    covariance,
    given,
    real,
    single_precision,
)

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
