"""GV202."""

from __future__ import annotations

from gradviz.analysis.numbers.zero_gradients import ZeroGradient
from gradviz.analysis.rules.bases.zero_gradient_rule import ZeroGradientRule, operand_words


class DeadRelu(ZeroGradientRule):
    """Every unit of a ReLU is below zero for all inputs, and can never leave that range.

    What it finds
    -------------
    A ReLU (or a similar function) that got only values below zero at every recorded step, and what caused them: most
    often a bias or weights that were set by hand.

    Why it matters
    --------------
    Below zero a ReLU returns 0 with slope 0. So the weights that could move the units above zero get no gradient.

    Example
    -------
    first, last = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
    torch.nn.init.constant_(first.bias, -20.0)
    last(torch.relu(first(torch.randn(16, 4)))).sum().backward()

    Instead
    -------
    first, last = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
    torch.nn.init.constant_(first.bias, 0.0)
    last(torch.relu(first(torch.randn(16, 4)))).sum().backward()
    """

    code = "GV202"
    name = "dead_relu"
    yields_to = (
        "vanishing_chain", "straight_through_reversed", "target_never_reached", "normalized_alone",
        "gains_start_at_zero",
    )  # fmt: skip

    def verdict(self, zero: ZeroGradient, operation: str) -> str:
        return f"every unit of {operation}() is dead, its input is {operand_words(zero)}"

    def why(self, zero: ZeroGradient, operation: str) -> str:
        return f"below zero the slope of {operation}() is 0, so the layer before it gets no gradient and cannot recover"

    def fix(self, zero: ZeroGradient, operation: str) -> str:
        if zero.blamed_site is not None:
            return "start with a bias of 0 and weights of the usual size; or use leaky_relu, whose slope is never 0"
        return "look at bias, initialisation and learning rate of the layer before it; or use leaky_relu"
