"""GV210."""

from __future__ import annotations

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Location
from gradviz.analysis.numbers.broken_gradients import uses_gradient_scaler
from gradviz.analysis.numbers.underflow import SMALLEST
from gradviz.analysis.numbers.zero_gradients import ZeroGradient
from gradviz.analysis.rules.bases.zero_gradient_rule import ZeroGradientRule


class GradientUnderflow(ZeroGradientRule):
    """Gradients are so small that float16 rounds them to zero.

    What it finds
    -------------
    A gradient that is not zero until it is converted to ``float16`` (by autocast, ``half()`` or ``float()``), or until
    the next operation in ``float16``, and exactly zero from there on. The location is the line that calls backward.

    Why it matters
    --------------
    The smallest number of ``float16`` is 6e-8. The gradient of a mean over many values, of small targets, or of a loss
    with a small factor is often below that. The forward and the loss look right, and no weight changes. ``GradScaler``
    multiplies the loss by a large number before backward, and divides the gradients by it before the step
    (Micikevicius et al. 2018, https://arxiv.org/abs/1710.03740, section 3.2).

    Example
    -------
    net = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(8, 4)
        with torch.autocast("cpu", dtype=torch.float16):
            y = net(x)
        loss = 1e-8 * (y.float() - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    net = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for step in range(3):
        x = torch.randn(8, 4)
        with torch.autocast("cpu", dtype=torch.float16):
            y = net(x)
        loss = 1e-8 * (y.float() - x).square().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    """

    code = "GV210"
    name = "gradient_underflow"

    def verdict(self, zero: ZeroGradient, operation: str) -> str:
        return (
            f"the largest gradient that arrives at {operation}() is {zero.arrived:.2g}, and what it sends on is "
            f"rounded to zero: the smallest number of {zero.dtype} is {SMALLEST.get(zero.dtype, 0.0):.2g}"
        )

    def why(self, zero: ZeroGradient, operation: str) -> str:
        return (
            f"a gradient has the dtype of its value in the forward, and {zero.dtype} has no numbers as small as these"
        )

    def fix(self, zero: ZeroGradient, operation: str) -> str:
        if zero.dtype != "float16":
            return "scale the loss, or compute in float32"
        return (
            "scale the loss: scaler = torch.amp.GradScaler(device), scaler.scale(loss).backward(), "
            "scaler.step(optimizer), scaler.update(); or use bfloat16, which has the range of float32"
        )

    def wrong_use(self, case: Case, zero: ZeroGradient) -> tuple[Location | None, str] | None:
        if not uses_gradient_scaler(case.dataflow.log):
            return None
        larger = "give GradScaler a larger init_scale, or use bfloat16, which has the range of float32"
        return case.location_of_backward(zero.graph), larger
