"""GV404."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, operation
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.reached_calls import ReachedCalls
from gradviz.analysis.dataflow.refused_calls import RefusedChange, refused_changes
from gradviz.analysis.dataflow.tensor_words import names_of, tensor_words
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.out_of_place_call import call_out_of_place


class ViewInplace(Rule):
    """A view was changed in place, but autograd cannot record changes of this kind of view.

    What it finds
    -------------
    An in-place change of one of several views that one call returned (``chunk``, ``split``, ``unbind``, iteration over
    a tensor), of a view made under ``no_grad`` or in a custom function, or of an expanded tensor.

    Why it matters
    --------------
    A change of a view changes its base, so autograd has to rewrite the history of the base. It cannot do so for several
    views from one call, or for a view whose creation it did not record; and in an expanded tensor many elements share
    the same memory.

    Example
    -------
    hidden = torch.randn(2, 6, requires_grad=True).exp()
    value, gate = hidden.chunk(2, dim=1)
    gate.sigmoid_()
    (value * gate).sum().backward()

    Instead
    -------
    hidden = torch.randn(2, 6, requires_grad=True).exp()
    value, gate = hidden.chunk(2, dim=1)
    gate = gate.sigmoid()
    (value * gate).sum().backward()
    """

    code = "GV404"
    name = "view_inplace"
    severity = "error"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for refused in refused_changes(case.capture, flow, tuple(_REASONS)):
            yield self._explain(case, flow, refused)

    def _explain(self, case: Case, flow: Dataflow, refused: RefusedChange) -> Finding:
        calls, line = flow.log.calls, flow.line_of(refused.call)
        reason = next(why for words, why in _REASONS.items() if words in refused.said)
        made = refused.views[-1] if refused.views else None
        origin = "" if made is None else f" ({operation(calls[made])}{at_line(flow.line_of(made))})"
        return self.finding(
            f"torch refuses to change {tensor_words(flow, refused.target.tensor)} in place by "
            f"{operation(calls[refused.call])}{at_line(line)}: it {reason}{origin}",
            why="a change of a view changes its base, and autograd cannot record what that does to the other views",
            fix="make a new tensor instead (no trailing underscore, x = x * y for x *= y), or clone() the view",
            changed_line=call_out_of_place(case, refused.call),
            symptom="raises",
            location=location_of_line(line),
            tensors=names_of(flow, ReachedCalls(flow, (refused.target.tensor,), refused.call).leaves),
            path=tuple(f"{operation(calls[row])} makes a view{at_line(flow.line_of(row))}" for row in refused.views),
            evidence={"operation": calls[refused.call].function, "views": len(refused.views)},
        )


_REASONS = {
    "view was created in no_grad mode": "was made a view under no_grad",
    "function that returns multiple views": "is one of several views that one call returned",
    "view was created inside a custom Function": "is a view that a custom function returned",
    "refers to a single memory location": "has several elements in the same memory",
}
