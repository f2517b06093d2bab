"""GV960."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import (
    DIFFERENCES,
    at_line,
    call_words,
    calls_named,
    line_in_function_of,
    location_of_call,
    plain_name,
)
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.arrays.restored_errors import RestoredError, restored_errors
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.graph.call_log import Call


class ErrorMovedByMean(Rule):
    """An error of standardized values is brought back to their units with the mean added, as if it were a value.

    What it finds
    -------------
    An absolute or squared difference, or its mean, that is multiplied by a standard deviation, and to which the mean of
    the same data is added. Also an error, as a number or an array, that ``inverse_transform()`` or a function of the
    program restores in this way.

    Why it matters
    --------------
    The mean cancels in a difference: an error has the scale of the values, and not their place. With the mean added,
    the reported error is too large by it, and the same for a good model and a bad one.

    Example
    -------
    y = torch.randn(64) * 3 + 50
    mean, std = y.mean(), y.std()
    scaled, x = (y - mean) / std, torch.randn(64, 4)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = torch.nn.functional.mse_loss(model(x).squeeze(1), scaled)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        error = (model(x).squeeze(1) - scaled).abs().mean()
        print(error * std + mean)

    Instead
    -------
    y = torch.randn(64) * 3 + 50
    mean, std = y.mean(), y.std()
    scaled, x = (y - mean) / std, torch.randn(64, 4)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = torch.nn.functional.mse_loss(model(x).squeeze(1), scaled)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        error = (model(x).squeeze(1) - scaled).abs().mean()
        print(error * std)
    """

    code = "GV960"
    name = "error_moved_by_mean"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, ("add",)) if case.histories.reached_by else ():
            if len(call.inputs) != _BOTH or call.call_site in told or call.live_inputs:
                continue
            for scaled, mean in (call.inputs, call.inputs[::-1]):
                error = _error_behind(flow, scaled.tensor, row, _statistic(flow, mean.tensor, row, _MEANS))
                if error is not None:
                    told.add(call.call_site)
                    yield self._finding(flow, row, error)
                    break
        if not told and case.histories.reached_by:
            for file, tree in own_files(case):
                for found in restored_errors(tree):
                    yield self._of_source(file, found)

    def _of_source(self, file: str, found: RestoredError) -> Finding:
        return self._of_lines(
            f"{found.text} brings an error back to units as if it were a value: the mean of the data is added to it",
            Location(file, found.restored),
            Location(file, found.error) if found.error != found.restored else None,
        )

    def _finding(self, flow: Dataflow, row: int, error: int) -> Finding:
        computed = location_of_call(flow, error)
        # A function that restores values is right: its call, beside the error, is what one edits.
        added = location_of_line(line_in_function_of(flow, row, error))
        shown = computed if computed != added else None
        return self._of_lines(
            f"the error that {call_words(flow.log.calls[error])} computes{at_line(shown)} is multiplied by a standard "
            "deviation, and the mean of the same data is added to it",
            added,
            shown,
        )

    def _of_lines(self, title: str, added: Location | None, shown: Location | None) -> Finding:
        return self.finding(
            title,
            symptom="none",
            why="the mean cancels in a difference: an error has the scale of the values, and not their place",
            fix="multiply the error by the standard deviation only, or compute it of values in their own units",
            location=added,
            symptom_location=shown,
        )


_BOTH = 2
_MAX_CALLS = 8
_MEANS = frozenset({"mean"})
_DEVIATIONS = frozenset({"std"})
_AVERAGES = frozenset({"mean", "sqrt", "pow", "square", "to", "float", "cpu", "squeeze", "median", "sum", "div"})
_ERRORS = frozenset({"l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss"})
_SAFE = frozenset({"clamp", "clamp_min", "add", "to", "float", "getitem", "squeeze", "view", "reshape", "unsqueeze"})


def _statistic(flow: Dataflow, tensor: int, row: int, names: frozenset[str]) -> int | None:
    """The data of which a tensor is the mean or the standard deviation, or a column of it."""
    for made, call in flow.makers(tensor, row, _MAX_CALLS):
        name = plain_name(call.function)
        if name in names and len(call.inputs) == 1:
            return flow.memory_of(call.inputs[0].tensor)
        if name not in _SAFE or len(call.inputs) != 1 or made is None:
            return None
    return None


def _error_behind(flow: Dataflow, tensor: int, row: int, data: int | None) -> int | None:
    """The call that made an error positive, if it was multiplied by the standard deviation of these data alone."""
    made = flow.newest_producer(tensor, row)
    call = None if made is None else flow.log.calls[made]
    if data is None or made is None or call is None or plain_name(call.function) != "mul" or len(call.inputs) != _BOTH:
        return None
    for given, factor in (call.inputs, call.inputs[::-1]):
        if _statistic(flow, factor.tensor, made, _DEVIATIONS) == data:
            return _positive_difference(flow, given.tensor, made)
    return None


def _positive_difference(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The call that takes the size of a difference: ``abs()``, a square, or a loss."""
    for made, call in flow.makers(tensor, row, _MAX_CALLS):
        name = plain_name(call.function)
        if name in _ERRORS:
            return made
        if name in ("abs", "square", "pow") and _is_difference(flow, call, made):
            return made
        if name not in _AVERAGES:
            return None
    return None


def _is_difference(flow: Dataflow, call: Call, row: int) -> bool:
    made = flow.newest_producer(call.inputs[0].tensor, row)
    return made is not None and plain_name(flow.log.calls[made].function) in DIFFERENCES
