"""GV201."""

from __future__ import annotations

from gradviz.analysis.numbers.zero_gradients import ZeroGradient
from gradviz.analysis.rules.bases.zero_gradient_rule import ZeroGradientRule


class ZeroGradientOp(ZeroGradientRule):
    """An operation whose derivative is zero everywhere is between the loss and the weights.

    What it finds
    -------------
    Rounding, signs, steps, samples, softmax over a single element, and a value minus itself (a single element minus its
    own mean): a small change of the input does not change the result, so nothing before it learns.

    Why it matters
    --------------
    This does not look like a cut path: each weight has a gradient, the optimizer steps, but no weight changes.

    Example
    -------
    encoder, decoder = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    x = torch.randn(8, 4)
    code = torch.round(encoder(x))
    (decoder(code) - x).pow(2).mean().backward()

    Instead
    -------
    encoder, decoder = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    x = torch.randn(8, 4)
    soft = encoder(x)
    code = soft + (torch.round(soft) - soft).detach()
    (decoder(code) - x).pow(2).mean().backward()
    """

    code = "GV201"
    name = "zero_gradient_op"

    def verdict(self, zero: ZeroGradient, operation: str) -> str:
        if zero.by == "cancelling":
            return f"the gradients that {operation}() sends on its several paths cancel out, whatever its input is"
        what = "softmax over a single element" if "softmax" in operation else f"{operation}()"
        return f"{what} passes no gradient on, whatever its input is"

    def why(self, zero: ZeroGradient, operation: str) -> str:
        if zero.by == "cancelling":
            return "its result does not depend on its input: x - x.mean() of a single element is always 0"
        if "softmax" in operation:
            return "softmax over one element is 1 whatever the element is: its derivative is zero"
        return f"{operation}() is constant between jumps: its derivative is zero everywhere"

    def fix(self, zero: ZeroGradient, operation: str) -> str:
        if zero.by == "cancelling":
            return "look at the shapes: a dimension of size 1 is reduced, or a value is compared with itself"
        if "softmax" in operation:
            return "use sigmoid for a single output, or softmax over the dimension that holds the classes (dim=)"
        return (
            "remove it in training, use a smooth function instead, or let the gradient pass by it "
            "(straight-through): x + (f(x) - x).detach()"
        )
