"""Reductions: sums, means, spreads, norms, and cumulative sums."""

from __future__ import annotations

from gradviz.formulas.plain.plain_formula import PlainFormula, Trap

_COUNT = {"n": "self.numel() / result.numel()"}


_CORRECTION = {"c": "1 if correction is None else correction"}


REDUCTIONS = (
    PlainFormula(
        "SumBackward0",
        "The sum of all elements: each gets the whole gradient.",
        "self.sum()",
        {"self": "grad * torch.ones_like(self)"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "SumBackward1",
        "The sum along dimensions: the gradient is repeated along them.",
        "self.sum(dim, keepdim=keepdim)",
        {"self": "unreduced(grad, self, dim) * torch.ones_like(self)"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "MeanBackward0",
        "The mean of all elements: each gets an equal part of the gradient.",
        "self.mean()",
        {"self": "grad * torch.ones_like(self) / n"},
        forward="self.sum() / n",
        where={"n": "self.numel()"},
        holds_for_complex=True,
        traps=(
            Trap(
                "The mean of nothing, as of an empty selection, is NaN: a loss of NaN with gradients of 0.",
                "x = torch.ones(3, requires_grad=True)\nx[x > 5].mean().backward()\nx.grad",
                "[0.0, 0.0, 0.0]",
            ),
        ),
    ),
    PlainFormula(
        "MeanBackward1",
        "The mean along dimensions.",
        "self.mean(dim, keepdim=keepdim)",
        {"self": "unreduced(grad, self, dim) * torch.ones_like(self) / n"},
        forward="self.sum(dim, keepdim=keepdim) / n",
        where=_COUNT,
        holds_for_complex=True,
    ),
    PlainFormula(
        "NansumBackward0",
        "The sum of what is not NaN.",
        "torch.nansum(self, dim, keepdim=keepdim)",
        {"self": "unreduced(grad, self, dim) * (~torch.isnan(self))"},
    ),
    PlainFormula(
        "ProdBackward0",
        "The product of all elements: each gets the product of the others.",
        "self.prod()",
        {"self": "grad * result / self"},
        note="Where an element is 0, torch multiplies the others instead of dividing by it.",
        traps=(
            Trap(
                "With one 0, only that element has a gradient; with two, none has.",
                "x = torch.tensor([0.0, 2.0, 3.0], requires_grad=True)\nx.prod().backward()\nx.grad",
                "[6.0, 0.0, 0.0]",
            ),
        ),
    ),
    PlainFormula(
        "ProdBackward1",
        "The product along a dimension.",
        "self.prod(dim, keepdim=keepdim)",
        {"self": "unreduced(grad, self, dim) * unreduced(result, self, dim) / self"},
        note="Where an element is 0, torch multiplies the others instead of dividing by it.",
    ),
    PlainFormula(
        "LogsumexpBackward0",
        "The logarithm of a sum of exponentials, a smooth maximum: its gradient is a softmax.",
        "torch.logsumexp(self, dim, keepdim=keepdim)",
        {"self": "unreduced(grad, self, dim) * torch.exp(self - unreduced(result, self, dim))"},
        forward="torch.log(torch.exp(self).sum(dim, keepdim=keepdim))",
    ),
    PlainFormula(
        "VarBackward0",
        "The variance: the mean of squared distances from the mean, one less in the divisor.",
        "torch.var(self, dim, correction=correction, keepdim=keepdim)",
        {"self": "2 * unreduced(grad, self, dim) * (self - mean) / (n - c)"},
        forward="torch.square(self - mean).sum(dim, keepdim=keepdim) / (n - c)",
        where={**_COUNT, **_CORRECTION, "mean": "self.mean(dim, keepdim=True)"},
        usual={"correction": 1},
        symbols={"mean": "μ"},
        traps=(
            Trap(
                "The variance of one element is 0 / 0: NaN, and its gradient too.",
                "x = torch.tensor([3.0], requires_grad=True)\n"
                "import warnings; warnings.simplefilter('ignore')\n"
                "torch.var(x).backward()\n"
                "x.grad",
                "[nan]",
            ),
        ),
    ),
    PlainFormula(
        "StdBackward0",
        "The standard deviation, the root of the variance.",
        "torch.std(self, dim, correction=correction, keepdim=keepdim)",
        {"self": "unreduced(grad / result, self, dim) * (self - mean) / (n - c)"},
        forward="torch.sqrt(torch.square(self - mean).sum(dim, keepdim=keepdim) / (n - c))",
        where={**_COUNT, **_CORRECTION, "mean": "self.mean(dim, keepdim=True)"},
        usual={"correction": 1},
        symbols={"mean": "μ"},
        traps=(
            Trap(
                "Of equal elements it is 0, and torch gives the gradient 0, though there is no slope.",
                "x = torch.ones(2, requires_grad=True)\ntorch.std(x).backward()\nx.grad",
                "[0.0, 0.0]",
            ),
            Trap(
                "The root of a variance of 0 gives 0 · ∞ = NaN where std does not.",
                "x = torch.ones(2, requires_grad=True)\ntorch.var(x).sqrt().backward()\nx.grad",
                "[nan, nan]",
            ),
        ),
    ),
    PlainFormula(
        "VarMeanBackward0",
        "Variance and mean at once.",
        "torch.var_mean(self, dim, correction=correction, keepdim=keepdim)",
        {"self": "2 * unreduced(grads[0], self, dim) * (self - mean) / (n - c) + unreduced(grads[1], self, dim) / n"},
        where={"n": "self.numel() / result0.numel()", **_CORRECTION, "mean": "unreduced(result1, self, dim)"},
        outputs=("result0", "result1"),
        usual={"correction": 1},
        symbols={"mean": "μ", "result0": "y₁", "result1": "y₂"},
    ),
    PlainFormula(
        "StdMeanBackward0",
        "Standard deviation and mean at once.",
        "torch.std_mean(self, dim, correction=correction, keepdim=keepdim)",
        {
            "self": "unreduced(grads[0] / result0, self, dim) * (self - mean) / (n - c)"
            " + unreduced(grads[1], self, dim) / n"
        },
        where={"n": "self.numel() / result0.numel()", **_CORRECTION, "mean": "unreduced(result1, self, dim)"},
        outputs=("result0", "result1"),
        usual={"correction": 1},
        symbols={"mean": "μ", "result0": "y₁", "result1": "y₂"},
    ),
    PlainFormula(
        "NormBackward0",
        "The length of all elements as one vector, by older functions.",
        "torch.ops.aten.norm(self, p)",
        {"self": "grad * torch.sgn(self) * (torch.abs(self) / result) ** (p - 1)"},
        forward="(torch.abs(self) ** p).sum() ** (1 / p)",
        holds_for_complex=True,
        note="For p = 2 that is ȳ ∘ x / y, and 0 where y is 0.",
        traps=(
            Trap(
                "At 0 the length has no slope; torch gives 0.",
                "x = torch.zeros(2, requires_grad=True)\ntorch.ops.aten.norm(x, 2).backward()\nx.grad",
                "[0.0, 0.0]",
            ),
        ),
    ),
    PlainFormula(
        "NormBackward1",
        "The length of vectors by older functions, as pairwise_distance runs it.",
        "torch.ops.aten.norm.ScalarOpt_dim(self, p, dim, keepdim)",
        {
            "self": "unreduced(grad, self, dim) * torch.sgn(self)"
            " * (torch.abs(self) / unreduced(result, self, dim)) ** (p - 1)"
        },
        forward="(torch.abs(self) ** p).sum(dim, keepdim=keepdim) ** (1 / p)",
        holds_for_complex=True,
        note="For p = 2 that is ȳ ∘ x / y, and 0 where y is 0.",
    ),
    PlainFormula(
        "LinalgVectorNormBackward0",
        "The length of vectors: torch.linalg.vector_norm and x.norm().",
        "torch.linalg.vector_norm(self, ord, dim, keepdim)",
        {
            "self": "unreduced(grad, self, dim) * torch.sgn(self)"
            " * (torch.abs(self) / unreduced(result, self, dim)) ** (ord - 1)"
        },
        forward="(torch.abs(self) ** ord).sum(dim, keepdim=keepdim) ** (1 / ord)",
        symbols={"ord": "p"},
        holds_for_complex=True,
        note="For p = 2 that is ȳ ∘ x / y.",
        traps=(
            Trap(
                "Of the largest of all absolute values (p = ∞) equal ones share the gradient.",
                "x = torch.ones(2, requires_grad=True)\ntorch.linalg.vector_norm(x, torch.inf).backward()\nx.grad",
                "[0.5, 0.5]",
            ),
            Trap(
                "At 0 the length has no slope; torch gives 0.",
                "x = torch.zeros(2, requires_grad=True)\ntorch.linalg.vector_norm(x).backward()\nx.grad",
                "[0.0, 0.0]",
            ),
        ),
    ),
    PlainFormula(
        "CumsumBackward0",
        "Running sums along a dimension: each element is in all sums from its position on.",
        "torch.cumsum(self, dim)",
        {"self": "running_sum_from_the_end(grad, dim)"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "CumprodBackward0",
        "Running products along a dimension.",
        "torch.cumprod(self, dim)",
        {"self": "running_sum_from_the_end(grad * result, dim) / self"},
        note="Where an element is 0, torch multiplies the others instead of dividing by it.",
        traps=(
            Trap(
                "Behind a 0 everything is 0, so the elements there have no gradient; the 0 itself has one.",
                "x = torch.tensor([2.0, 0.0, 3.0], requires_grad=True)\ntorch.cumprod(x, 0).sum().backward()\nx.grad",
                "[1.0, 8.0, 0.0]",
            ),
        ),
    ),
    PlainFormula(
        "LogcumsumexpBackward0",
        "Logarithms of running sums of exponentials.",
        "torch.logcumsumexp(self, dim)",
        {"self": "torch.exp(self) * running_sum_from_the_end(grad * torch.exp(-result), dim)"},
        forward="torch.log(torch.cumsum(torch.exp(self), dim))",
    ),
    PlainFormula(
        "TraceBackward0",
        "The sum of the diagonal.",
        "torch.trace(self)",
        {"self": "grad * torch.eye(self.size(0), self.size(1), dtype=self.dtype)"},
        holds_for_complex=True,
    ),
)
