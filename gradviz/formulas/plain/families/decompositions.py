"""Determinants, inverses, systems of equations, and matrix decompositions."""

from __future__ import annotations

from gradviz.formulas.plain.plain_formula import PlainFormula, Trap

DECOMPOSITIONS = (
    PlainFormula(
        "LinalgDetBackward0",
        "The determinant.",
        "torch.linalg.det(A)",
        {"A": "(grad * result.conj()).unsqueeze(-1).unsqueeze(-1) * torch.linalg.inv(A).mH"},
        forward="torch.linalg.det(A)",
        holds_for_complex=True,
    ),
    PlainFormula(
        "LinalgSlogdetBackward0",
        "The logarithm of the absolute value of the determinant.",
        "torch.linalg.slogdet(A)",
        {"A": "grads[1].unsqueeze(-1).unsqueeze(-1) * torch.linalg.inv(A).mH"},
        outputs=("sign", "logabsdet"),
        symbols={"logabsdet": "y"},
    ),
    PlainFormula(
        "LinalgInvExBackward0",
        "The inverse of a matrix.",
        "torch.linalg.inv(A)",
        {"A": "-(inverse.mH @ grad @ inverse.mH)"},
        outputs=("inverse",),
        symbols={"inverse": "Y"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "LinalgSolveExBackward0",
        "The X that solves A X = B, better than an inverse.",
        "torch.linalg.solve(A, B)",
        {"A": "-(columns(S, A) @ columns(result, A).mH)", "B": "S"},
        where={"S": "torch.linalg.solve(A.mH, grad)"},
        symbols={"result": "X"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "LinalgSolveTriangularBackward0",
        "The X that solves A X = B, A being triangular.",
        "torch.linalg.solve_triangular(self, B, upper=upper)",
        {
            "self": "-torch.triu(at_right @ result.mH) if upper else -torch.tril(at_right @ result.mH)",
            "B": "at_right",
        },
        forward="torch.linalg.inv(torch.triu(self) if upper else torch.tril(self)) @ B",
        where={"at_right": "torch.linalg.solve_triangular(self.mH, grad, upper=not upper)"},
        usual={"upper": False},
        symbols={"self": "A", "result": "X", "at_right": "S"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "LinalgCholeskyExBackward0",
        "The triangle L with L Lᴴ = A, the root of a covariance.",
        "torch.linalg.cholesky(self, upper=upper)",
        {"self": "inverse.mH @ (half + half.mH) @ inverse / 2"},
        where={
            "lower": "L.mH if upper else L",
            "at_lower": "grad.mH if upper else grad",
            "inverse": "torch.linalg.inv(lower)",
            "product": "torch.tril(lower.mH @ at_lower)",
            "half": "product - product * torch.eye(self.size(-1), dtype=self.dtype) / 2",
        },
        usual={"upper": False},
        outputs=("L",),
        symbols={
            "self": "A",
            "L": "Y",
            "lower": "L",
            "at_lower": "L̄",
            "inverse": "R",
            "product": "T",
            "half": "H",
        },
        note="R is the inverse of L; H is T with half its diagonal. The gradient is symmetric, as A is.",
        traps=(
            Trap(
                "Only the lower half of A is read, but the gradient is given to both halves.",
                "a = torch.eye(2).requires_grad_()\ntorch.linalg.cholesky(a)[1, 0].backward()\na.grad",
                "[[0.0, 0.5], [0.5, 0.0]]",
            ),
        ),
    ),
    PlainFormula(
        "LinalgEighBackward0",
        "Eigenvalues and eigenvectors of a symmetric matrix.",
        "torch.linalg.eigh(A)",
        {"A": "(change + change.mH) / 2"},
        where={
            "gaps": "row(eigenvalues) - column(eigenvalues) + torch.eye(A.size(-1), dtype=A.dtype)",
            "turning": "(1 - torch.eye(A.size(-1), dtype=A.dtype)) * (eigenvectors.mH @ grads[1]) / gaps",
            "change": "eigenvectors @ (torch.diag_embed(grads[0]) + turning) @ eigenvectors.mH",
        },
        outputs=("eigenvalues", "eigenvectors"),
        symbols={
            "eigenvalues": "λ",
            "eigenvectors": "V",
            "gaps": "G",
            "turning": "T",
            "change": "C",
        },
        note="G holds the differences of all pairs of eigenvalues, λⱼ − λᵢ, and 1 on the diagonal.",
        traps=(
            Trap(
                "Equal eigenvalues have no definite eigenvectors: their gradient divides by 0.",
                "a = torch.eye(2).requires_grad_()\n"
                "values, vectors = torch.linalg.eigh(a)\n"
                "(vectors * torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()\n"
                "bool(a.grad.isfinite().all())",
                "False",
            ),
        ),
    ),
    PlainFormula(
        "LinalgQrBackward0",
        "A matrix as a product of an orthogonal and a triangular one.",
        "torch.linalg.qr(A)",
        {"A": "(grads[0] + Q @ (torch.tril(M) + torch.tril(M, -1).mH)) @ torch.linalg.inv(R).mH"},
        where={"M": "R @ grads[1].mH - grads[0].mH @ Q"},
        outputs=("Q", "R"),
        note="For matrices with at least as many rows as columns. tril(M, −1) is without the diagonal.",
    ),
    PlainFormula(
        "LinalgSvdBackward0",
        "Singular values and vectors.",
        "torch.linalg.svd(A, full_matrices=False)",
        {"A": "inside + outside_left + outside_right"},
        where={
            "V": "Vh.mH",
            "at_V": "grads[2].mH",
            "inverse": "torch.diag_embed(1 / S)",
            "gaps": "row(S) ** 2 - column(S) ** 2 + torch.eye(S.size(-1), dtype=A.dtype)",
            "turning_U": "(1 - torch.eye(S.size(-1), dtype=A.dtype)) * (U.mH @ grads[0] - grads[0].mH @ U) / gaps",
            "turning_V": "(1 - torch.eye(S.size(-1), dtype=A.dtype)) * (V.mH @ at_V - at_V.mH @ V) / gaps",
            "inside": "U @ (turning_U @ torch.diag_embed(S) + torch.diag_embed(grads[1]) "
            "+ torch.diag_embed(S) @ turning_V) @ V.mH",
            "outside_left": "(grads[0] - U @ (U.mH @ grads[0])) @ inverse @ V.mH",
            "outside_right": "U @ inverse @ (at_V - V @ (V.mH @ at_V)).mH",
        },
        outputs=("U", "S", "Vh"),
        symbols={
            "S": "s",
            "Vh": "W",
            "at_V": "V̄",
            "inverse": "D",
            "gaps": "G",
            "turning_U": "T",
            "turning_V": "T′",
            "inside": "C",
            "outside_left": "L",
            "outside_right": "R",
        },
        note="Singular values alone get U diag(s̄) W. T and T′ divide by differences of "
        "squared singular values, which makes gradients of vectors large where two are close.",
        traps=(
            Trap(
                "Singular values alone have gradients also where they are equal.",
                "a = torch.eye(2).requires_grad_()\ntorch.linalg.svdvals(a).sum().backward()\na.grad",
                "[[1.0, 0.0], [0.0, 1.0]]",
            ),
            Trap(
                "Equal singular values have no definite vectors: their gradient divides by 0.",
                "a = torch.eye(2).requires_grad_()\n"
                "u, s, v = torch.linalg.svd(a)\n"
                "(u @ v * torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()\n"
                "bool(a.grad.isfinite().all())",
                "False",
            ),
        ),
    ),
    PlainFormula(
        "LinalgPinvBackward0",
        "The pseudo-inverse, which solves least squares.",
        "torch.linalg.pinv(self)",
        {
            "self": "-(result.mH @ grad @ result.mH) + (grad.mH - self @ (result @ grad.mH)) @ result @ result.mH"
            " + result.mH @ result @ (grad.mH - (grad.mH @ result) @ self)"
        },
        symbols={"self": "A", "result": "Y"},
        holds_for_complex=True,
    ),
)
