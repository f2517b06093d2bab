"""GV302."""

from __future__ import annotations

from gradviz.analysis.rules.bases.broken_gradient_rule import BrokenGradientRule, BrokenWords


class NanInMaskedBranch(BrokenGradientRule):
    """A bad value is hidden in forward by a mask, ``where`` or an assignment, and comes back as NaN in backward.

    What it finds
    -------------
    Operations that compute NaN or Inf (or something with an infinite slope) for elements that ``torch.where``, a mask
    or an assignment drops afterwards. The loss looks healthy.

    Why it matters
    --------------
    What is dropped gets a gradient of zero, and backward multiplies it by the slope of the operation: 0 times Inf is
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

    def verdict(self, told: BrokenWords) -> str:
        made = f"gives {told.results}" if told.in_forward and told.results else "has no finite slope everywhere"
        return (
            f"{told.operation_with_operands} {made}; {told.hider} hides that in forward, not in backward: {told.effect}"
        )

    def why(self, told: BrokenWords) -> str:
        reason = f"{told.reason}; " if told.reason else ""
        return f"{reason}what {told.hider} drops gets a gradient of 0, and 0 times Inf is NaN"

    def fix(self, told: BrokenWords) -> str:
        return (
            f"mask the input of {told.operation} instead of its result: put a harmless number where the result is not "
            "wanted (x_safe = torch.where(mask, x, 1.0)), then compute, then mask"
        )
