"""GV714."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.dataflow.tensor_words import names_of, together
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule


class StatisticsNeverUpdated(Rule):
    """A copy follows a trained model, but keeps the batch statistics of an untrained one.

    What it finds
    -------------
    Batch normalization in evaluation mode whose weights are overwritten while training runs, or get other memory (a
    moving average, a teacher), and whose running mean and variance are still 0 and 1, as they were made: nothing ever
    updates them.

    Why it matters
    --------------
    ``parameters()`` does not contain buffers. A copy that only follows the parameters normalizes with mean 0 and
    variance 1, whatever the data are: its results are wrong, and nothing raises.

    Example
    -------
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    average = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)).eval().requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        with torch.no_grad():
            for mine, theirs in zip(average.parameters(), model.parameters()):
                mine.lerp_(theirs, 0.1)
            average(torch.randn(8, 4))

    Instead
    -------
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    average = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)).eval().requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        with torch.no_grad():
            for mine, theirs in zip(average.parameters(), model.parameters()):
                mine.lerp_(theirs, 0.1)
            for mine, theirs in zip(average.buffers(), model.buffers()):
                mine.copy_(theirs)
            average(torch.randn(8, 4))
    """

    code = "GV714"
    name = "statistics_never_updated"
    severity = "warning"
    yields_to = ("evaluation_mode",)

    def check(self, case: Case) -> Iterator[Finding]:
        flow, steps = case.dataflow, case.histories.steps
        found: dict[Location | None, dict[int, int]] = defaultdict(dict)
        for row, call in enumerate(flow.log.calls):
            if not steps or row < steps[0] or plain_name(call.function) != "batch_norm":
                continue
            weight = next((use.tensor for use in call.inputs if use.place in ("weight", "3")), None)
            if weight is None or weight in case.histories.trained or not _has_first_statistics(case, row):
                continue
            # A model may be made after the first step, and is given its first values then.
            trained = steps[bisect_left(steps, flow.log.tensors[weight].first_seen or 0) :][:1]
            since = trained[0] if trained else row
            replaced = (each for each in flow.data_replacements(weight) if since < each < row)
            changes = [*flow.changes(weight, since, row), *replaced]
            if changes:
                found[location_of_call(flow, max(changes))].setdefault(weight, row)
        for location, weights in found.items():
            yield self._finding(case, location, weights)

    def _finding(self, case: Case, location: Location | None, weights: dict[int, int]) -> Finding:
        flow = case.dataflow
        names = names_of(flow, weights)
        used = location_of_call(flow, min(weights.values()))
        who = together(name.rpartition(".")[0] or name for name in names) if names else "a batch normalization"
        return self.finding(
            f"{who} {'runs' if len(weights) == 1 else 'run'}{at_line(used)} in evaluation mode with mean 0 and "
            "variance 1: the weights follow training, the running statistics do not",
            symptom="none",
            why="parameters() has no buffers, so running_mean and running_var keep the values they were made with",
            fix="copy the buffers as well: for mine, theirs in zip(average.buffers(), model.buffers()): "
            "mine.copy_(theirs)",
            location=location,
            symptom_location=used if used != location else None,
            tensors=names,
            evidence={"modules": len(weights)},
        )


def _has_first_statistics(case: Case, row: int) -> bool:
    """Whether a call of batch normalization uses the running statistics with which a module is made."""
    flow = case.dataflow
    call = flow.log.calls[row]
    if call.scalars.get("training") is not False or len(call.inputs) < _STATISTICS:
        return False
    for use, first in zip(call.inputs[1:3], (0.0, 1.0), strict=True):
        values = flow.values_of(use, row)
        if flow.log.tensors[use.tensor].role != "buffer" or values is None:
            return False
        if use.version not in (None, 0) and _was_updated(case, use.tensor, row, use.version):
            return False
        if _ran_in_training(case, use.tensor, row):
            return False
        if values.minimum != first or values.maximum != first:
            return False
    return True


_STATISTICS = 3


def _ran_in_training(case: Case, tensor: int, row: int) -> bool:
    """Whether a batch in training mode has changed running statistics before: no version of a tensor tells that."""
    calls = (case.dataflow.log.calls[each] for each in case.dataflow.users(tensor) if each < row)
    return any(plain_name(each.function) == "batch_norm" and each.scalars.get("training") is True for each in calls)


def _was_updated(case: Case, tensor: int, row: int, version: int | None) -> bool:
    """Whether something changed a tensor since its values were read: a batch in training mode does so, unrecorded."""
    flow = case.dataflow
    known = [
        use.version
        for each in (*flow.producers(tensor, row), *flow.users(tensor))
        if each < row
        for use in (*flow.log.calls[each].outputs, *flow.log.calls[each].inputs)
        if use.tensor == tensor and use.values is not None
    ]
    return bool(known) and known[-1] != version
