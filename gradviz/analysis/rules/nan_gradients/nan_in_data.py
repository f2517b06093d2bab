"""GV305."""

from __future__ import annotations

from gradviz.analysis.numbers.broken_gradient_words import BrokenGradientFacts
from gradviz.analysis.rules.bases.broken_gradient_rule import BrokenGradientRule


class NanInData(BrokenGradientRule):
    """The data or the targets contain NaN or Inf before they reach the model.

    What it finds
    -------------
    NaN or Inf that came into the loss from tensors that no parameter was used for, and the line that made them: a
    column divided by its standard deviation of zero, a file with gaps.

    Why it matters
    --------------
    The model is correct, but its weights become NaN with the first step.

    Example
    -------
    table = torch.tensor([[1.0, 3.0], [2.0, 3.0], [3.0, 3.0]])
    x = (table - table.mean(0)) / table.std(0)
    model = torch.nn.Linear(2, 1)
    model(x).sum().backward()

    Instead
    -------
    table = torch.tensor([[1.0, 3.0], [2.0, 3.0], [3.0, 3.0]])
    x = (table - table.mean(0)) / (table.std(0) + 1e-8)
    model = torch.nn.Linear(2, 1)
    model(x).sum().backward()
    """

    code = "GV305"
    name = "nan_in_data"

    def verdict(self, facts: BrokenGradientFacts) -> str:
        if facts.is_unseen:
            return f"{facts.effect}: the data given to {facts.operation} contains NaN or Inf"
        made = f"returns {facts.results}" if facts.results else "returns NaN or Inf"
        return f"the data contains NaN or Inf before it reaches the model: {facts.operation} {made}{facts.rounding}"

    def why(self, facts: BrokenGradientFacts) -> str:
        reason = f"{facts.reason}; " if facts.reason else ""
        return f"{reason}no parameter was used for it, and one NaN in a batch makes every gradient NaN"

    def fix(self, facts: BrokenGradientFacts) -> str:
        return facts.remedy or "clean the data where it is made or read: torch.isfinite() shows which rows"
