"""Powers, exponentials and logarithms, element by element."""

from __future__ import annotations

from gradviz.formulas.plain.plain_formula import PlainFormula, Trap

EXPONENTIALS = (
    PlainFormula(
        "ExpBackward0",
        "e to the power of each element: its own derivative.",
        "torch.exp(self)",
        {"self": "grad * result.conj()"},
        holds_for_complex=True,
        traps=(
            Trap(
                "Above 88 a float32 overflows, and its gradient with it.",
                "x = torch.tensor([89.0], requires_grad=True)\ntorch.exp(x).backward()\nx.grad",
                "[inf]",
            ),
        ),
    ),
    PlainFormula(
        "Exp2Backward0",
        "2 to the power of each element.",
        "torch.exp2(self)",
        {"self": "math.log(2) * grad * result.conj()"},
        forward="2**self",
        holds_for_complex=True,
    ),
    PlainFormula(
        "Expm1Backward0",
        "exp(x) − 1, exact for small x.",
        "torch.expm1(self)",
        {"self": "grad * (result + 1).conj()"},
        forward="torch.exp(self) - 1",
        holds_for_complex=True,
    ),
    PlainFormula(
        "LogBackward0",
        "The natural logarithm.",
        "torch.log(self)",
        {"self": "grad / self.conj()"},
        holds_for_complex=True,
        traps=(
            Trap(
                "At 0 the value is −∞ and the slope ∞.",
                "x = torch.tensor([0.0], requires_grad=True)\ntorch.log(x).backward()\nx.grad",
                "[inf]",
            ),
            Trap(
                "Below 0 the value is NaN, yet the gradient is a number: a NaN loss need not show in gradients.",
                "x = torch.tensor([-2.0], requires_grad=True)\ntorch.log(x).backward()\nx.grad",
                "[-0.5]",
            ),
            Trap(
                "The logarithm of a softmax whose entry became 0 gives NaN; log_softmax does not.",
                "x = torch.tensor([0.0, 200.0], requires_grad=True)\n"
                "torch.log(torch.softmax(x, 0))[0].backward()\n"
                "x.grad",
                "[nan, nan]",
            ),
        ),
    ),
    PlainFormula(
        "Log2Backward0",
        "The logarithm to base 2.",
        "torch.log2(self)",
        {"self": "grad / (math.log(2) * self.conj())"},
        forward="torch.log(self) / math.log(2)",
        holds_for_complex=True,
    ),
    PlainFormula(
        "Log10Backward0",
        "The logarithm to base 10.",
        "torch.log10(self)",
        {"self": "grad / (math.log(10) * self.conj())"},
        forward="torch.log(self) / math.log(10)",
        holds_for_complex=True,
    ),
    PlainFormula(
        "Log1PBackward0",
        "log(1 + x), exact for small x.",
        "torch.log1p(self)",
        {"self": "grad / (1 + self).conj()"},
        forward="torch.log(1 + self)",
        holds_for_complex=True,
    ),
    PlainFormula(
        "SqrtBackward0",
        "The square root.",
        "torch.sqrt(self)",
        {"self": "grad / (2 * result.conj())"},
        holds_for_complex=True,
        traps=(
            Trap(
                "At 0 the slope is infinite.",
                "x = torch.tensor([0.0, 4.0], requires_grad=True)\nx.sqrt().sum().backward()\nx.grad",
                "[inf, 0.25]",
            ),
            Trap(
                "A length of 0 that is computed by hand has the gradient 0 · ∞ = NaN; torch.linalg.norm gives 0.",
                "x = torch.zeros(2, requires_grad=True)\n(x * x).sum().sqrt().backward()\nx.grad",
                "[nan, nan]",
            ),
        ),
    ),
    PlainFormula(
        "RsqrtBackward0",
        "One divided by the square root, as normalisations do.",
        "torch.rsqrt(self)",
        {"self": "-grad * (result**3).conj() / 2"},
        forward="1 / torch.sqrt(self)",
        holds_for_complex=True,
        traps=(
            Trap(
                "At 0 the slope is −∞: add a small number under the root.",
                "x = torch.tensor([0.0], requires_grad=True)\nx.rsqrt().backward()\nx.grad",
                "[-inf]",
            ),
        ),
    ),
    PlainFormula(
        "PowBackward0",
        "Each element to the power of one number.",
        "self**exponent",
        {"self": "grad * (exponent * self ** (exponent - 1)).conj()"},
        holds_for_complex=True,
        traps=(
            Trap(
                "A power below 1 has an infinite slope at 0.",
                "x = torch.tensor([0.0], requires_grad=True)\n(x**0.5).backward()\nx.grad",
                "[inf]",
            ),
            Trap(
                "x ** 0 has the gradient 0 also at 0, where the formula reads 0 · ∞.",
                "x = torch.tensor([0.0], requires_grad=True)\n(x**0).backward()\nx.grad",
                "[0.0]",
            ),
        ),
    ),
    PlainFormula(
        "PowBackward1",
        "Each element to the power of an element.",
        "torch.pow(self, exponent)",
        {
            "self": "grad * (exponent * self ** (exponent - 1)).conj()",
            "exponent": "grad * (result * torch.log(self)).conj()",
        },
        forward="self**exponent",
        holds_for_complex=True,
        traps=(
            Trap(
                "The exponent of a negative base has no real derivative: NaN, though the value is fine.",
                "p = torch.tensor([2.0], requires_grad=True)\n(torch.tensor([-3.0]) ** p).backward()\np.grad",
                "[nan]",
            ),
            Trap(
                "Over the base 0 the exponent gets 0, where the formula reads 0 · (−∞).",
                "p = torch.tensor([2.0], requires_grad=True)\n(torch.tensor([0.0]) ** p).backward()\np.grad",
                "[0.0]",
            ),
        ),
    ),
    PlainFormula(
        "PowBackward2",
        "One number to the power of each element.",
        "torch.pow(self, exponent)",
        {"exponent": "grad * (result * math.log(self)).conj()"},
        forward="self**exponent",
        symbols={"self": "a"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "LogaddexpBackward0",
        "log(exp(a) + exp(b)) without overflow.",
        "torch.logaddexp(self, other)",
        {"self": "grad * torch.sigmoid(self - other)", "other": "grad * torch.sigmoid(other - self)"},
        forward="torch.log(torch.exp(self) + torch.exp(other))",
        symbols={"self": "a"},
    ),
    PlainFormula(
        "XlogyBackward0",
        "a log(b), and 0 where a is 0.",
        "torch.xlogy(self, other)",
        {"self": "grad * torch.log(other)", "other": "grad * self / other"},
        forward="self * torch.log(other)",
        symbols={"self": "a"},
        traps=(
            Trap(
                "At a = b = 0 the value is 0, but b gets 0 / 0, which is NaN.",
                "b = torch.tensor([0.0], requires_grad=True)\ntorch.xlogy(torch.tensor([0.0]), b).backward()\nb.grad",
                "[nan]",
            ),
        ),
    ),
    PlainFormula(
        "XlogyBackward1",
        "A number times a logarithm.",
        "torch.xlogy(self, other)",
        {"other": "self * grad / other"},
        forward="self * torch.log(other)",
        symbols={"self": "a"},
    ),
    PlainFormula(
        "XlogyBackward2",
        "A tensor times the logarithm of a number.",
        "torch.xlogy(self, other)",
        {"self": "math.log(other) * grad"},
        forward="self * math.log(other)",
        symbols={"self": "a"},
    ),
    PlainFormula(
        "Logaddexp2Backward0",
        "The logarithm to base 2 of a sum of powers of 2.",
        "torch.logaddexp2(self, other)",
        {"self": "grad * 2 ** (self - result)", "other": "grad * 2 ** (other - result)"},
        forward="torch.log2(2**self + 2**other)",
        symbols={"self": "a"},
    ),
    PlainFormula(
        "LogitBackward0",
        "The inverse of a sigmoid: the logarithm of the odds.",
        "torch.logit(self, eps)",
        {"self": "grad * (clamped == self) / (self * (1 - self))"},
        forward="torch.log(clamped / (1 - clamped))",
        where={"clamped": "self if eps is None else torch.clamp(self, eps, 1 - eps)"},
        usual={"eps": None},
        symbols={"clamped": "z"},
        traps=(
            Trap(
                "At 0 and at 1 value and slope are infinite: logit(x, eps=...) stays inside.",
                "x = torch.tensor([0.0], requires_grad=True)\ntorch.logit(x).backward()\nx.grad",
                "[inf]",
            ),
        ),
    ),
    PlainFormula(
        "SpecialEntrBackward0",
        "−x log(x), the entropy of one probability.",
        "torch.special.entr(self)",
        {"self": "grad * (-torch.log(self) - 1)"},
        forward="-self * torch.log(self)",
        traps=(
            Trap(
                "At 0 the value is 0, but the slope is infinite.",
                "x = torch.tensor([0.0], requires_grad=True)\ntorch.special.entr(x).backward()\nx.grad",
                "[inf]",
            ),
        ),
    ),
)
