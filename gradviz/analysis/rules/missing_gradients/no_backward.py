"""GV110."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule


class NoBackward(Rule):
    """An optimizer steps, but no backward ever ran.

    What it finds
    -------------
    Programs whose optimizers step although no `backward()` or `grad()` ran, so no step changed any parameter.

    Why it matters
    --------------
    Without gradients a step skips every parameter, without a message. The printed loss changes only because the
    batches change.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).square().mean()
        loss.backward()
        optimizer.step()
    """

    code = "GV110"
    name = "no_backward"
    severity = "error"

    def check(self, case: Case) -> Iterator[Finding]:
        capture = case.capture
        if capture.calls is None or capture.backward_calls or capture.error is not None:
            return
        steps = case.dataflow.rows_of_kind("step")
        if not steps or any(capture.calls.calls[row].outputs for row in steps):
            return
        first = capture.calls.calls[steps[0]]
        times = "once" if len(steps) == 1 else f"{len(steps):,} times"
        yield self.finding(
            f"{first.function}() ran {times} and changed nothing: no backward() ran, so no parameter has a gradient",
            symptom="grad_none",
            location=case.location_of_call(steps[0]),
            tensors=tuple(dict.fromkeys(case.tensor_name(use.tensor) for use in first.inputs)),
            why="an optimizer does not change parameters whose .grad is None",
            fix="call loss.backward() before the step",
            evidence={"steps": len(steps), "backward calls": 0},
        )
