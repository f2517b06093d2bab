"""GV405."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.call_words import at_line, operation, place_of_call
from gradviz.analysis.case import Case
from gradviz.analysis.dataflow import Dataflow
from gradviz.analysis.finding import Finding, place_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.tensor_words import names_of, tensor_words
from gradviz.analysis.unseen_writes import UnseenWrite, unseen_writes


class DataWrittenUnseen(Rule):
    """Values that were saved for backward are overwritten through ``.data``, and nobody notices.

    What it finds
    -------------
    A write through ``x.data``, or an assignment to it, between the forward that saved ``x`` (or a view of it) and the
    backward that computes with it.

    Why it matters
    --------------
    torch counts in-place changes and refuses a backward that would compute with changed values. ``.data`` has a
    counter of its own, so nothing is refused, and the gradient is silently wrong.

    Example
    -------
    weight = torch.randn(4, requires_grad=True)
    squashed = weight.sigmoid()
    squashed.data.mul_(0.5)
    squashed.sum().backward()

    Instead
    -------
    weight = torch.randn(4, requires_grad=True)
    squashed = weight.sigmoid()
    squashed = squashed * 0.5
    squashed.sum().backward()
    """

    code = "GV405"
    name = "data_access"
    severity = "error"

    def check(self, case: Case) -> Iterator[Finding]:
        for found in unseen_writes(case.backward_calls):
            yield self._explain(case, case.dataflow, found)

    def _explain(self, case: Case, flow: Dataflow, found: UnseenWrite) -> Finding:
        calls, line = flow.log.calls, flow.line_of(found.write)
        saver, saved = operation(calls[found.saver]), tensor_words(flow, found.tensor)
        reached = case.backward_calls.reached(found.backward).above(found.saver)
        return self.finding(
            f"{saved} was saved for backward by {saver}{at_line(flow.line_of(found.saver))}, "
            f"and is overwritten through .data{at_line(line)}: backward does not notice, and its gradient is wrong",
            symptom="grad_wrong",
            why=f"the derivative of {saver} is computed from the values that it saved; .data hides that they changed",
            fix="make a new tensor in place of the write, or write after backward(); under torch.no_grad() and without "
            ".data torch notices such a write and refuses",
            place=place_of_line(line),
            symptom_place=place_of_call(flow, found.backward),
            op=case.graphs[found.node.graph].nodes[found.node.node].name,
            tensors=names_of(flow, reached.leaves),
            nodes=(found.node,),
            evidence={"slot": found.slot, "saved_by": saver},
        )
