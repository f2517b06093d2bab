"""GV202."""

from __future__ import annotations

from gradviz.analysis.numbers.zero_gradients import ZeroGradient
from gradviz.analysis.rules.bases.zero_gradient_rule import ZeroGradientRule, operand_words


class DeadRelu(ZeroGradientRule):
    """Every unit of a ReLU is below zero for all inputs, and stays there.

    What it finds
    -------------
    A ReLU (or its kin) that got nothing but values below zero at every recorded step, and what put them there: most
    often a bias or weights that were set by hand.

    Why it matters
    --------------
    Below zero a ReLU gives 0 with slope 0. The weights that could lift the units above zero get no gradient to do so.

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
    yields_to = ("vanishing_chain",)

    def verdict(self, zero: ZeroGradient, operation: str) -> str:
        return f"every unit of {operation}() is dead, it got {operand_words(zero)}"

    def why(self, zero: ZeroGradient, operation: str) -> str:
        return f"below zero the slope of {operation}() is 0, so what feeds it cannot learn its way back"

    def fix(self, zero: ZeroGradient, operation: str) -> str:
        if zero.blamed_site is not None:
            return "begin with a bias of 0 and weights of the usual size; or use leaky_relu, whose slope never ends"
        return "look at what feeds it: bias, initialisation, learning rate; or use leaky_relu, whose slope never ends"
