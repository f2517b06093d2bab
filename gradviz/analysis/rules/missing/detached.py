"""GV101."""

from __future__ import annotations

from gradviz.analysis.cuts.missing_gradients import CutOff
from gradviz.analysis.dataflow.call_words import short_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.cut_rule import CutRule


class Detached(CutRule):
    """A tensor was detached on its way to the loss, and what it was computed from gets no gradient.

    What it finds
    -------------
    A call of ``detach()`` or ``detach_()`` whose result goes into the loss, where every way from some trained tensor
    to the loss leads through such a call. Detaching a target, a metric or one of two ways costs nobody a gradient and
    is not found.

    Why it matters
    --------------
    ``detach()`` gives the same values without their history. For autograd what comes out of it is a constant: the
    loss still goes down a little, since what lies behind the cut learns, but everything before it keeps its random
    weights.

    Example
    -------
    encoder, head = torch.nn.Linear(8, 4), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
    features = encoder(torch.randn(16, 8)).detach()
    head(torch.tanh(features)).square().mean().backward()
    optimizer.step()

    Instead
    -------
    encoder, head = torch.nn.Linear(8, 4), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
    features = encoder(torch.randn(16, 8))
    head(torch.tanh(features)).square().mean().backward()
    optimizer.step()
    """

    code = "GV101"
    name = "detached"

    def culprit(self, flow: Dataflow, found: CutOff) -> str:
        return f".{short_name(flow.log.calls[found.cut.call].function)}()"

    def why(self, flow: Dataflow, found: CutOff) -> str:
        return "what detach() gives has the same values but no history, so for the loss it is a constant"

    def fix(self, flow: Dataflow, found: CutOff) -> str:
        return (
            "leave out the detach(); where it is needed for a log or a cache, detach a copy that the loss does not use"
        )

    def changed_line(self, text: str, found: CutOff) -> str | None:
        return text.replace(".detach()", "") if text.count(".detach()") == 1 else None
