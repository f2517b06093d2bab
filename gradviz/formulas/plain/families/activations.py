"""Activation functions."""

from __future__ import annotations

import msgspec

from gradviz.formulas.plain.plain_formula import PlainFormula, Trap

_ACTIVATIONS = (
    PlainFormula(
        "ReluBackward0",
        "What is below 0 becomes 0, and so does its gradient.",
        "torch.relu(self)",
        {"self": "grad * (self > 0)"},
        forward="torch.where(self > 0, self, 0)",
        note="torch keeps the result, not the input, and asks where that is above 0: the same elements.",
        traps=(
            Trap(
                "At exactly 0 the gradient is 0.",
                "x = torch.tensor([0.0], requires_grad=True)\ntorch.relu(x).backward()\nx.grad",
                "[0.0]",
            ),
        ),
    ),
    PlainFormula(
        "LeakyReluBackward0",
        "A ReLU that lets a small part of what is below 0 through.",
        "torch.nn.functional.leaky_relu(self, negative_slope)",
        {"self": "torch.where(self > 0, grad, negative_slope * grad)"},
        forward="torch.where(self > 0, self, negative_slope * self)",
    ),
    PlainFormula(
        "PreluKernelBackward0",
        "A leaky ReLU whose slope is learnt.",
        "torch.nn.functional.prelu(self, weight)",
        {
            "self": "torch.where(self > 0, grad, weight * grad)",
            "weight": "torch.where(self > 0, torch.zeros_like(grad), grad * self)",
        },
        forward="torch.where(self > 0, self, weight * self)",
        symbols={"weight": "w"},
    ),
    PlainFormula(
        "EluBackward0",
        "x above 0, below it an exponential that levels out at −α; SELU is one with fixed α and scale.",
        "torch.ops.aten.elu(self, alpha, scale)",
        {"self": "scale * grad * torch.where(self > 0, torch.ones_like(self), alpha * torch.exp(self))"},
        forward="scale * torch.where(self > 0, self, alpha * (torch.exp(self) - 1))",
        usual={"scale": 1},
    ),
    PlainFormula(
        "CeluBackward0",
        "An ELU without a kink at 0.",
        "torch.celu(self, alpha)",
        {"self": "grad * torch.where(self > 0, torch.ones_like(self), torch.exp(self / alpha))"},
        forward="torch.where(self > 0, self, alpha * (torch.exp(self / alpha) - 1))",
    ),
    PlainFormula(
        "GeluBackward0",
        "x times a gate between 0 and 1, the share of a normal distribution that lies below x.",
        "torch.nn.functional.gelu(self, approximate=approximate)",
        {"self": "grad * (gate + self * gate_slope)"},
        forward="self * gate",
        where={
            "inner": "math.sqrt(2 / math.pi) * (self + 0.044715 * self**3)",
            "inner_slope": "math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * self**2)",
            "gate": "(1 + torch.erf(self / math.sqrt(2))) / 2 if approximate == 'none' "
            "else (1 + torch.tanh(inner)) / 2",
            "gate_slope": "torch.exp(-(self**2) / 2) / math.sqrt(2 * math.pi) if approximate == 'none' "
            "else (1 - torch.tanh(inner) ** 2) * inner_slope / 2",
        },
        usual={"approximate": "none"},
        symbols={"gate": "g", "gate_slope": "g′", "inner": "u", "inner_slope": "u′"},
    ),
    PlainFormula(
        "SiluBackward0",
        "x times its own sigmoid, also called swish.",
        "torch.nn.functional.silu(self)",
        {"self": "grad * gate * (1 + self * (1 - gate))"},
        forward="self * gate",
        where={"gate": "torch.sigmoid(self)"},
        symbols={"gate": "σ"},
    ),
    PlainFormula(
        "MishBackward0",
        "x times the hyperbolic tangent of its softplus.",
        "torch.nn.functional.mish(self)",
        {"self": "grad * (gate + self * (1 - gate**2) * torch.sigmoid(self))"},
        forward="self * gate",
        where={"gate": "torch.tanh(torch.log(1 + torch.exp(self)))"},
        symbols={"gate": "g"},
    ),
    PlainFormula(
        "SigmoidBackward0",
        "The logistic function, which squeezes into 0 to 1.",
        "torch.sigmoid(self)",
        {"self": "grad * (result * (1 - result)).conj()"},
        forward="1 / (1 + torch.exp(-self))",
        holds_for_complex=True,
        traps=(
            Trap(
                "The slope is 1/4 at most, so each sigmoid in a chain takes three quarters of the gradient at least.",
                "x = torch.tensor([0.0], requires_grad=True)\ntorch.sigmoid(x).backward()\nx.grad",
                "[0.25]",
            ),
            Trap(
                "Far above 0 a float32 rounds it to 1 and the gradient is exactly 0.",
                "x = torch.tensor([20.0], requires_grad=True)\ntorch.sigmoid(x).backward()\nx.grad",
                "[0.0]",
            ),
        ),
    ),
    PlainFormula(
        "LogSigmoidBackward0",
        "The logarithm of a sigmoid, without rounding to log(0).",
        "torch.nn.functional.logsigmoid(self)",
        {"self": "grad * torch.sigmoid(-self)"},
        forward="-torch.log(1 + torch.exp(-self))",
        outputs=("output",),
    ),
    PlainFormula(
        "SoftplusBackward0",
        "A smooth ReLU.",
        "torch.nn.functional.softplus(self, beta, threshold)",
        {"self": "torch.where(beta * self > threshold, grad, grad * torch.sigmoid(beta * self))"},
        forward="torch.where(beta * self > threshold, self, torch.log(1 + torch.exp(beta * self)) / beta)",
        usual={"beta": 1},
    ),
    PlainFormula(
        "HardtanhBackward0",
        "Cut off below and above; ReLU6 is one from 0 to 6.",
        "torch.nn.functional.hardtanh(self, min_val, max_val)",
        {"self": "grad * ((self > min_val) & (self < max_val))"},
        forward="torch.clamp(self, min_val, max_val)",
        symbols={"min_val": "min", "max_val": "max"},
        traps=(
            Trap(
                "At its bounds the gradient is 0; clamp lets it through there.",
                "x = torch.tensor([1.0], requires_grad=True)\ntorch.nn.functional.hardtanh(x).backward()\nx.grad",
                "[0.0]",
            ),
        ),
    ),
    PlainFormula(
        "HardsigmoidBackward0",
        "A sigmoid of straight lines: a sixth of x + 3, cut off at 0 and 1.",
        "torch.nn.functional.hardsigmoid(self)",
        {"self": "grad * (torch.abs(self) < 3) / 6"},
        forward="torch.clamp(self + 3, 0, 6) / 6",
    ),
    PlainFormula(
        "HardswishBackward0",
        "x times its hard sigmoid.",
        "torch.nn.functional.hardswish(self)",
        {"self": "grad * torch.where(torch.abs(self) < 3, self / 3 + 0.5, (self > 0).to(self.dtype))"},
        forward="self * torch.clamp(self + 3, 0, 6) / 6",
    ),
    PlainFormula(
        "ThresholdBackward0",
        "What is not above a threshold is replaced by a value.",
        "torch.threshold(self, threshold, value)",
        {"self": "grad * (self > threshold)"},
        forward="torch.where(self > threshold, self, value)",
        symbols={"value": "value"},
    ),
    PlainFormula(
        "SoftshrinkBackward0",
        "Moved towards 0 by λ; what is nearer becomes 0.",
        "torch.nn.functional.softshrink(self, lambd)",
        {"self": "grad * (torch.abs(self) > lambd)"},
        forward="torch.sign(self) * torch.clamp(torch.abs(self) - lambd, min=0)",
    ),
    PlainFormula(
        "HardshrinkBackward0",
        "What is nearer to 0 than λ becomes 0.",
        "torch.nn.functional.hardshrink(self, lambd)",
        {"self": "grad * (torch.abs(self) > lambd)"},
        forward="self * (torch.abs(self) > lambd)",
    ),
    PlainFormula(
        "GluBackward0",
        "One half of x, gated by the sigmoid of the other half.",
        "torch.nn.functional.glu(self, dim)",
        {"self": "torch.cat([grad * gate, grad * half * gate * (1 - gate)], dim)"},
        forward="half * gate",
        where={
            "half": "self.chunk(2, dim)[0]",
            "gate": "torch.sigmoid(self.chunk(2, dim)[1])",
        },
        symbols={"half": "a", "gate": "σ"},
    ),
    PlainFormula(
        "SoftmaxBackward0",
        "Exponentials divided by their sum along one dimension: weights between 0 and 1 that add up to 1.",
        "torch.softmax(self, dim)",
        {"self": "result * (grad - (grad * result).sum(dim, keepdim=True))"},
        forward="torch.exp(self) / torch.exp(self).sum(dim, keepdim=True)",
        note="Popular articles print y² − y or y ∘ (1 − y): the latter is the diagonal of the Jacobian only. Every y "
        "depends on every x of its row, which is the sum ⟨ȳ, y⟩; without it the formula is that of a sigmoid.",
        traps=(
            Trap(
                "The sum of a softmax is always 1, so its gradient is 0; y ∘ (1 − y) would say 0.25.",
                "x = torch.tensor([0.0, 0.0], requires_grad=True)\ntorch.softmax(x, 0).sum().backward()\nx.grad",
                "[0.0, 0.0]",
            ),
            Trap(
                "A row that is masked with −∞ everywhere is NaN, and its gradient too.",
                "x = torch.full((2,), -torch.inf, requires_grad=True)\ntorch.softmax(x, 0)[0].backward()\nx.grad",
                "[nan, nan]",
            ),
        ),
    ),
    PlainFormula(
        "SafeSoftmaxBackward0",
        "A softmax that is 0 in rows that are masked everywhere: what attention uses.",
        "torch.ops.aten._safe_softmax(self, dim)",
        {"self": "result * (grad - (grad * result).sum(dim, keepdim=True))"},
        forward="torch.exp(self) / torch.exp(self).sum(dim, keepdim=True)",
        note="In a row of nothing but −∞, y is 0 by definition.",
        traps=(
            Trap(
                "A row that is masked with −∞ everywhere has the gradient 0, not NaN.",
                "x = torch.full((2,), -torch.inf, requires_grad=True)\n"
                "torch.ops.aten._safe_softmax(x, 0)[0].backward()\n"
                "x.grad",
                "[0.0, 0.0]",
            ),
        ),
    ),
    PlainFormula(
        "LogSoftmaxBackward0",
        "The logarithm of a softmax, the first half of cross_entropy.",
        "torch.log_softmax(self, dim)",
        {"self": "grad - torch.exp(result) * grad.sum(dim, keepdim=True)"},
        forward="self - torch.log(torch.exp(self).sum(dim, keepdim=True))",
        traps=(
            Trap(
                "With the loss −y at the target the gradient is the softmax, 1 less at the target.",
                "x = torch.tensor([0.0, 0.0], requires_grad=True)\n(-torch.log_softmax(x, 0)[1]).backward()\nx.grad",
                "[0.5, -0.5]",
            ),
        ),
    ),
)

_IN_PLACE = {
    "LeakyReluBackward1": ("LeakyReluBackward0", "torch.nn.functional.leaky_relu_(self.clone(), negative_slope)"),
    "EluBackward1": ("EluBackward0", "torch.ops.aten.elu_(self.clone(), alpha, scale)"),
    "CeluBackward1": ("CeluBackward0", "torch.celu_(self.clone(), alpha)"),
    "ThresholdBackward1": ("ThresholdBackward0", "torch.threshold_(self.clone(), threshold, value)"),
}
"""For in-place calls with a node of their own: the formula that is the same, and a call."""


def _in_place() -> tuple[PlainFormula, ...]:
    formulas = {formula.node: formula for formula in _ACTIVATIONS}
    return tuple(
        msgspec.structs.replace(
            formulas[same], node=node, call=call, sentence=f"{formulas[same].sentence.removesuffix('.')}; in place."
        )
        for node, (same, call) in _IN_PLACE.items()
    )


ACTIVATIONS = (*_ACTIVATIONS, *_in_place())
