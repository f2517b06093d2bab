"""GV892."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, callers, class_of, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.preparations import TAKE, Preparation, preparation
from gradviz.analysis.rules.bases.evaluations.scoring_calls import calls_on_data, is_for_a_loss
from gradviz.graph.traversal import scopes_around


class PreparedOtherwise(Rule):
    """A model is scored on data that are prepared in another way than those it is trained on.

    What it finds
    -------------
    A layer that gets samples of one tensor in training and in an evaluation, always after the same arithmetic in
    training, and always after another one, or none, in the evaluation: a mean that is subtracted, a division, a
    logarithm, two axes that are exchanged. Where something is drawn at random, or changes from step to step, it is
    an augmentation, and nothing is compared. Data of their own are compared where the same lines make them, and take
    their samples, as in two data sets of one class, of which only that of the training gets a mean subtracted.

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
            pair = _of_two_data_sets(case, trained[weight], shown)
            if pair is not None:
                yield self._finding_of_two(case, *pair)
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

    def _finding_of_two(self, case: Case, row: int, trained: Preparation, scored: Preparation) -> Finding:
        flow = case.dataflow
        missing = location_of_call(flow, trained.rows[-1])
        line = _line_that_differs(case, scored.root, trained.root) or _line_of_model(case, row)
        return self.finding(
            f"{_words(trained, len(scored.steps))}{at_line(missing)} prepare the data of the training, and not those "
            "of the evaluation, which the same lines take",
            symptom="none",
            why="the inputs of the evaluation are of another size than all that the model has learned from",
            fix="prepare both in the same way, with the numbers of the training",
            location=line,
            symptom_location=missing if missing != line else None,
        )


_MIN_TIMES = 3
_MAX_ROWS = 32
_MAX_MAKERS = 16


def _of_two_data_sets(case: Case, trained: list[int], scored: list[int]) -> tuple[int, Preparation, Preparation] | None:
    """An evaluation on data of their own, which the same lines make and take as those of the training, that leaves out
    products and sums with constants. Its results meet targets: it is no look at what the model makes of other inputs.
    """
    flow = case.dataflow
    trained, scored = (_recorded(case, rows) for rows in (trained, scored))
    one, other = (_only(case, rows) if rows else None for rows in (trained, scored))
    if one is None or other is None or flow.memory_of(other.root) == flow.memory_of(one.root):
        return None
    common = len(other.steps)
    if len(one.steps) <= common or one.steps[:common] != other.steps or not _are_affine(one.steps[common:]):
        return None
    is_found = _are_of_same_code(flow, trained[0], scored[0]) and _are_of_other_size(flow, trained[0], scored[0])
    return (scored[0], one, other) if is_found and _meets_targets(case, scored[0], set()) else None


def _recorded(case: Case, rows: list[int]) -> list[int]:
    """Those of some calls whose data were seen to be made: of a data set, the first batches are."""
    flow = case.dataflow
    if not flow.log.loaders:
        return rows
    return [row for row in rows if flow.newest_producer(flow.log.calls[row].inputs[0].tensor, row) is not None]


def _are_affine(steps: tuple[str, ...]) -> bool:
    return all(step.partition(" ")[0] in ("sub", "div", "true_divide", "mul") for step in steps)


def _are_of_same_code(flow: Dataflow, row: int, other: int) -> bool:
    """Whether the same line takes the samples for two layers, or makes the tensors that they are taken from."""
    pairs = zip(_origins(flow, row), _origins(flow, other), strict=True)
    return any(one is not None and one == two for one, two in pairs)


def _origins(flow: Dataflow, row: int) -> tuple[Location | None, Location | None]:
    """The line that took samples of a tensor for a layer, and the one that made this tensor."""
    makers = [each for each, _ in flow.makers(flow.log.calls[row].inputs[0].tensor, row, _MAX_MAKERS)]
    taken = next((each for each in makers if plain_name(flow.log.calls[each].function) in TAKE), None)
    return (
        None if taken is None else location_of_call(flow, taken),
        location_of_call(flow, makers[-1]) if makers else None,
    )


def _are_of_other_size(flow: Dataflow, row: int, other: int) -> bool:
    """Whether the values that two layers get do not have the same range: other data may have been prepared before."""
    known = [flow.values_of(flow.log.calls[each].inputs[0], each) for each in (row, other)]
    ranges = [(each.minimum, each.maximum) for each in known if each is not None]
    (low, high), (least, most) = ranges if len(ranges) == len(known) else ((0.0, 0.0), (0.0, 0.0))
    if low is None or high is None or least is None or most is None or high <= low or most <= least:
        return False
    wider = max(high - low, most - least) / min(high - low, most - least)
    apart = abs((low + high) - (least + most)) / 2
    return wider > _OTHER_SIZE or apart > _MOVED * max(high - low, most - least)


_OTHER_SIZE = 1.5
_MOVED = 0.25


def _line_that_differs(case: Case, root: int, other: int) -> Location | None:
    """The innermost line that made a tensor, and not another one which the same lines inside it made."""
    flow = case.dataflow
    made = [flow.newest_producer(each, len(flow.log.calls)) for each in (root, other)]
    if made[0] is None or made[1] is None:
        return None
    lines = [[location_of_line(site) for site in callers(flow, each)] for each in made if each is not None]
    return next((one for one, two in zip(*lines, strict=False) if one != two), None)


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


def _words(prepared: Preparation, first: int = 0) -> str:
    names = [f"{step.partition(' ')[0]}()" for step in prepared.steps[first:]]
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
