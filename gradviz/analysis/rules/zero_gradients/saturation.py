"""GV203."""

from __future__ import annotations

from gradviz.analysis.numbers.zero_gradients import ZeroGradient
from gradviz.analysis.rules.bases.zero_gradient_rule import ZeroGradientRule, operand_words


class Saturation(ZeroGradientRule):
    """All values are in the range where a clamp cuts them off, or where a squashing function is flat.

    What it finds
    -------------
    ``clamp``, ``hardtanh``, ``sigmoid``, ``tanh`` and similar functions that got only values outside of their range at
    every recorded step.

    Why it matters
    --------------
    There the slope is exactly 0. No gradient moves the weights back into the range.

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
    yields_to = (
        "vanishing_chain", "straight_through_reversed", "target_never_reached", "normalized_alone", "inverted_mask",
        "nothing_loaded",
    )  # fmt: skip

    def verdict(self, zero: ZeroGradient, operation: str) -> str:
        return f"{operation}() is saturated for all of its input, {operand_words(zero)}"

    def why(self, zero: ZeroGradient, operation: str) -> str:
        return f"outside of its range {operation}() returns one constant, with slope 0"

    def fix(self, zero: ZeroGradient, operation: str) -> str:
        return (
            "start inside the range (bias and weights of the layer before, scale of the data), widen the range, or use "
            "a bound that has a slope everywhere (tanh scaled to the range, softplus)"
        )
