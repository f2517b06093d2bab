"""Rounding, remainders and signs: step functions without slope."""

from __future__ import annotations

from gradviz.formulas.plain.plain_formula import PlainFormula, Trap

_TWO = {"self": "a", "other": "b"}


def _rounding(node: str, sentence: str, call: str, *traps: Trap, others: tuple[str, ...] = ()) -> PlainFormula:
    return PlainFormula(
        node,
        sentence,
        call,
        dict.fromkeys(("self", *others), "torch.zeros_like(grad)"),
        note="A step function is flat between its steps: whatever comes before it learns nothing from behind it.",
        traps=traps,
    )


ROUNDING = (
    PlainFormula(
        "CopysignBackward0",
        "The size of one tensor with the sign of another.",
        "torch.copysign(self, other)",
        {"self": "grad * torch.sign(self) * torch.sign(result)", "other": "torch.zeros_like(grad)"},
        forward="torch.abs(self) * torch.sign(other)",
        symbols=_TWO,
    ),
    _rounding(
        "DivBackward2",
        "A quotient rounded down, or towards 0.",
        "torch.div(self, other, rounding_mode=rounding_mode)",
        Trap(
            "The operator // makes a node that raises in backward, where torch.div gives 0.",
            "x = torch.ones(2, requires_grad=True)\n(x // 2).grad_fn.name()",
            "'torch::autograd::NotImplemented'",
        ),
        others=("other",),
    ),
    _rounding(
        "RoundBackward0",
        "Rounded to whole numbers.",
        "torch.round(self)",
        Trap(
            "To let a gradient through, as quantization does, add the rounding as a constant.",
            "x = torch.tensor([1.4], requires_grad=True)\n(x + (x.round() - x).detach()).backward()\nx.grad",
            "[1.0]",
        ),
    ),
    _rounding("FloorBackward0", "Rounded down.", "torch.floor(self)"),
    _rounding("CeilBackward0", "Rounded up.", "torch.ceil(self)"),
    _rounding("TruncBackward0", "Rounded towards 0.", "torch.trunc(self)"),
    _rounding("SignBackward0", "−1, 0 or 1.", "torch.sign(self)"),
    PlainFormula(
        "FracBackward0",
        "What is behind the decimal point.",
        "torch.frac(self)",
        {"self": "grad"},
        forward="self - torch.trunc(self)",
    ),
    PlainFormula(
        "FmodBackward0",
        "The rest of a division by a number, with the sign of the dividend.",
        "torch.fmod(self, other)",
        {"self": "grad"},
        forward="self - other * torch.trunc(self / other)",
    ),
    PlainFormula(
        "FmodBackward1",
        "The rest of a division by a tensor, with the sign of the dividend.",
        "torch.fmod(self, other)",
        {"self": "grad", "other": "-grad * torch.trunc(self / other)"},
        forward="self - other * torch.trunc(self / other)",
        symbols=_TWO,
    ),
    PlainFormula(
        "RemainderBackward0",
        "The rest of a division by a number, with the sign of the divisor.",
        "torch.remainder(self, other)",
        {"self": "grad"},
        forward="self - other * torch.floor(self / other)",
    ),
    PlainFormula(
        "RemainderBackward1",
        "The rest of a division by a tensor.",
        "torch.remainder(self, other)",
        {"self": "grad", "other": "-grad * torch.floor(self / other)"},
        forward="self - other * torch.floor(self / other)",
        symbols=_TWO,
    ),
)
