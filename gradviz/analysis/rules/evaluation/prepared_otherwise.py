"""GV892."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, callers, class_of, location_of_call
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.preparations import Preparation, preparation
from gradviz.analysis.rules.bases.evaluations.scoring_calls import calls_on_data, is_for_a_loss
from gradviz.graph.traversal import scopes_around


class PreparedOtherwise(Rule):
    """A model is scored on data that are prepared in another way than those it is trained on.

    What it finds
    -------------
    A layer that gets samples of one tensor in training and in an evaluation, always after the same arithmetic in
    training, and always after another one, or none, in the evaluation: a mean that is subtracted, a division, a
    logarithm, two axes that are exchanged. Where something is drawn at random, or changes from step to step, it is
    an augmentation, and nothing is compared.

    Why it matters
    --------------
    The evaluation shows the model inputs that it has never seen. Its score is bad though the model is good, and nothing
    raises.

    Example
    -------
    x = torch.randn(64, 4) * 20 + 100
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for start in range(0, 48, 16):
        batch = (x[start : start + 16] - 100) / 20
        loss = (model(batch) - batch[:, :1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        held_out = x[48:]
        print(model(held_out).mean())

    Instead
    -------
    x = torch.randn(64, 4) * 20 + 100
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for start in range(0, 48, 16):
        batch = (x[start : start + 16] - 100) / 20
        loss = (model(batch) - batch[:, :1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        held_out = (x[48:] - 100) / 20
        print(model(held_out).mean())
    """

    code = "GV892"
    name = "prepared_otherwise"
    severity = "warning"
    yields_to = ("pixels_scaled_otherwise",)

    def check(self, case: Case) -> Iterator[Finding]:
        trained, scored = calls_on_data(case)
        for weight in sorted(trained.keys() & scored.keys()):
            shown = list(islice((row for row in scored[weight] if not is_for_a_loss(case, row)), _MAX_ROWS))
            if not shown:
                continue
            one = _only(case, trained[weight]) if len(trained[weight]) >= _MIN_TIMES else None
            other = None if one is None else _only(case, shown, one.root)
            if one is not None and other is not None and _differ(case, shown[0], one, other):
                yield self._finding(case, shown[0], one, other)
                return

    def _finding(self, case: Case, row: int, trained: Preparation, scored: Preparation) -> Finding:
        flow = case.dataflow
        line = _line_of_model(case, row)
        if len(scored.rows) > len(trained.rows):
            line = location_of_call(flow, scored.rows[-1])
        prepared = location_of_call(flow, trained.rows[-1]) if trained.rows else None
        return self.finding(
            f"the model is trained on {case.tensor_name(trained.root)} after {_words(trained)}{at_line(prepared)}, and "
            f"scored on it after {_words(scored)}",
            symptom="none",
            why="the inputs of the evaluation are of another size than all that the model has learned from",
            fix="prepare both in the same way, with the numbers of the training",
            location=line,
            symptom_location=prepared if prepared != line else None,
        )


_MIN_TIMES = 3
_MAX_ROWS = 32


def _differ(case: Case, row: int, trained: Preparation, scored: Preparation) -> bool:
    """Whether a layer gets something else in the evaluation. Where only the evaluation changes the samples, what comes
    of them has to meet targets that do not follow from them: it may be asked for what lies beyond, or in between."""
    common = len(trained.steps)
    if trained.effects == scored.effects:
        return False
    return trained.steps != scored.steps[:common] or _meets_targets(case, row, {*scored.rows[common:]})


def _meets_targets(case: Case, row: int, changes: set[int]) -> bool:
    flow, calls = case.dataflow, case.dataflow.log.calls
    below = flow.descendants(calls[row].outputs[0].tensor, row, case.histories.backward_after(row))
    made = {use.tensor for each in (row, *below) for use in calls[each].outputs}
    others = ((each, use) for each in below for use in calls[each].inputs if use.tensor not in made)
    return any(
        flow.log.tensors[use.tensor].role == "tensor"
        and use.tensor not in case.histories.trained
        and shape_of(flow, use.tensor) != ()
        and changes.isdisjoint(flow.ancestors(use.tensor, each))
        for each, use in others
    )


def _words(prepared: Preparation) -> str:
    names = [f"{step.partition(' ')[0]}()" for step in prepared.steps]
    return " and ".join(names) if names else "nothing"


def _only(case: Case, rows: list[int], root: int | None = None) -> Preparation | None:
    """The preparation of what these layers get of one tensor, if it is the same each time; for the first ones only.

    Args:
        root: what has other memory than this tensor is left out; without it there must be one memory.
    """
    flow = case.dataflow
    found = [preparation(flow, flow.log.calls[row].inputs[0].tensor, row) for row in rows[:_MAX_ROWS]]
    known = [each for each in found if each is not None]
    if root is not None:
        known = [each for each in known if flow.memory_of(each.root) == flow.memory_of(root)]
    elif len(known) < len(found):
        return None
    ways = {(flow.memory_of(each.root), each.effects) for each in known}
    return known[-1] if len(ways) == 1 else None


def _line_of_model(case: Case, row: int) -> Location | None:
    """The innermost line behind a call that is in no method of the modules around it."""
    flow, log = case.dataflow, case.dataflow.log
    classes = {log.scopes[each].class_name for each in scopes_around(log.scopes, log.calls[row].scope)}
    outside = (line for line in callers(flow, row) if class_of(line) not in classes)
    return location_of_line(next(outside, flow.line_of(row)))
