"""Dropout, random numbers, and operations that overwrite a tensor."""

from __future__ import annotations

from gradviz.formulas.plain.plain_formula import PlainFormula, Trap


def _drawn_in_place(node: str, sentence: str, call: str) -> PlainFormula:
    return PlainFormula(
        node,
        sentence,
        call,
        {"self": "torch.zeros_like(grad)"},
        note="What was there before is overwritten, and gets no gradient.",
    )


RANDOMNESS = (
    PlainFormula(
        "NativeDropoutBackward0",
        "Dropout: a part of the elements becomes 0, the rest is scaled up.",
        "torch.native_dropout(input, p, train)",
        {"input": "grad * result1 / (1 - p)"},
        forward="input * result1 / (1 - p)",
        outputs=("result0", "result1"),
        symbols={"result1": "m"},
        note="m, drawn in the forward, is used again in the backward.",
        traps=(
            Trap(
                "On a CPU, dropout is a product with m / (1 − p), so its node is called so.",
                "x = torch.ones(2, requires_grad=True)\ntorch.nn.functional.dropout(x, 0.5).grad_fn.name()",
                "'MulBackward0'",
            ),
            Trap(
                "In evaluation, dropout hands its input on and makes no node.",
                "x = torch.ones(2, requires_grad=True)\ntorch.nn.functional.dropout(x, 0.5, training=False) is x",
                "True",
            ),
        ),
    ),
    PlainFormula(
        "BernoulliBackward0",
        "Zeros and ones drawn with given probabilities.",
        "torch.bernoulli(self)",
        {"self": "torch.zeros_like(grad)"},
        note="What is drawn is a step function of its probability: no gradient comes through. Use a relaxation "
        "(torch.distributions.RelaxedBernoulli), or the log-probability of what was drawn.",
    ),
    PlainFormula(
        "NormalBackward1",
        "Numbers drawn around given means.",
        "torch.normal(mean, std)",
        {"mean": "torch.zeros_like(grad)"},
        symbols={"mean": "μ", "std": "σ"},
        note="To let a gradient through, draw around 0 and shift: μ + σ · torch.randn(...), as rsample does.",
    ),
    _drawn_in_place("UniformBackward0", "Numbers drawn evenly from an interval.", "self.clone().uniform_()"),
    _drawn_in_place("NormalBackward0", "Numbers drawn from a normal distribution.", "self.clone().normal_()"),
    _drawn_in_place("BernoulliBackward2", "Zeros and ones drawn in place.", "self.clone().bernoulli_(p)"),
    _drawn_in_place(
        "ExponentialBackward0", "Numbers drawn from an exponential distribution.", "self.clone().exponential_()"
    ),
    PlainFormula(
        "ZeroBackward0",
        "Set to 0 in place.",
        "self.clone().zero_()",
        {"self": "torch.zeros_like(grad)"},
        forward="torch.zeros_like(self)",
    ),
    PlainFormula(
        "FillBackward2",
        "Set to one number in place.",
        "self.clone().fill_(value)",
        {"self": "torch.zeros_like(grad)"},
        forward="value * torch.ones_like(self)",
        symbols={"value": "value"},
    ),
    PlainFormula(
        "FillBackward3",
        "Set to the value of a tensor in place.",
        "self.clone().fill_(value)",
        {"self": "torch.zeros_like(grad)", "value": "grad.sum()"},
        forward="value * torch.ones_like(self)",
        symbols={"value": "v"},
        holds_for_complex=True,
    ),
    PlainFormula(
        "torch::autograd::CopyBackwards",
        "Overwritten in place by another tensor: copy_() and x[...] = y.",
        "self.clone().copy_(src)",
        {"self": "torch.zeros_like(grad)", "src": "grad"},
        forward="src.expand_as(self)",
        holds_for_complex=True,
        note="What was overwritten gets no gradient.",
    ),
)
