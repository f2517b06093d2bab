"""GV108."""

from __future__ import annotations

from gradviz.analysis.cuts.missing_gradients import CutOff
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.cut_rule import CutRule


class IntegerCast(CutRule):
    """A result was cast to integers before the loss, and integers carry no gradient.

    What it finds
    -------------
    ``long()``, ``int()``, ``byte()``, ``bool()`` or ``to(torch.int64)`` on a result, where the integers are used in
    the loss (as a value, an index or a bound) and some trained tensors have no other path to it.

    Why it matters
    --------------
    Integers have no derivative: torch keeps gradients for floating-point and complex tensors only. A cast back to
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
        return "integers have no derivative, so torch returns them without a history"

    def fix(self, flow: Dataflow, found: CutOff) -> str:
        return (
            "keep floating-point numbers in the loss; to look up at a computed index, interpolate "
            "(torch.nn.functional.grid_sample); to quantize, use a straight-through estimate"
        )
