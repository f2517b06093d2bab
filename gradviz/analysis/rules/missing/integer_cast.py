"""GV108."""

from __future__ import annotations

from gradviz.analysis.cuts.missing_gradients import CutOff
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.cut_rule import CutRule


class IntegerCast(CutRule):
    """A result was cast to whole numbers on its way to the loss, and these carry no gradient.

    What it finds
    -------------
    ``long()``, ``int()``, ``byte()``, ``bool()`` or ``to(torch.int64)`` on a result, where what is made of it goes
    into the loss (as a value, an index or a bound) and trained tensors have no other way to it.

    Why it matters
    --------------
    Whole numbers have no derivative: torch keeps gradients for floating and complex tensors only. Casting back to
    float does not bring the history back.

    Example
    -------
    model = torch.nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    levels = (model(torch.randn(16, 8)).sigmoid() * 255).byte()
    loss = (levels.float() / 255 - 0.5).square().mean().requires_grad_()
    loss.backward()
    optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    levels = model(torch.randn(16, 8)).sigmoid()
    loss = (levels - 0.5).square().mean()
    loss.backward()
    optimizer.step()
    """

    code = "GV108"
    name = "integer_cast"

    def culprit(self, flow: Dataflow, found: CutOff) -> str:
        cut = found.cut
        kinds = sorted({flow.log.tensors[number].facts.dtype for number in cut.dead_outputs}) or ["int"]
        return f"the cast to {kinds[0]}"

    def why(self, flow: Dataflow, found: CutOff) -> str:
        return "whole numbers have no derivative, so torch gives them without a history"

    def fix(self, flow: Dataflow, found: CutOff) -> str:
        return (
            "stay with floating numbers in the loss; to look up at a computed place, interpolate "
            "(torch.nn.functional.grid_sample); to quantize, use a straight-through estimate"
        )
