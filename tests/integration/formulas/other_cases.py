"""Calls of losses, attention, complex and random operations."""

from __future__ import annotations

import torch

from tests.integration.formulas.drawn import (
    between,
    complex_number,
    constant,
    given,
    integers,
    on_shapes,
    positive,
    real,
)

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
