"""Products of matrices and vectors, distances, and what is solved or decomposed."""

from __future__ import annotations

from gradviz.formulas.plain.plain_formula import PlainFormula, Trap

_PRODUCT = {"self": "grad @ mat2.mH", "mat2": "self.mH @ grad"}
_MATRICES = {"self": "A", "mat2": "B", "result": "Y"}

LINEAR_ALGEBRA = (
    PlainFormula(
        "MmBackward0",
        "The product of two matrices, as nn.Linear without a bias runs it.",
        "torch.mm(self, mat2)",
        _PRODUCT,
        forward="self @ mat2",
        symbols=_MATRICES,
        holds_for_complex=True,
    ),
    PlainFormula(
        "BmmBackward0",
        "Products of matrices, one for each entry of a batch: the inside of matmul and einsum.",
        "torch.bmm(self, mat2)",
        _PRODUCT,
        forward="self @ mat2",
        symbols=_MATRICES,
        holds_for_complex=True,
    ),
    PlainFormula(
        "AddmmBackward0",
        "A matrix product plus a bias: what nn.Linear runs on rows.",
        "torch.addmm(self, mat1, mat2, beta=beta, alpha=alpha)",
        {
            "self": "(beta.conjugate() * grad).sum_to_size(self.shape)",
            "mat1": "alpha.conjugate() * (grad @ mat2.mH)",
            "mat2": "alpha.conjugate() * (mat1.mH @ grad)",
        },
        forward="beta * self + alpha * (mat1 @ mat2)",
        symbols={"self": "b", "result": "Y"},
        usual={"alpha": 1, "beta": 1},
        holds_for_complex=True,
        note="B is the weight of nn.Linear, transposed.",
    ),
    PlainFormula(
        "BaddbmmBackward0",
        "Products of matrices for each entry of a batch, plus a tensor.",
        "torch.baddbmm(self, batch1, batch2, beta=beta, alpha=alpha)",
        {
            "self": "beta.conjugate() * grad",
            "batch1": "alpha.conjugate() * (grad @ batch2.mH)",
            "batch2": "alpha.conjugate() * (batch1.mH @ grad)",
        },
        forward="beta * self + alpha * (batch1 @ batch2)",
        symbols={"self": "C", "batch1": "A", "batch2": "B", "result": "Y"},
        usual={"alpha": 1, "beta": 1},
        holds_for_complex=True,
    ),
    PlainFormula(
        "AddbmmBackward0",
        "The sum of the matrix products of a batch, plus a matrix.",
        "torch.addbmm(self, batch1, batch2, beta=beta, alpha=alpha)",
        {
            "self": "beta.conjugate() * grad",
            "batch1": "alpha.conjugate() * (grad @ batch2.mH)",
            "batch2": "alpha.conjugate() * (batch1.mH @ grad)",
        },
        forward="beta * self + alpha * (batch1 @ batch2).sum(0)",
        symbols={"self": "C", "batch1": "A", "batch2": "B", "result": "Y"},
        usual={"alpha": 1, "beta": 1},
        holds_for_complex=True,
    ),
    PlainFormula(
        "MvBackward0",
        "A matrix times a vector.",
        "torch.mv(self, vec)",
        {"self": "torch.outer(grad, vec.conj())", "vec": "self.mH @ grad"},
        forward="self @ vec",
        symbols={"self": "A"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "AddmvBackward0",
        "A matrix times a vector, plus a vector.",
        "torch.addmv(self, mat, vec, beta=beta, alpha=alpha)",
        {
            "self": "beta.conjugate() * grad",
            "mat": "alpha.conjugate() * torch.outer(grad, vec.conj())",
            "vec": "alpha.conjugate() * (mat.mH @ grad)",
        },
        forward="beta * self + alpha * (mat @ vec)",
        symbols={"self": "b", "mat": "A"},
        usual={"alpha": 1, "beta": 1},
        holds_for_complex=True,
    ),
    PlainFormula(
        "DotBackward0",
        "The inner product of two vectors.",
        "torch.dot(self, tensor)",
        {"self": "grad * tensor.conj()", "tensor": "grad * self.conj()"},
        forward="(self * tensor).sum()",
        symbols={"self": "a", "tensor": "b"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "VdotBackward0",
        "The inner product of two vectors, the first conjugated.",
        "torch.vdot(self, other)",
        {"self": "grad.conj() * other", "other": "grad * self"},
        forward="(self.conj() * other).sum()",
        symbols={"self": "a"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "GroupedMmBackward0",
        "Rows in groups, each group times its own matrix, as mixtures of experts run it.",
        "torch._grouped_mm(self, mat2, offs=offs)",
        {
            "self": "(grad.unsqueeze(1) @ mat2[group].mH).squeeze(1)",
            "mat2": "torch.zeros_like(mat2).index_add(0, group, self.unsqueeze(2) @ grad.unsqueeze(1))",
        },
        where={"group": "(column(torch.arange(self.size(0))) >= offs).sum(-1)"},
        symbols={"self": "x", "mat2": "W", "group": "group"},
        note="W[group] is the matrix of each row; group follows from where groups end (offs).",
    ),
    PlainFormula(
        "LinalgCrossBackward0",
        "The cross product of vectors of three.",
        "torch.linalg.cross(self, other, dim=dim)",
        {
            "self": "torch.linalg.cross(other.conj(), grad, dim=dim)",
            "other": "torch.linalg.cross(grad, self.conj(), dim=dim)",
        },
        symbols={"self": "a"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "CdistBackward0",
        "The distances of every row to every other.",
        "torch.ops.aten._cdist_forward(x1, x2, p, None)",
        {"x1": "slopes.sum(-2)", "x2": "-slopes.sum(-3)"},
        forward="(torch.abs(apart) ** p).sum(-1) ** (1 / p)",
        where={
            "apart": "x1.unsqueeze(-2) - x2.unsqueeze(-3)",
            "slopes": "grad.unsqueeze(-1) * torch.sgn(apart) * (torch.abs(apart) / result.unsqueeze(-1)) ** (p - 1)",
        },
        symbols={"x1": "a", "x2": "b", "apart": "d", "slopes": "s"},
        note="d holds the differences of all pairs. For p = 2, s is ȳ ∘ d / y.",
        traps=(
            Trap(
                "Of equal rows the distance has no slope; torch gives 0.",
                "a = torch.zeros(1, 2, requires_grad=True)\ntorch.cdist(a, torch.zeros(1, 2)).backward()\na.grad",
                "[[0.0, 0.0]]",
            ),
        ),
    ),
    PlainFormula(
        "DistBackward0",
        "The distance of two tensors.",
        "torch.dist(self, other, p)",
        {"self": "slope", "other": "-slope"},
        forward="(torch.abs(self - other) ** p).sum() ** (1 / p)",
        where={"slope": "grad * torch.sgn(self - other) * (torch.abs(self - other) / result) ** (p - 1)"},
        symbols={"self": "a", "slope": "s"},
        note="For p = 2, s is ȳ ∘ (a − b) / y.",
    ),
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
