"""Comparing, clamping and choosing: the gradient takes one path or none."""

from __future__ import annotations

from gradviz.formulas.plain.plain_formula import PlainFormula, Trap

_TWO = {"self": "a", "other": "b"}


_BOUNDS = {"low": "-math.inf if min is None else min", "high": "math.inf if max is None else max"}


CHOICES = (
    PlainFormula(
        "AbsBackward0",
        "The absolute value: the gradient keeps or changes its sign.",
        "torch.abs(self)",
        {"self": "grad * torch.sgn(self)"},
        holds_for_complex=True,
        note="sgn(x) is x / |x|, and 0 at 0.",
        traps=(
            Trap(
                "At 0 the gradient is 0.",
                "x = torch.tensor([0.0], requires_grad=True)\ntorch.abs(x).backward()\nx.grad",
                "[0.0]",
            ),
        ),
    ),
    PlainFormula(
        "MaximumBackward0",
        "The larger of two tensors, element by element: the gradient goes to the one that was larger.",
        "torch.maximum(self, other)",
        {
            "self": "grad * ((self > other) + (self == other) / 2)",
            "other": "grad * ((self < other) + (self == other) / 2)",
        },
        forward="torch.where(self > other, self, other)",
        symbols=_TWO,
        traps=(
            Trap(
                "Where both are equal, each gets half.",
                "a = torch.tensor([1.0], requires_grad=True)\ntorch.maximum(a, torch.tensor([1.0])).backward()\na.grad",
                "[0.5]",
            ),
        ),
    ),
    PlainFormula(
        "MinimumBackward0",
        "The smaller of two tensors, element by element.",
        "torch.minimum(self, other)",
        {
            "self": "grad * ((self < other) + (self == other) / 2)",
            "other": "grad * ((self > other) + (self == other) / 2)",
        },
        forward="torch.where(self < other, self, other)",
        symbols=_TWO,
    ),
    PlainFormula(
        "ClampBackward1",
        "Cut off below and above by numbers, or by one of them.",
        "torch.clamp(self, min, max)",
        {"self": "grad * ((self >= low) & (self <= high))"},
        where=_BOUNDS,
        symbols={"low": "l", "high": "u"},
        traps=(
            Trap(
                "Outside of the bounds the gradient is 0: what left them never comes back.",
                "x = torch.tensor([2.0], requires_grad=True)\ntorch.clamp(x, 0, 1).backward()\nx.grad",
                "[0.0]",
            ),
            Trap(
                "At a bound the whole gradient passes.",
                "x = torch.tensor([1.0], requires_grad=True)\ntorch.clamp(x, 0, 1).backward()\nx.grad",
                "[1.0]",
            ),
        ),
    ),
    PlainFormula(
        "ClampBackward0",
        "Cut off below and above by tensors, or by one of them.",
        "torch.clamp(self, min, max)",
        {
            "self": "grad * ((self >= low) & (self <= high))",
            "min": "grad * ((self < low) & (low < high))",
            "max": "grad * ((self > high) | (low > high))",
        },
        where=_BOUNDS,
        symbols={"min": "m", "max": "M", "low": "l", "high": "u"},
    ),
    PlainFormula(
        "ClampMinBackward0",
        "Cut off below by a number.",
        "torch.clamp_min(self, min)",
        {"self": "grad * (self >= min)"},
        forward="torch.where(self >= min, self, min)",
    ),
    PlainFormula(
        "ClampMaxBackward0",
        "Cut off above by a number.",
        "torch.clamp_max(self, max)",
        {"self": "grad * (self <= max)"},
        forward="torch.where(self <= max, self, max)",
    ),
    PlainFormula(
        "WhereBackward0",
        "One tensor where a condition holds, another elsewhere; the condition itself gets no gradient.",
        "torch.where(condition, self, other)",
        {
            "self": "torch.where(condition, grad, torch.zeros_like(grad))",
            "other": "torch.where(condition, torch.zeros_like(grad), grad)",
        },
        symbols=_TWO,
        holds_for_complex=True,
        traps=(
            Trap(
                "The branch that is not taken gets 0, and 0 times an infinite slope behind it is NaN.",
                "x = torch.tensor([0.0], requires_grad=True)\n"
                "torch.where(x > 0, torch.sqrt(x), torch.zeros(1)).backward()\n"
                "x.grad",
                "[nan]",
            ),
            Trap(
                "Choosing the input first, and the function after, keeps NaN away.",
                "x = torch.tensor([0.0], requires_grad=True)\n"
                "safe = torch.where(x > 0, x, torch.ones(1))\n"
                "torch.where(x > 0, torch.sqrt(safe), torch.zeros(1)).backward()\n"
                "x.grad",
                "[0.0]",
            ),
        ),
    ),
    PlainFormula(
        "MaskedFillBackward0",
        "A number where a mask is true, as attention puts −∞.",
        "self.masked_fill(mask, value)",
        {"self": "grad.masked_fill(mask, 0)"},
        symbols={"value": "value"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "MaskedSelectBackward0",
        "The elements where a mask is true, one after the other.",
        "torch.masked_select(self, mask)",
        {"self": "torch.zeros_like(self).masked_scatter(mask, grad)"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "MaskedScatterBackward0",
        "Where a mask is true, one element of the source after the other.",
        "self.masked_scatter(mask, source)",
        {
            "self": "grad.masked_fill(mask, 0)",
            "source": "torch.cat([taken, grad.new_zeros(source.numel() - taken.numel())]).reshape(source.shape)",
        },
        where={"taken": "grad.masked_select(mask)"},
        symbols={"taken": "g"},
        holds_for_complex=True,
        note="Elements of the source that were not needed get 0.",
    ),
    PlainFormula(
        "MaskedFillBackward1",
        "The value of a tensor where a mask is true.",
        "self.masked_fill(mask, value)",
        {"self": "grad.masked_fill(mask, 0)", "value": "torch.where(mask, grad, torch.zeros_like(grad)).sum()"},
        symbols={"value": "v"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "ClampMinBackward1",
        "Cut off below by a tensor.",
        "torch.clamp_min(self, min)",
        {"self": "grad * (self >= min)", "min": "grad * (self < min)"},
        forward="torch.where(self >= min, self, min)",
        symbols={"min": "l"},
    ),
    PlainFormula(
        "ClampMaxBackward1",
        "Cut off above by a tensor.",
        "torch.clamp_max(self, max)",
        {"self": "grad * (self <= max)", "max": "grad * (self > max)"},
        forward="torch.where(self <= max, self, max)",
        symbols={"max": "u"},
    ),
    PlainFormula(
        "FmaxBackward0",
        "The larger of two tensors, element by element; of a number and NaN, the number.",
        "torch.fmax(self, other)",
        {"self": "grad * first", "other": "grad * ~first"},
        forward="torch.where(first, self, other)",
        where={"first": "(self >= other) | torch.isnan(other)"},
        symbols={**_TWO, "first": "c"},
        traps=(
            Trap(
                "Where both are equal, the first gets all, unlike in maximum.",
                "a = torch.tensor([1.0], requires_grad=True)\ntorch.fmax(a, torch.tensor([1.0])).backward()\na.grad",
                "[1.0]",
            ),
        ),
    ),
    PlainFormula(
        "FminBackward0",
        "The smaller of two tensors, element by element; of a number and NaN, the number.",
        "torch.fmin(self, other)",
        {"self": "grad * first", "other": "grad * ~first"},
        forward="torch.where(first, self, other)",
        where={"first": "(self <= other) | torch.isnan(other)"},
        symbols={**_TWO, "first": "c"},
        traps=(
            Trap(
                "Where both are equal, the first gets all, unlike in minimum.",
                "a = torch.tensor([1.0], requires_grad=True)\ntorch.fmin(a, torch.tensor([1.0])).backward()\na.grad",
                "[1.0]",
            ),
        ),
    ),
    PlainFormula(
        "NanToNumBackward0",
        "NaN and infinities replaced by numbers.",
        "torch.nan_to_num(self)",
        {"self": "grad * torch.isfinite(self)"},
        note="What was replaced gets 0.",
        traps=(
            Trap(
                "It cleans values, not gradients: the slope that made the NaN is still there.",
                "x = torch.tensor([0.0], requires_grad=True)\ntorch.nan_to_num(torch.sqrt(x) * 0).backward()\nx.grad",
                "[nan]",
            ),
        ),
    ),
)
