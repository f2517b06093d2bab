"""Trigonometric and hyperbolic functions."""

from __future__ import annotations

from gradviz.formulas.plain.plain_formula import PlainFormula, Trap

TRIGONOMETRIC = (
    PlainFormula(
        "SinBackward0",
        "The sine, as in positional encodings.",
        "torch.sin(self)",
        {"self": "grad * torch.cos(self).conj()"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "CosBackward0",
        "The cosine.",
        "torch.cos(self)",
        {"self": "-grad * torch.sin(self).conj()"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "TanBackward0",
        "The tangent.",
        "torch.tan(self)",
        {"self": "grad * (1 + result**2).conj()"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "AsinBackward0",
        "The angle of which x is the sine.",
        "torch.asin(self)",
        {"self": "grad / torch.sqrt(1 - self**2).conj()"},
        holds_for_complex=True,
        traps=(
            Trap(
                "At −1 and 1 the slope is infinite.",
                "x = torch.tensor([1.0], requires_grad=True)\ntorch.asin(x).backward()\nx.grad",
                "[inf]",
            ),
        ),
    ),
    PlainFormula(
        "AcosBackward0",
        "The angle of which x is the cosine.",
        "torch.acos(self)",
        {"self": "-grad / torch.sqrt(1 - self**2).conj()"},
        holds_for_complex=True,
        traps=(
            Trap(
                "At 1, the angle between parallel vectors, the slope is −∞; rounding just above 1 gives NaN.",
                "x = torch.tensor([1.0, 1.0000001], requires_grad=True)\ntorch.acos(x).sum().backward()\nx.grad",
                "[-inf, nan]",
            ),
        ),
    ),
    PlainFormula(
        "AtanBackward0",
        "The angle of which x is the tangent.",
        "torch.atan(self)",
        {"self": "grad / (1 + self**2).conj()"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "Atan2Backward0",
        "The angle of the point (b, a), in all four quadrants.",
        "torch.atan2(self, other)",
        {"self": "grad * other / (self**2 + other**2)", "other": "-grad * self / (self**2 + other**2)"},
        symbols={"self": "a"},
        traps=(
            Trap(
                "At the origin there is no angle; torch gives the gradient 0, older releases gave NaN.",
                "a = torch.tensor([0.0], requires_grad=True)\ntorch.atan2(a, torch.tensor([0.0])).backward()\na.grad",
                "[0.0]",
            ),
        ),
    ),
    PlainFormula(
        "SinhBackward0",
        "The hyperbolic sine.",
        "torch.sinh(self)",
        {"self": "grad * torch.cosh(self).conj()"},
        forward="(torch.exp(self) - torch.exp(-self)) / 2",
        holds_for_complex=True,
    ),
    PlainFormula(
        "CoshBackward0",
        "The hyperbolic cosine.",
        "torch.cosh(self)",
        {"self": "grad * torch.sinh(self).conj()"},
        forward="(torch.exp(self) + torch.exp(-self)) / 2",
        holds_for_complex=True,
    ),
    PlainFormula(
        "TanhBackward0",
        "The hyperbolic tangent, which squeezes into −1 to 1.",
        "torch.tanh(self)",
        {"self": "grad * (1 - result**2).conj()"},
        holds_for_complex=True,
        traps=(
            Trap(
                "Far from 0 a float32 rounds it to 1, and the gradient is exactly 0: nothing is learnt from there.",
                "x = torch.tensor([10.0], requires_grad=True)\ntorch.tanh(x).backward()\nx.grad",
                "[0.0]",
            ),
        ),
    ),
    PlainFormula(
        "AsinhBackward0",
        "The inverse of the hyperbolic sine.",
        "torch.asinh(self)",
        {"self": "grad / torch.sqrt(self**2 + 1).conj()"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "AcoshBackward0",
        "The inverse of the hyperbolic cosine, from 1 upwards.",
        "torch.acosh(self)",
        {"self": "grad / torch.sqrt(self**2 - 1)"},
    ),
    PlainFormula(
        "AtanhBackward0",
        "The inverse of the hyperbolic tangent, between −1 and 1.",
        "torch.atanh(self)",
        {"self": "grad / (1 - self**2).conj()"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "ErfBackward0",
        "The error function, in the normal distribution and in the exact GELU.",
        "torch.erf(self)",
        {"self": "2 / math.sqrt(math.pi) * grad * torch.exp(-(self**2))"},
    ),
    PlainFormula(
        "ErfcBackward0",
        "1 − erf(x), exact where that is small.",
        "torch.erfc(self)",
        {"self": "-2 / math.sqrt(math.pi) * grad * torch.exp(-(self**2))"},
        forward="1 - torch.erf(self)",
    ),
    PlainFormula(
        "ErfinvBackward0",
        "The inverse of the error function, between −1 and 1.",
        "torch.erfinv(self)",
        {"self": "math.sqrt(math.pi) / 2 * grad * torch.exp(result**2)"},
    ),
    PlainFormula(
        "LgammaBackward0",
        "The logarithm of the gamma function.",
        "torch.lgamma(self)",
        {"self": "grad * torch.digamma(self)"},
    ),
    PlainFormula(
        "DigammaBackward0",
        "The slope of lgamma.",
        "torch.digamma(self)",
        {"self": "grad * torch.polygamma(1, self)"},
    ),
    PlainFormula(
        "SincBackward0",
        "sin(πx) / (πx), and 1 at 0.",
        "torch.sinc(self)",
        {"self": "grad * (torch.cos(math.pi * self) - result) / self"},
        forward="torch.sin(math.pi * self) / (math.pi * self)",
        traps=(
            Trap(
                "At 0, where the formula reads 0 / 0, the gradient is 0.",
                "x = torch.tensor([0.0], requires_grad=True)\ntorch.sinc(x).backward()\nx.grad",
                "[0.0]",
            ),
        ),
    ),
    PlainFormula(
        "Deg2RadBackward0",
        "Degrees to radians.",
        "torch.deg2rad(self)",
        {"self": "math.pi / 180 * grad"},
        forward="math.pi / 180 * self",
    ),
    PlainFormula(
        "Rad2DegBackward0",
        "Radians to degrees.",
        "torch.rad2deg(self)",
        {"self": "180 / math.pi * grad"},
        forward="180 / math.pi * self",
    ),
)
