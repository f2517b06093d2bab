"""A function that detaches what it is given, which one loss needs as it is: another loss should not use its result."""

from __future__ import annotations

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.missing_gradients import CutOff
from gradviz.analysis.dataflow.call_words import at_line, line_that_gave
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Location, location_of_line
from gradviz.analysis.rules.bases.cut_rule import BetterLine


def line_that_uses(case: Case, found: CutOff) -> BetterLine | None:
    """The line that gave a tensor to such a function, as to the pool of older samples of a discriminator."""
    if found.is_refused or found.is_partial or not _is_needed_elsewhere(case.dataflow, found):
        return None
    location = _line_that_called(case, found)
    cut = at_line(case.dataflow.line_of(found.cut.call))
    return None if location is None else BetterLine(location, f"another loss needs it{cut}", _FIX)


_FIX = "compute this loss from the tensor itself, and give it to the function that detaches it only for the other loss"


def _is_needed_elsewhere(flow: Dataflow, found: CutOff) -> bool:
    """Whether another loss is computed from the detached tensor, too, and has a gradient: that of a discriminator."""
    calls, own = flow.log.calls, flow.log.calls[found.backward].call_site
    below = {row for tensor in found.cut.dead_outputs for row in flow.descendants(tensor, found.cut.call)}
    others = (calls[row] for row in below if calls[row].kind == "backward" and calls[row].call_site != own)
    return any(use.requires_grad for call in others for use in call.roots)


def _line_that_called(case: Case, found: CutOff) -> Location | None:
    """The line that called the function with the cut; None if that function computes what it cuts itself."""
    flow, cut = case.dataflow, found.cut
    makers = [flow.newest_producer(tensor, cut.call) for tensor in cut.live_inputs]
    lines = [None if maker is None else line_that_gave(flow, cut.call, maker) for maker in makers]
    return location_of_line(lines[0]) if lines and None not in lines else None
