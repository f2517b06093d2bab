"""GV101."""

from __future__ import annotations

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.missing_gradients import CutOff
from gradviz.analysis.dataflow.call_words import short_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.cut_lines import BetterLine, line_that_gave_target, line_that_uses
from gradviz.analysis.rules.bases.cut_rule import CutRule


class Detached(CutRule):
    """A tensor was detached before the loss, and the tensors that it was computed from get no gradient.

    What it finds
    -------------
    A call of ``detach()`` or ``detach_()`` whose result is used in the loss, where every path from some trained tensor
    to the loss goes through such a call. It does not report a detached target or metric, or one of two paths: there
    no tensor loses its gradient.

    So it is in one stage of several: an optimizer has parameters that get no gradient in any of its steps, and that
    learn from a later stage only. It is a note where they have learnt before, where the optimizer got a whole model, or
    where the line cuts on a condition: a head may be meant to learn alone.

    Why it matters
    --------------
    ``detach()`` returns the same values without their history: for autograd the result is a constant. The layers after
    the cut still learn, so the loss still goes down a little, but everything before the cut keeps its random weights.

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
    yields_to = ("copied_onto_itself", "straight_through_reversed")

    def culprit(self, flow: Dataflow, found: CutOff) -> str:
        return f".{short_name(flow.log.calls[found.cut.call].function)}()"

    def why(self, flow: Dataflow, found: CutOff) -> str:
        return "detach() returns the same values without their history, so for the loss they are a constant"

    def fix(self, flow: Dataflow, found: CutOff) -> str:
        return "remove the detach(); if a log or a cache needs it, detach a copy that the loss does not use"

    def changed_line(self, text: str, found: CutOff) -> str | None:
        return text.replace(".detach()", "") if text.count(".detach()") == 1 else None

    def better_line(self, case: Case, found: CutOff) -> BetterLine | None:
        return line_that_uses(case, found) or line_that_gave_target(case, found)
