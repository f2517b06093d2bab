"""GV883."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.parameters.copied_parameters import original_of
from gradviz.analysis.rule import Rule


class CopyNeverUpdated(Rule):
    """What is scored is a copy of the model from before its training, which nothing ever changes.

    What it finds
    -------------
    Copies of trained parameters that were made before the first step, as ``AveragedModel`` and ``copy.deepcopy()`` make
    them, and that nothing writes. They compute something after the steps, without gradients, that no loss uses, while
    the trained model itself is never run for anything but its loss, and nothing compares the two.

    Why it matters
    --------------
    The score is that of the initial weights, however well the model trains: it stays the same from epoch to epoch. An
    average of weights has to be told after each step what to average.

    Example
    -------
    import copy
    model = torch.nn.Linear(4, 1)
    average = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        x = torch.randn(16, 4)
        loss = (model(x) - x[:, :1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            error = (average(x) - x[:, :1]).abs().mean()

    Instead
    -------
    import copy
    model = torch.nn.Linear(4, 1)
    average = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        x = torch.randn(16, 4)
        loss = (model(x) - x[:, :1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for kept, new in zip(average.parameters(), model.parameters()):
                kept.lerp_(new, 0.1)
            error = (average(x) - x[:, :1]).abs().mean()
    """

    code = "GV883"
    name = "copy_never_updated"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        histories, flow = case.histories, case.dataflow
        steps = histories.steps
        if len(steps) < _MIN_STEPS:
            return
        others = (n for n in flow.log.parameters if n not in histories.trained)
        still = [n for n in others if _is_of_the_start(case, n) and _is_scored_only(case, n)]
        pairs = {n: original for n in still if (original := original_of(histories, n, histories.trained)) is not None}
        stale = list(pairs)
        if stale and not any(_is_scored(case, pairs[each]) or _is_compared(case, each, pairs[each]) for each in stale):
            scored = max(row for row in histories.forward_uses(stale[0]))
            yield self.finding(
                f"{histories.together(stale)} {'is' if len(stale) == 1 else 'are'} scored, and nothing has changed "
                f"{'it' if len(stale) == 1 else 'them'} since {'it was' if len(stale) == 1 else 'they were'} copied "
                f"from {histories.together([pairs[stale[0]]])} before {len(steps):,} steps",
                symptom="none",
                why="the copy has the initial weights: what is measured says nothing about the training",
                fix="bring the copy up to date after each step, as AveragedModel.update_parameters(model) does, or "
                "score the trained model",
                location=location_of_line(histories.line_where_made(stale[0])),
                symptom_location=location_of_call(flow, scored),
                tensors=names_of(flow, stale),
                evidence={"steps": len(steps), "parameters": len(stale)},
            )


_MIN_STEPS = 3


def _is_of_the_start(case: Case, copied: int) -> bool:
    """Whether a copy was made before the first step, and has been what it was since then."""
    histories, flow = case.histories, case.dataflow
    made = histories.made_by(copied)
    if made is None or made > histories.steps[0] or histories.tensor(copied).is_moved:
        return False
    is_assigned = any(flow.data_assignments.get(each) for each in flow.sharing_memory(copied))
    return not is_assigned and not flow.changes(copied, histories.steps[0], len(flow.log.calls))


def _is_scored_only(case: Case, copied: int) -> bool:
    """Whether a copy computes something behind the last step, and nothing that a backward uses."""
    flow, uses = case.dataflow, case.histories.forward_uses(copied)
    if (
        not uses
        or uses[-1] < case.histories.steps[-1]
        or any(flow.log.calls[row].grad_mode == "enabled" for row in uses)
    ):
        return False
    return all(flow.log.calls[row].kind == "operation" for row in flow.descendants(copied, uses[0] - 1))


def _is_scored(case: Case, trained: int) -> bool:
    """Whether a trained parameter computes something without gradients after the first step, or behind the last."""
    first, last = case.histories.steps[0], case.histories.steps[-1]
    uses = case.histories.forward_uses(trained, after=first)
    return any(row > last or case.dataflow.log.calls[row].grad_mode != "enabled" for row in uses)


def _is_compared(case: Case, copied: int, trained: int) -> bool:
    """Whether a call takes what came of both: how far a model has moved from its start is meant."""
    flow = case.dataflow
    since = case.histories.forward_uses(copied)[0] - 1
    first = flow.step_before(since)
    return not {*flow.descendants(copied, since)}.isdisjoint(flow.descendants(trained, first))
