"""Products of matrices, and what is solved or decomposed."""

from __future__ import annotations

from gradviz.formulas.plain.plain_formula import PlainFormula

LINEAR_ALGEBRA = (
    PlainFormula(
        "AddmmBackward0",
        "A matrix product plus a bias: what nn.Linear runs on rows.",
        "torch.addmm(self, mat1, mat2, beta=beta, alpha=alpha)",
        {"self": "beta * grad", "mat1": "alpha * (grad @ mat2.mH)", "mat2": "alpha * (mat1.mH @ grad)"},
        forward="beta * self + alpha * (mat1 @ mat2)",
        symbols={"self": "b"},
        holds_for_complex=True,
        note="α and β are 1 in nn.Linear, whose B is its weight, transposed.",
    ),
)
