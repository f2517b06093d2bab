"""GV987."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.early_reads import EarlyRead, early_reads
from gradviz.analysis.dataflow.call_words import at_line, callers, function_of, location_of_call
from gradviz.analysis.dataflow.cuts import is_detach
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.refused_calls import calls_that_ended
from gradviz.analysis.dataflow.tensor_words import name_of, names_of, tensor_words
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule


class ReadBeforeGrad(Rule):
    """A derivative is asked for by a tensor that did not require grad yet when the result was computed from it.

    What it finds
    -------------
    A ``torch.autograd.grad()`` that ended the program, as it finds no path to a tensor, though what it starts from was
    computed from the values of this tensor: ``requires_grad_()`` came after that line. It names the line that computed
    from it too early, and the one that made it require grad. Errors that the program catches are left out.

    Why it matters
    --------------
    Torch notes what a result was computed from only if that requires grad at the time; ``requires_grad_()`` changes
    nothing of what exists already. The error says that the tensor was not used, where it was.

    Example
    -------
    def collate(positions):
        return {"positions": positions, "difference": positions[1:] - positions[:-1]}

    network = torch.nn.Linear(3, 1)
    batch = collate(torch.randn(5, 3))
    batch["positions"].requires_grad_()
    energy = network(batch["difference"]).tanh().sum()
    (forces,) = torch.autograd.grad(energy, batch["positions"])

    Instead
    -------
    def collate(positions):
        positions.requires_grad_()
        return {"positions": positions, "difference": positions[1:] - positions[:-1]}

    network = torch.nn.Linear(3, 1)
    batch = collate(torch.randn(5, 3))
    energy = network(batch["difference"]).tanh().sum()
    (forces,) = torch.autograd.grad(energy, batch["positions"])
    """

    code = "GV987"
    name = "read_before_grad"
    severity = "error"
    yields_to = ("requires_grad_false",)

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        ended = [row for row in calls_that_ended(case.capture, flow) if flow.log.calls[row].kind == "backward"]
        for row in ended[-1:]:
            # requires_grad_(False) cuts nothing off that is switched on again.
            cuts = (found for found in case.cut_off if found.cut.kind != "requires_grad_off")
            cut_off = {tensor for found in cuts for tensor in found.tensors}
            reads = [read for read in early_reads(flow, row) if read.tensor not in cut_off]
            if reads:
                yield self._finding(case, row, reads)

    def _finding(self, case: Case, row: int, reads: Sequence[EarlyRead]) -> Finding:
        flow, first = case.dataflow, reads[0]
        who = tensor_words(flow, first.tensor)
        switch = location_of_call(flow, first.switched) if first.is_switch else None
        early = _line_that_reads(flow, first)
        place = early if first.cut is None else _line_that_cuts(flow, first.cut)
        here = _name_at(case, first.tensor, early) or "it"
        sooner = f"call requires_grad_() on {here} before " + ("it is used" if early is None else f"line {early.line}")
        if first.cut is None:
            how, more = at_line(early), _or_anew(flow, reads, switch)
        elif is_detach(flow.log.calls[first.cut]):
            how, more = f", through detach(){at_line(place)},", f", and leave out detach(){at_line(place)}"
        else:
            how, more = f" without gradients{at_line(place)}", ", and compute it with gradients on"
        return self.finding(
            f"{_root_words(flow, row)} was computed from {who}{how} before {who} required grad{at_line(switch)}, so "
            "that autograd.grad() finds no path to it",
            symptom="raises",
            why="torch notes what a result was computed from while it is computed: requires_grad_() changes nothing of "
            "what exists already",
            fix=sooner + more,
            location=place,
            symptom_location=location_of_call(flow, row) if switch in (None, place) else switch,
            tensors=names_of(flow, dict.fromkeys(read.tensor for read in reads)),
        )


def _line_that_reads(flow: Dataflow, read: EarlyRead) -> Location | None:
    """The line that took the tensor, in the innermost function that made it, or made it require grad: not inside of
    what that calls, unless the same line did both."""
    made = flow.first_producer(read.tensor, read.call)
    others = [line for row in (made, read.switched) if row is not None for line in callers(flow, row)]
    functions = {(line.file, function_of(line)) for line in others}
    lines = {location_of_line(line) for line in others}
    found: Location | None = None
    for line in callers(flow, read.call):
        location = location_of_line(line)
        if (line.file, function_of(line)) in functions:
            return location if found is None or location not in lines else found
        found = location
    return location_of_call(flow, read.call)


def _name_at(case: Case, tensor: int, location: Location | None) -> str | None:
    """The name that a line has for the tensor."""
    text = case.source_line(location) or ""
    names = sorted(case.dataflow.log.tensors[tensor].names, key=len, reverse=True)
    return next((name for name in names if re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text)), None)


def _line_that_cuts(flow: Dataflow, row: int) -> Location | None:
    """The line with ``detach()``, or the one that switched gradients off."""
    call = flow.log.calls[row]
    return location_of_call(flow, row) if is_detach(call) else location_of_line(flow.line(call.grad_mode_site))


def _or_anew(flow: Dataflow, reads: Sequence[EarlyRead], switch: Location | None) -> str:
    """The other way, if all that was computed too early is one result with a name."""
    kept = {read.kept for read in reads if read.tensor == reads[0].tensor}
    names = names_of(flow, kept)
    return f", or compute {names[0]} anew behind line {switch.line}" if len(kept) == len(names) == 1 and switch else ""


def _root_words(flow: Dataflow, row: int) -> str:
    """The nearest name of what a backward call starts from: ``energy`` for ``energy.sum()``."""
    root = flow.log.calls[row].roots[0].tensor
    made = (use.tensor for _, call in flow.makers(root, row, _NEAR) for use in call.outputs[:1])
    names = (name_of(flow.log.tensors[tensor]) for tensor in (root, *made))
    return next((name for name in names if name is not None), "what it starts from")


_NEAR = 3
"""Calls without a name between a result and a reduction of it."""
