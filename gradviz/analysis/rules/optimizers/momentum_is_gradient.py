"""GV734."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from msgspec.structs import replace

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of, together
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.graph.call_log import Call


class MomentumIsGradient(Rule):
    """The momentum of a hand-written optimizer is the gradient itself, so that nothing is kept from step to step.

    What it finds
    -------------
    A momentum or running average that was begun with ``buffer = p.grad``, without ``clone()``, while the program sets
    gradients to zero in place: ``buffer.mul_(0.9).add_(p.grad)`` adds a tensor to itself at every step.

    Why it matters
    --------------
    The buffer and the gradient share their memory. ``zero_()`` clears both, and backward writes the new gradient into
    both, so there is no momentum: each step is only longer. Later reads of ``.grad`` get the changed values as well.

    Example
    -------
    weight, momentum = torch.randn(4, 1, requires_grad=True), None
    for step in range(4):
        if weight.grad is not None:
            weight.grad.zero_()
        (torch.randn(8, 4) @ weight - 1).square().mean().backward()
        with torch.no_grad():
            if momentum is None:
                momentum = weight.grad
            else:
                momentum.mul_(0.9).add_(weight.grad)
            weight -= 0.1 * momentum

    Instead
    -------
    weight, momentum = torch.randn(4, 1, requires_grad=True), None
    for step in range(4):
        if weight.grad is not None:
            weight.grad.zero_()
        (torch.randn(8, 4) @ weight - 1).square().mean().backward()
        with torch.no_grad():
            if momentum is None:
                momentum = weight.grad.clone()
            else:
                momentum.mul_(0.9).add_(weight.grad)
            weight -= 0.1 * momentum
    """

    code = "GV734"
    name = "momentum_is_gradient"
    severity = "warning"
    yields_to = ("gradients_overwritten",)

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        lines: dict[int | None, list[tuple[int, frozenset[int]]]] = defaultdict(list)
        for row, call in calls_named(flow, _ADD):
            if call.changed and len(call.inputs) > 1:
                lines[call.call_site].append((row, _leaves_of_added(flow, row, call)))
        for calls in lines.values():
            # All calls of the line, in several steps.
            if not all(leaves for _, leaves in calls):
                continue
            if len({flow.backward_before(row) for row, _ in calls}) >= _MIN_STEPS:
                yield self._finding(case, [row for row, _ in calls], frozenset().union(*(each for _, each in calls)))

    def _finding(self, case: Case, rows: list[int], leaves: frozenset[int]) -> Finding:
        flow = case.dataflow
        added = location_of_call(flow, rows[-1])
        location = _line_of_storing(case, rows[0], added) or added
        names = names_of(flow, sorted(leaves))
        whose = f"of {together(names)} " if names else ""
        return self.finding(
            f"the running average {whose}is the gradient itself, which is added to itself{_at(added, location)}: "
            "the memory of both is one, so nothing is kept from step to step",
            symptom="grad_wrong",
            why="clearing the gradient clears the average, and backward writes the new gradient into it",
            fix="keep a copy: p.grad.clone(), or begin with torch.zeros_like(p)",
            location=location,
            symptom_location=added if added != location else None,
            tensors=names,
        )


_ADD = frozenset({"add", "iadd", "lerp"})
_MIN_STEPS = 2
_MAX_LINES = 40
_STORES = re.compile(r"\s*[\w.\[\]'\"()]+\s*=\s*[\w.\[\]'\"()]+\.grad(\.data|\.detach\(\))?\s*(#.*)?$")


def _leaves_of_added(flow: Dataflow, row: int, call: Call) -> frozenset[int]:
    """The leaves whose gradient a call adds to itself, after it was multiplied in place as averages are."""
    into, rest = call.inputs[0].tensor, call.inputs[1].tensor
    storage = flow.log.tensors[into].storage
    is_one = into == rest or (storage is not None and storage == flow.log.tensors[rest].storage)
    if not is_one or shape_of(flow, into) != shape_of(flow, rest):
        return frozenset()
    shared = {into, rest, *flow.sharing_memory(into)}
    leaves = frozenset(leaf for each in shared if (leaf := flow.log.tensors[each].gradient_of) is not None)
    is_average = plain_name(call.function) == "lerp" or _is_decayed(flow, row, into)
    return (
        leaves if is_average and any(flow.changes(leaf, row, len(flow.log.calls)) for leaf in leaves) else frozenset()
    )


def _is_decayed(flow: Dataflow, row: int, tensor: int) -> bool:
    """Whether the last change of a tensor in this step was to multiply it by a number."""
    before = flow.backward_before(row)
    changes = flow.changes(tensor, -1 if before is None else before, row)
    last = flow.log.calls[changes[-1]] if changes else None
    return last is not None and plain_name(last.function) == "mul" and len(last.inputs) == 1


def _line_of_storing(case: Case, row: int, added: Location | None) -> Location | None:
    """The line that keeps ``p.grad`` under another name: the only one above the line that adds, or that took the
    memory of the gradient as another tensor."""
    lines = {} if added is None else case.capture.sources.get(added.file, {})
    if added is None:
        return None
    near = range(max(1, added.line - _MAX_LINES), added.line + 1)
    stores = [line for line in near if _STORES.match(lines.get(line, "")) and not _is_other_name(lines, line)]
    return replace(added, line=stores[-1]) if stores else None


def _is_other_name(lines: dict[int, str], line: int) -> bool:
    """Whether a line gives the gradient a plain name for the lines below, as ``g = p.grad``."""
    return re.match(r"\s*(g|grad|d_p|dp|gradient)\s*=", lines[line]) is not None


def _at(added: Location | None, location: Location | None) -> str:
    return "" if added is None or added == location else f" at line {added.line}"
