"""GV302."""

from __future__ import annotations

from gradviz.analysis.numbers.broken_gradient_words import BrokenGradientFacts
from gradviz.analysis.rules.bases.broken_gradient_rule import BrokenGradientRule


class NanInMaskedBranch(BrokenGradientRule):
    """A mask, ``where`` or an assignment hides NaN or Inf in the forward, but the backward still computes NaN.

    What it finds
    -------------
    Operations that compute NaN or Inf (or have an infinite slope) for elements that ``torch.where``, a mask or an
    assignment drops afterwards. The loss looks healthy.

    Why it matters
    --------------
    Dropped elements get a gradient of zero, and backward multiplies it by the slope of the operation: 0 times Inf is
    NaN. The mask comes too late; it must be on the operation's input.

    Example
    -------
    x = torch.tensor([0.0, 1.0, 4.0], requires_grad=True)
    torch.where(x > 0, x.log(), torch.zeros(3)).sum().backward()

    Instead
    -------
    x = torch.tensor([0.0, 1.0, 4.0], requires_grad=True)
    safe = torch.where(x > 0, x, torch.ones(3))
    torch.where(x > 0, safe.log(), torch.zeros(3)).sum().backward()
    """

    code = "GV302"
    name = "nan_in_masked_branch"

    def verdict(self, facts: BrokenGradientFacts) -> str:
        made = f"returns {facts.results}" if facts.in_forward and facts.results else "has no finite slope everywhere"
        hidden = f"{facts.hider} hides that in forward, not in backward"
        return f"{facts.effect}: {facts.operation_with_operands} {made}, but {hidden}{facts.rounding}"

    def why(self, facts: BrokenGradientFacts) -> str:
        reason = f"{facts.reason}; " if facts.reason else ""
        return f"{reason}elements that {facts.hider} drops get a gradient of 0, and 0 times Inf is NaN"

    def fix(self, facts: BrokenGradientFacts) -> str:
        if facts.needs_whole_rows:
            return facts.remedy
        return (
            f"mask the input of {facts.operation} instead of its result: put a harmless number where the result is not "
            "wanted (x_safe = torch.where(mask, x, 1.0)), then compute, then mask"
        )
