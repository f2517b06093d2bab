"""Products of matrices and vectors, and distances."""

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
)
