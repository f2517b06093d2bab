"""GV303."""

from __future__ import annotations

from gradviz.analysis.numbers.broken_gradient_words import BrokenGradientFacts
from gradviz.analysis.rules.bases.broken_gradient_rule import BrokenGradientRule


class Overflow(BrokenGradientRule):
    """Numbers become too large for their dtype, and so become Inf.

    What it finds
    -------------
    The operation that made the first Inf from finite numbers only because of their size: ``exp`` of a large number, a
    product, a cast to ``float16``. Also ``ctc_loss()`` of a sample with fewer frames than its target has symbols.

    Why it matters
    --------------
    Inf in the forward makes NaN in the backward, as 0 times Inf is NaN: the slope of ``log(1 + exp(x))`` is 1 where x
    is large, but computed step by step it is Inf / Inf.

    Example
    -------
    x = torch.tensor([1.0, 1000.0], requires_grad=True)
    torch.log(1 + torch.exp(x)).sum().backward()

    Instead
    -------
    x = torch.tensor([1.0, 1000.0], requires_grad=True)
    torch.nn.functional.softplus(x).sum().backward()
    """

    code = "GV303"
    name = "overflow"
    yields_to = ("exploding_chain",)

    def verdict(self, facts: BrokenGradientFacts) -> str:
        if facts.operation == _CTC:
            return f"{facts.effect}: {_CTC} is infinite for a sample that has fewer frames than its target needs"
        return f"{facts.effect}: {facts.operation_with_operands} overflows to Inf"

    def why(self, facts: BrokenGradientFacts) -> str:
        if facts.operation == _CTC:
            return (
                "no path fits a target into fewer frames than it has symbols, and one more frame between two that are "
                "equal: the probability of such a target is 0"
            )
        return (
            "the limit of float32 is 3.4e38 (exp() exceeds it at 88.7), of float16 65504; larger numbers are Inf, and "
            "backward makes NaN of them (0 times Inf, Inf / Inf)"
        )

    def fix(self, facts: BrokenGradientFacts) -> str:
        if facts.operation == _CTC:
            return "leave such samples out, or pass zero_infinity=True; input_lengths are those behind all strides"
        return (
            "use the stable form (softplus, logsigmoid, log_softmax, logsumexp, a loss that takes logits), "
            "or bound its input"
        )


_CTC = "ctc_loss()"
