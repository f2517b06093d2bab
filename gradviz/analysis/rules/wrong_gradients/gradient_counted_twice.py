"""GV609."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.cut_causes import is_gradient
from gradviz.analysis.dataflow.call_words import at_line, location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.gradients.gradient_events import Event
from gradviz.analysis.parameters.creation_lines import line_apart
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.targets.totals_in_sums import (
    Total,
    part_of_another_root,
    total_beside_its_parts,
)

_MOST_LOOKED_AT = 20
"""Backward calls from one line of which the terms are looked at."""
_MAX_BETWEEN = 4
"""Backward calls between the two that are compared."""


class GradientCountedTwice(Rule):
    """The same loss goes backward twice before a step, so its gradient counts twice.

    What it finds
    -------------
    Two backward calls without a step in between, where the second starts from the same loss, or from a sum that
    contains the loss of the first. One backward call of several losses, one of which is a sum that contains another
    one. A backward call before ``step(closure)``, where the closure computes the same loss once more and clears
    nothing. And a loss that adds up several terms and also their sum, as ``sum(terms.values())`` does where the terms
    contain their total.

    Why it matters
    --------------
    ``backward()`` adds to ``.grad``. The gradient of the first loss is in it twice, so this loss weighs twice as much
    as was written.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        error = model(torch.randn(5, 4)).square().mean()
        error.backward(retain_graph=True)
        loss = error + 0.1 * model.weight.square().sum()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        error = model(torch.randn(5, 4)).square().mean()
        loss = error + 0.1 * model.weight.square().sum()
        loss.backward()
        optimizer.step()
    """

    code = "GV609"
    name = "gradient_counted_twice"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        histories = case.histories
        told: set[object] = set()
        events = case.gradient_events.events if histories.reached_by else {}
        for first, second, tensor in _pairs(histories):
            both = histories.reached_by[first] & histories.reached_by[second]
            leaves = sorted(leaf for leaf in both if _meet_in_a_step(events.get(leaf, []), first, second))
            lines = location_of_call(histories.flow, first), location_of_call(histories.flow, second)
            if leaves and lines not in told:
                told.add(lines)
                yield self._finding(histories, first, second, tensor, leaves)
        yield from self._of_closures(histories, events)
        yield from self._of_one_backward(histories, events)

    def _of_closures(
        self, histories: ParameterHistories, events: dict[int, list[tuple[int, Event]]]
    ) -> Iterator[Finding]:
        """Of each line, the first backward call whose loss the closure of the next step computes once more."""
        flow, told = histories.flow, set[object]()
        for first, second in _called_before_its_step(histories):
            step = flow.log.calls[second].inside
            both = sorted(histories.reached_by[first] & histories.reached_by[second])
            leaves = [leaf for leaf in both if _only_step_between(events.get(leaf, []), first, second, step)]
            line, at_step = line_apart(flow, first, second), location_of_call(flow, step or second)
            if not leaves or line in told:
                continue
            told.add(line)
            yield self.finding(
                f"the gradient of {histories.name(flow.log.calls[first].roots[0].tensor)} counts twice: the closure of "
                f"step(){at_line(at_step)} computes the same loss again, and its backward adds to what is there",
                symptom="grad_wrong",
                why="nothing clears the gradients between the two backward calls, and backward() adds to .grad",
                fix="call only step(closure), which returns the loss; or clear the gradients in the closure",
                location=location_of_line(line),
                symptom_location=at_step if at_step != location_of_line(line) else None,
                tensors=names_of(flow, leaves),
                evidence={"parameters": len(leaves)},
            )

    def _of_one_backward(
        self, histories: ParameterHistories, events: dict[int, list[tuple[int, Event]]]
    ) -> Iterator[Finding]:
        """Of each line of a backward call, the first time that it goes twice through some terms."""
        flow, told, looked_at = histories.flow, set[int | None](), Counter[int | None]()
        for row, leaves in histories.reached_by.items():
            if flow.log.calls[row].call_site in told or not flow.log.calls[row].function.endswith(".backward"):
                continue
            looked_at[flow.log.calls[row].call_site] += 1
            if looked_at[flow.log.calls[row].call_site] > _MOST_LOOKED_AT:
                continue
            used = sorted(leaf for leaf in leaves if _meet_in_a_step(events.get(leaf, []), row, row))
            part = part_of_another_root(flow, row)
            total = None if part is not None else total_beside_its_parts(flow, row)
            if not used or (part is None and total is None):
                continue
            told.add(flow.log.calls[row].call_site)
            if part is not None:
                yield self._of_roots(histories, row, part, used)
            elif total is not None:
                yield self._of_total(histories, total, used)

    def _of_roots(self, histories: ParameterHistories, row: int, part: int, leaves: list[int]) -> Finding:
        flow = histories.flow
        return self.finding(
            f"the gradient of {histories.name(part)} counts twice: this backward starts from it, and from a sum that "
            "contains it",
            symptom="grad_wrong",
            why="backward() adds up the gradients of all losses that it is given, so what two of them go through is in "
            "it twice",
            fix="call backward() of the sum alone: total.backward()",
            location=location_of_call(flow, row),
            tensors=names_of(flow, leaves),
            evidence={"parameters": len(leaves)},
        )

    def _of_total(self, histories: ParameterHistories, total: Total, leaves: list[int]) -> Finding:
        flow = histories.flow
        here, made = location_of_call(flow, total.added), location_of_call(flow, total.made)
        return self.finding(
            f"the gradients of {total.parts:,} terms count twice: the loss adds them up, and also their sum"
            f"{at_line(made)}",
            symptom="grad_wrong",
            why="their total is among the terms, so each of them is in the loss on its own and in the total",
            fix="leave the total out of the sum, or call backward() of the total alone",
            location=here,
            symptom_location=made if made != here else None,
            tensors=names_of(flow, leaves),
            evidence={"parameters": len(leaves), "terms": total.parts},
        )

    def _finding(
        self, histories: ParameterHistories, first: int, second: int, tensor: int, leaves: list[int]
    ) -> Finding:
        flow = histories.flow
        is_same = any(use.tensor == tensor for use in flow.log.calls[second].roots)
        what = "starts from the same loss" if is_same else "starts from a sum that contains it"
        here, there = location_of_call(flow, first), location_of_call(flow, second)
        return self.finding(
            f"the gradient of {histories.name(tensor)} counts twice: the next backward {what}, with no step in between",
            symptom="grad_wrong",
            why="backward() adds to .grad, so what both calls go through is in it twice",
            fix="leave out one of the two backward calls",
            location=here,
            symptom_location=there if there != here else None,
            tensors=names_of(flow, leaves),
            evidence={"parameters": len(leaves)},
        )


def _pairs(histories: ParameterHistories) -> Iterator[tuple[int, int, int]]:
    """Backward calls that keep their graph, with a later one that goes through the same root, and that root."""
    calls, flow = histories.log.calls, histories.flow
    rows = [row for row in histories.reached_by if calls[row].function.endswith(".backward")]
    for index, first in enumerate(rows):
        if not calls[first].scalars.get("retain_graph"):
            continue
        for second in rows[index + 1 : index + 1 + _MAX_BETWEEN]:
            roots = {use.tensor for use in calls[second].roots}
            for use in calls[first].roots:
                made = flow.producers(use.tensor, first)
                below = flow.descendants(use.tensor, made[-1] if made else None, second, live=True)
                # The derivative of a loss is another quantity than the loss.
                is_differentiated = any(is_gradient(calls[row]) for row in below) or any(
                    calls[row].kind == "backward" and row not in (first, second) for row in below
                )
                is_in_sum = any(out.tensor in roots for row in below for out in calls[row].outputs)
                if use.tensor in roots or (is_in_sum and not is_differentiated):
                    yield first, second, use.tensor


def _called_before_its_step(histories: ParameterHistories) -> Iterator[tuple[int, int]]:
    """Backward calls of the program, with the next one, which the closure of a step makes from a loss of the same
    value."""
    calls, flow = histories.log.calls, histories.flow
    for first, second in pairwise(row for row in histories.reached_by if calls[row].function.endswith(".backward")):
        around = calls[second].inside
        is_in_step = around is not None and first < around and calls[around].kind == "step"
        if is_in_step and calls[first].inside is None and len(calls[first].roots) == len(calls[second].roots) == 1:
            one, other = (flow.values_of(calls[row].roots[0], row) for row in (first, second))
            if one is not None and one == other and one.minimum not in (None, 0.0):
                yield first, second


def _only_step_between(events: Sequence[tuple[int, str]], first: int, second: int, step: int | None) -> bool:
    """Whether nothing happens to a gradient between the two but that this step begins."""
    return all(row == step or kind == "backward" for row, kind in events if first < row < second)


def _meet_in_a_step(events: Sequence[tuple[int, str]], first: int, second: int) -> bool:
    """Whether one step uses the gradients of both."""
    between = [kind for row, kind in events if first < row < second]
    after = next((kind for row, kind in events if row > second and kind != "backward"), None)
    return all(kind == "backward" for kind in between) and after == "step"
