"""Sums, products and quotients, element by element."""

from __future__ import annotations

from gradviz.formulas.plain.plain_formula import PlainFormula, Trap

_TWO = {"self": "a", "other": "b"}
_THREE = {"self": "a", "tensor1": "b", "tensor2": "c", "value": "v"}

ARITHMETIC = (
    PlainFormula(
        "AddBackward0",
        "Two tensors added, as a bias is, or the two branches of a residual connection.",
        "torch.add(self, other, alpha=alpha)",
        {"self": "grad", "other": "alpha * grad"},
        forward="self + alpha * other",
        symbols=_TWO,
        usual={"alpha": 1},
        holds_for_complex=True,
        traps=(
            Trap(
                "A bias that was broadcast over rows gets the sum over them, not the gradient of one row.",
                "bias = torch.zeros(2, requires_grad=True)\n(torch.ones(3, 2) + bias).sum().backward()\nbias.grad",
                "[3.0, 3.0]",
            ),
            Trap(
                "(3,) and (3, 1) broadcast to (3, 3): a loss over such a difference is wrong, and nothing says so.",
                "(torch.ones(3) + torch.ones(3, 1)).shape",
                "[3, 3]",
            ),
        ),
    ),
    PlainFormula(
        "SubBackward0",
        "The difference of two tensors.",
        "torch.sub(self, other, alpha=alpha)",
        {"self": "grad", "other": "-alpha * grad"},
        forward="self - alpha * other",
        symbols=_TWO,
        usual={"alpha": 1},
        holds_for_complex=True,
    ),
    PlainFormula(
        "RsubBackward1",
        "A number minus a tensor, as in 1 - x.",
        "torch.rsub(self, other, alpha)",
        {"self": "-alpha * grad"},
        forward="other - alpha * self",
        usual={"alpha": 1},
        holds_for_complex=True,
    ),
    PlainFormula(
        "MulBackward0",
        "Two tensors multiplied element by element: each gets the gradient times the other.",
        "self * other",
        {"self": "grad * other.conj()", "other": "grad * self.conj()"},
        symbols=_TWO,
        holds_for_complex=True,
        traps=(
            Trap(
                "Both factors of x * x count: the engine adds their gradients.",
                "x = torch.tensor([3.0], requires_grad=True)\n(x * x).backward()\nx.grad",
                "[6.0]",
            ),
            Trap(
                "A factor of 0 stops the gradient of the other, but not one that is already infinite: 0 · ∞ is NaN.",
                "x = torch.tensor([0.0], requires_grad=True)\n(x.sqrt() * 0).backward()\nx.grad",
                "[nan]",
            ),
        ),
    ),
    PlainFormula(
        "DivBackward0",
        "One tensor divided by another, element by element.",
        "self / other",
        {"self": "grad / other.conj()", "other": "-grad * (result / other).conj()"},
        symbols=_TWO,
        holds_for_complex=True,
        traps=(
            Trap(
                "Where a divisor of 0 is masked out afterwards, its gradient is NaN all the same: 0 · ∞.",
                "x = torch.tensor([0.0, 2.0], requires_grad=True)\n"
                "torch.where(x > 0, 1 / x, 0.0).sum().backward()\n"
                "x.grad",
                "[nan, -0.25]",
            ),
        ),
    ),
    PlainFormula(
        "NegBackward0",
        "The sign changed.",
        "-self",
        {"self": "-grad"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "ReciprocalBackward0",
        "One divided by a tensor, element by element.",
        "torch.reciprocal(self)",
        {"self": "-grad * (result**2).conj()"},
        forward="1 / self",
        holds_for_complex=True,
    ),
    PlainFormula(
        "AddBackward1",
        "A number added inside of torch's own functions; in scripts, numbers are tensors to AddBackward0.",
        "torch.ops.aten.add.Scalar(self, other, alpha)",
        {"self": "grad"},
        forward="self + alpha * other",
        usual={"alpha": 1},
        holds_for_complex=True,
    ),
    PlainFormula(
        "MulBackward1",
        "Multiplied by a number inside of torch's own functions, as attention scales its queries.",
        "torch.ops.aten.mul.Scalar(self, other)",
        {"self": "other * grad"},
        forward="other * self",
        holds_for_complex=True,
    ),
    PlainFormula(
        "DivBackward1",
        "Divided by a number inside of torch's own functions.",
        "torch.ops.aten.div.Scalar(self, other)",
        {"self": "grad / other"},
        forward="self / other",
        holds_for_complex=True,
    ),
    PlainFormula(
        "RsubBackward0",
        "The difference of two tensors, the second minus the first.",
        "torch.rsub(self, other, alpha=alpha)",
        {"self": "-alpha * grad", "other": "grad"},
        forward="other - alpha * self",
        symbols=_TWO,
        usual={"alpha": 1},
        holds_for_complex=True,
    ),
    PlainFormula(
        "LerpBackward0",
        "A mixture of two tensors, by one number.",
        "torch.lerp(self, end, weight)",
        {"self": "(1 - weight) * grad", "end": "weight * grad"},
        forward="self + weight * (end - self)",
        symbols={"self": "a", "end": "b", "weight": "w"},
    ),
    PlainFormula(
        "LerpBackward1",
        "A mixture of two tensors, element by element.",
        "torch.lerp(self, end, weight)",
        {
            "self": "grad * (1 - weight).conj()",
            "end": "grad * weight.conj()",
            "weight": "grad * (end - self).conj()",
        },
        forward="self + weight * (end - self)",
        symbols={"self": "a", "end": "b", "weight": "w"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "AddcmulBackward0",
        "The product of two tensors added to a third, as optimizers do.",
        "torch.addcmul(self, tensor1, tensor2, value=value)",
        {
            "self": "grad",
            "tensor1": "value * grad * tensor2.conj()",
            "tensor2": "value * grad * tensor1.conj()",
        },
        forward="self + value * tensor1 * tensor2",
        symbols=_THREE,
        usual={"value": 1},
        holds_for_complex=True,
    ),
    PlainFormula(
        "AddcdivBackward0",
        "The quotient of two tensors added to a third, as optimizers do.",
        "torch.addcdiv(self, tensor1, tensor2, value=value)",
        {
            "self": "grad",
            "tensor1": "value * grad / tensor2.conj()",
            "tensor2": "-value * grad * (tensor1 / tensor2**2).conj()",
        },
        forward="self + value * tensor1 / tensor2",
        symbols=_THREE,
        usual={"value": 1},
        holds_for_complex=True,
    ),
    PlainFormula(
        "HypotBackward0",
        "The length of the longest side of a right-angled triangle.",
        "torch.hypot(self, other)",
        {"self": "grad * self / result", "other": "grad * other / result"},
        forward="torch.sqrt(self**2 + other**2)",
        symbols=_TWO,
    ),
)
