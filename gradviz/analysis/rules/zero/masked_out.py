"""GV205."""

from __future__ import annotations

from gradviz.analysis.numbers.zero_gradients import ZeroGradient
from gradviz.analysis.rules.bases.zero_gradient_rule import ZeroGradientRule, operand_words


class MaskedOut(ZeroGradientRule):
    """A part of the loss is multiplied by zero, or chosen nowhere, at every step.

    What it finds
    -------------
    A mask with nothing in it, a weight of a loss that never leaves 0, weights that begin at zero on both sides of a
    product. One side alone is fine: it moves with the first step.

    Why it matters
    --------------
    What is multiplied by zero adds nothing to the loss and gets a gradient of zero. The run looks healthy, and a part
    of the model is not trained.

    Example
    -------
    main, extra = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)
    x = torch.randn(8, 4)
    weight = min(1, 5 // 100)
    (main(x).pow(2).mean() + weight * extra(x).pow(2).mean()).backward()

    Instead
    -------
    main, extra = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)
    x = torch.randn(8, 4)
    weight = min(1, 5 / 100)
    (main(x).pow(2).mean() + weight * extra(x).pow(2).mean()).backward()
    """

    code = "GV205"
    name = "masked_out"

    def verdict(self, zero: ZeroGradient, operation: str) -> str:
        if zero.operand is not None:
            return f"{operation}() takes nothing but zeros ({operand_words(zero)})"
        return f"{operation}() leaves nothing of it: its other operand is 0, or its mask chooses nothing"

    def why(self, zero: ZeroGradient, operation: str) -> str:
        return "what is multiplied by zero has no influence on the loss, and so no gradient"

    def fix(self, zero: ZeroGradient, operation: str) -> str:
        if zero.by == "value":
            return (
                "look at the line that made the zeros: an integer division, a condition that never holds, a start at 0"
            )
        return "look at where the factor comes from: an integer division, a schedule that has not begun, an empty mask"
