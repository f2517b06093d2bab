"""Calls of operations that work element by element."""

from __future__ import annotations

from typing import Any

from tests.integration.formulas.drawn import (
    Case,
    between,
    given,
    on_shapes,
    positive,
    real,
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
