"""GV305."""

from __future__ import annotations

from gradviz.analysis.rules.bases.broken_gradient_rule import BrokenGradientFacts, BrokenGradientRule


class NanInData(BrokenGradientRule):
    """The data or the targets hold NaN or Inf before the model sees them.

    What it finds
    -------------
    NaN or Inf that came into the loss from tensors which no parameter had to do with, and the line where they were
    made: a column scaled by its standard deviation of zero, a file with gaps.

    Why it matters
    --------------
    The model is right, and its weights become NaN with the first step all the same.

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
            return f"the data that {facts.operation} takes has NaN or Inf in it; {facts.effect}"
        made = f"gives {facts.results}" if facts.results else "gives NaN or Inf"
        return f"the data is broken before the model sees it: {facts.operation} {made}"

    def why(self, facts: BrokenGradientFacts) -> str:
        reason = f"{facts.reason}; " if facts.reason else ""
        return f"{reason}no parameter had to do with it, and one NaN in a batch makes every gradient NaN"

    def fix(self, facts: BrokenGradientFacts) -> str:
        return facts.remedy or "clean the data where it is made or read: torch.isfinite() tells which rows"
