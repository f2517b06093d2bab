"""GV690."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.samples.unscaled_by_hand import Unscaled, unscaled_by_hand


class UnscaledLoss(Rule):
    """A scaler of mixed precision divides the gradients of a loss that it never multiplied.

    What it finds
    -------------
    ``scaler.step(optimizer)`` of a ``GradScaler`` after the backward of a loss that did not go through
    ``scaler.scale()``, also of one of several losses; torch refuses it only if nothing was ever scaled. Losses that the
    program multiplies itself by what ``get_scale()`` returns are left alone. Also a scaler that the program writes
    itself: gradients that are divided by a power of two before each step, where it looks for Inf or calls the number a
    scale, of a loss that no such number multiplies.

    Why it matters
    --------------
    ``scaler.step`` divides by the scale, 65,536 at first: the gradients become tiny, and gradient descent hardly moves
    anything. Small gradients in half precision are lost before, which the scale was to prevent.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).square().mean()
        scaler.scale(loss)
        loss.backward()
        scaler.step(optimizer)
        scaler.update()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    """

    code = "GV690"
    name = "unscaled_loss"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        error = case.capture.error
        backwards = case.histories.backward_calls
        if error is not None and _REFUSED.match(error.message) and backwards:
            refused = None if error.call_site is None else Location(*error.call_site)
            yield self._finding(case, [backwards[-1]], refused, severity="error", symptom="raises")
            return
        lines: dict[Location | None, list[tuple[int, int]]] = defaultdict(list)
        scales = _scales(case.dataflow)
        for step, backward in _steps_of_scalers(case) if scales else ():
            lines[location_of_call(case.dataflow, backward)].append((step, backward))
        for found in lines.values():
            rows = [backward for _, backward in found[-_MAX_LOOKS:]]
            if len(rows) >= _MIN_STEPS and not any(_is_scaled(case, row, scales) for row in rows):
                yield self._finding(case, rows, location_of_call(case.dataflow, found[0][0]), symptom="vanishing")

        for found_by_hand in unscaled_by_hand(case).values():
            newest = found_by_hand[-_MAX_LOOKS:]
            if len(newest) >= _MIN_STEPS and not any(each.is_scaled for each in newest):
                yield self._by_hand(case, newest[-1])

    def _by_hand(self, case: Case, found: Unscaled) -> Finding:
        flow = case.dataflow
        location, divided = two_lines(flow, found.backward, found.division)
        return self.finding(
            f"the gradients are divided by {found.scale:,.0f}{at_line(divided)}, and nothing multiplied the loss by "
            "that scale",
            symptom="vanishing",
            why="a scaler multiplies the loss before backward, so that small gradients are not lost, and divides the "
            "gradients by the same number",
            fix=f"multiply the loss: (loss * {found.scale:,.0f}).backward(), with the scale of the scaler",
            location=location,
            symptom_location=divided,
            tensors=names_of(flow, sorted(case.histories.reached_by.get(found.backward, ()))),
            evidence={"scale": found.scale},
        )

    def _finding(self, case: Case, rows: list[int], step: Location | None, **facts: str) -> Finding:
        flow = case.dataflow
        return self.finding(
            f"the scaler{at_line(step)} unscales gradients of a loss that was never scaled",
            why="it divides them by the scale of the scaler, by which only scaler.scale(loss) multiplies",
            fix="write scaler.scale(loss).backward()",
            location=location_of_call(flow, rows[-1]),
            symptom_location=step,
            tensors=names_of(flow, sorted(case.histories.reached_by.get(rows[-1], ()))),
            **facts,
        )


_REFUSED = re.compile(r"Attempted (step|unscale_) but _scale is None")
_MIN_STEPS = 2
_MAX_LOOKS = 4


def _steps_of_scalers(case: Case) -> Iterator[tuple[int, int]]:
    """Steps that a scaler makes after it has looked for Inf, each with the newest backward of what it moves."""
    flow, reached, backwards = case.dataflow, case.histories.reached_by, case.histories.backward_calls
    for step in case.histories.steps:
        moved = {use.tensor for use in flow.log.calls[step].inputs}
        end = bisect_left(backwards, step)
        newest = backwards[max(0, end - _MAX_BACKWARDS) : end]
        known = [row for row in newest if not moved.isdisjoint(reached.get(row, ()))]
        if known and _is_of_scaler(flow, step) and flow.log.calls[known[-1]].function.endswith("backward"):
            yield step, known[-1]


_MAX_BACKWARDS = 8


def _is_of_scaler(flow: Dataflow, step: int) -> bool:
    """Whether the call before a step reads the number of Inf, which a scaler begins at zero, on the same line."""
    read = flow.log.calls[step - 1]
    if plain_name(read.function) != "item" or read.result != 0.0 or flow.line_of(step - 1) != flow.line_of(step):
        return False
    copied = flow.producers(read.inputs[0].tensor, step - 1)[:1]
    sources = [use.tensor for row in copied for use in flow.log.calls[row].inputs[:1]]
    return any(
        flow.log.calls[row].function == "torch.full" for source in sources for row in flow.producers(source, step)[:1]
    )


def _scales(flow: Dataflow) -> frozenset[int]:
    """The numbers by which scalers multiply: what they update."""
    updates = (call for call in flow.log.calls if call.function.endswith("_amp_update_scale_"))
    return frozenset(call.inputs[0].tensor for call in updates if call.inputs)


def _is_scaled(case: Case, backward: int, scales: frozenset[int]) -> bool:
    """Whether a scale, or the number that was read of one, is among what a loss was computed from."""
    flow = case.dataflow
    call = flow.log.calls[backward]
    numbers = {flow.log.calls[row].result for scale in scales for row in flow.users(scale)} - {None}
    if any(use.tensor in scales for use in call.inputs):
        return True
    for root in call.roots:
        for row in flow.ancestors(root.tensor, backward, flow.step_before(backward)):
            above = flow.log.calls[row]
            if any(use.tensor in scales for use in above.inputs) or numbers.intersection(above.scalars.values()):
                return True
    return False
