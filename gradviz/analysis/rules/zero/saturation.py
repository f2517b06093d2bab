"""GV203."""

from __future__ import annotations

from gradviz.analysis.numbers.zero_gradients import ZeroGradient
from gradviz.analysis.rules.bases.zero_gradient_rule import ZeroGradientRule, operand_words


class Saturation(ZeroGradientRule):
    """All values lie where a clamp cuts them off, or where a squashing function is flat.

    What it finds
    -------------
    ``clamp``, ``hardtanh``, ``sigmoid``, ``tanh`` and the like that got only values beyond their ends at every
    recorded step.

    Why it matters
    --------------
    Out there the slope is exactly 0. Nothing tells the weights to come back into the range.

    Example
    -------
    head = torch.nn.Linear(4, 2)
    torch.nn.init.constant_(head.bias, 9.0)
    torch.clamp(head(torch.randn(16, 4)), -5, 2).exp().sum().backward()

    Instead
    -------
    head = torch.nn.Linear(4, 2)
    torch.nn.init.constant_(head.bias, 0.0)
    torch.clamp(head(torch.randn(16, 4)), -5, 2).exp().sum().backward()
    """

    code = "GV203"
    name = "saturation"
    yields_to = ("vanishing_chain",)

    def verdict(self, zero: ZeroGradient, operation: str) -> str:
        return f"{operation}() is at its end for all it got, {operand_words(zero)}"

    def why(self, zero: ZeroGradient, operation: str) -> str:
        return f"beyond its range {operation}() gives the same number for all, with slope 0"

    def fix(self, zero: ZeroGradient, operation: str) -> str:
        return (
            "begin inside the range (bias and weights of what feeds it, scale of the data), widen it, or use a bound "
            "that keeps a slope (tanh scaled to the range, softplus)"
        )
