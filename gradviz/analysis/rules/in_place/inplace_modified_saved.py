"""GV401."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, operation
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.failed_backward import FailedBackwards, Overwritten
from gradviz.analysis.dataflow.tensor_words import tensor_words
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.out_of_place_call import call_out_of_place
from gradviz.analysis.rules.bases.overwritten_saved_tensors import (
    is_nameless_result,
    overwritten_facts,
    version_after,
    written_through,
)
from gradviz.graph.call_log import Call


class InplaceModifiedSaved(Rule):
    """A tensor was changed in place after an operation had saved it for backward.

    What it finds
    -------------
    A backward that raised because a tensor that it needs was changed after it was saved. It reports which operation
    saved it, on which line it was changed, and through which views.

    Why it matters
    --------------
    Many derivatives are computed from the operation's input or result: that of ``relu`` from its result, that of a
    product from its factors. The graph keeps the tensor itself, not a copy. Once it is overwritten, the right gradient
    can no longer be computed, and torch refuses to compute a wrong one.

    Example
    -------
    weight = torch.randn(3, requires_grad=True)
    squashed = weight.sigmoid()
    squashed += 1
    squashed.sum().backward()

    Instead
    -------
    weight = torch.randn(3, requires_grad=True)
    squashed = weight.sigmoid()
    squashed = squashed + 1
    squashed.sum().backward()
    """

    code = "GV401"
    name = "inplace_modified_saved"
    severity = "error"
    needs = ("versions of tensors",)

    def check(self, case: Case) -> Iterator[Finding]:
        flow, failed = case.dataflow, case.failed_backwards
        yield from (self._explain(case, flow, failed, found) for found in failed.overwritten if found.step is None)

    def _explain(self, case: Case, flow: Dataflow, failed: FailedBackwards, found: Overwritten) -> Finding:
        calls, change = flow.log.calls, found.changes[0]
        facts = overwritten_facts(case, flow, failed.reached(found.backward), found)
        views = len(written_through(flow, found))
        through = f" through {views} view{'s' if views > 1 else ''}" if views else ""
        saver = operation(calls[found.saver])
        by = "" if is_nameless_result(flow, found) else f" by {saver}{at_line(flow.line_of(found.saver))}"
        return self.finding(
            f"{tensor_words(flow, found.tensor)} was saved for backward{by}, "
            f"and {operation(calls[change])} changed it in place{through}{at_line(flow.line_of(change))}: "
            f"version {version_after(flow, found)}, saved as version {found.version}",
            why=f"the derivative of {saver} is computed from the values that it saved, and these are overwritten",
            fix=_remedy(calls[change]),
            changed_line=call_out_of_place(case, change),
            **facts,
        )


def _remedy(change: Call) -> str:
    if change.function == "torch.Tensor.__setitem__":
        return (
            "make a new tensor: torch.stack() of a list of the parts, torch.where() for x[mask] = ...; or write into a "
            "copy (x = x.clone()), or after backward()"
        )
    return (
        "make a new tensor (x = x + y, not x += y; no inplace=True, no trailing underscore), change a copy "
        "(x.clone()), or change it after backward()"
    )
