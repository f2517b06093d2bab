"""GV201."""

from __future__ import annotations

from gradviz.analysis.numbers.zero_gradients import ZeroGradient
from gradviz.analysis.rules.bases.zero_gradient_rule import ZeroGradientRule


class ZeroGradientOp(ZeroGradientRule):
    """An operation whose derivative is zero everywhere stands between the loss and the weights.

    What it finds
    -------------
    Rounding, signs, steps, samples, softmax over a single element, and what is taken from itself, as a single element
    less its own mean: what comes out does not change when what goes in changes a little, so nothing above it learns.

    Why it matters
    --------------
    Unlike a path that is cut, everything looks alive: each weight has a gradient, the optimizer steps, and nothing
    moves.

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
            return f"what {operation}() sends on its several ways cancels out, whatever goes in"
        what = "softmax over a single element" if "softmax" in operation else f"{operation}()"
        return f"{what} passes no gradient on, whatever goes in"

    def why(self, zero: ZeroGradient, operation: str) -> str:
        if zero.by == "cancelling":
            return "its result does not depend on what goes in, as x - x.mean() of a single element does not"
        if "softmax" in operation:
            return "softmax over one element is 1 whatever the element is: its derivative is zero"
        return f"what {operation}() gives is constant between jumps: its derivative is zero everywhere"

    def fix(self, zero: ZeroGradient, operation: str) -> str:
        if zero.by == "cancelling":
            return "look at the shapes: a dimension of size 1 that is reduced, or a value that is compared with itself"
        if "softmax" in operation:
            return "use sigmoid for a single output, or softmax over the dimension that holds the classes (dim=)"
        return (
            "leave it out of training, use something smooth in its place, or let the gradient pass by "
            "(straight-through): x + (f(x) - x).detach()"
        )
