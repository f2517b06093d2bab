"""GV891."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.means import WITH_MEANS
from gradviz.analysis.rules.bases.losses.loss_arguments import calls_in_training, value_maker
from gradviz.analysis.rules.bases.sequences.part_of_inputs import data_read, is_error
from gradviz.analysis.rules.bases.sequences.shifted_tokens import part_of


class LevelNotRestored(Rule):
    """A forecast of windows whose level was taken away is compared with values that still have it.

    What it finds
    -------------
    A model that reads windows of a series only after the mean of each window, or its last value, was subtracted, and
    perhaps divided by its deviation; where a loss compares the result with a later part of the same series as it is.
    Neither the window nor what was subtracted reaches the result in another way. Where the levels of all windows are
    nearly the same, as those of whole waves are, nothing is lost.

    Why it matters
    --------------
    Two windows that differ in their level alone look the same to the model, and have different targets. It learns the
    mean of all levels, and the loss stays at their variance.

    Example
    -------
    model = torch.nn.Linear(12, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    series = torch.randn(200).cumsum(0)
    for step in range(3):
        starts = torch.randint(0, 180, (8,)).tolist()
        window = torch.stack([series[i : i + 12] for i in starts])
        future = torch.stack([series[i + 12 : i + 16] for i in starts])
        level = window.mean(dim=1, keepdim=True)
        forecast = model(window - level)
        loss = torch.nn.functional.mse_loss(forecast, future)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(12, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    series = torch.randn(200).cumsum(0)
    for step in range(3):
        starts = torch.randint(0, 180, (8,)).tolist()
        window = torch.stack([series[i : i + 12] for i in starts])
        future = torch.stack([series[i + 12 : i + 16] for i in starts])
        level = window.mean(dim=1, keepdim=True)
        forecast = model(window - level) + level
        loss = torch.nn.functional.mse_loss(forecast, future)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV891"
    name = "level_not_restored"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for rows in calls_in_training(flow, _ERRORS):
            found = [_level_taken(flow, row) for row in rows[-_EXAMINED:]]
            last = found[-1]
            if len(found) == _EXAMINED and all(found) and last is not None:
                yield self._finding(flow, rows[-1], last)

    def _finding(self, flow: Dataflow, row: int, level: _Level) -> Finding:
        made = flow.newest_producer(flow.log.calls[row].inputs[0].tensor, row)
        subtracted = location_of_call(flow, level.subtracted)
        location = location_of_call(flow, row if made is None else made)
        what = "mean" if level.is_mean else "last value"
        bring_back = "forecast * std + mean" if level.is_mean else "forecast + last"
        return self.finding(
            f"the {what} of each window is subtracted{at_line(subtracted)}, and the forecast is compared with later "
            "values of the series without it",
            symptom="grad_wrong",
            why="the model cannot know the level that was taken away: it learns the mean of all levels",
            fix=f"bring the forecast back before the loss: {bring_back}; or take the same away from the targets",
            location=location,
            symptom_location=subtracted if subtracted != location else None,
        )


class _Level(Struct, frozen=True):
    """The level of each window, which a call subtracts."""

    window: int
    subtracted: int
    is_mean: bool


_ERRORS = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
_EXAMINED = 2
_BOTH = 2
_DEVIATIONS = frozenset({"var", "std"})
_PASSES = frozenset({"detach"})


def _level_taken(flow: Dataflow, row: int) -> _Level | None:
    """What a call takes away from each window that a model reads, if nothing gives it back to the forecast."""
    call = flow.log.calls[row]
    if not is_error(call):
        return None
    target = part_of(flow, call.inputs[1].tensor, row)
    above = frozenset(flow.ancestors(call.inputs[0].tensor, row, flow.step_before(row)))
    for each, use in data_read(flow, call.inputs[0].tensor, row):
        level = _level_of(flow, use.tensor, each)
        if level is None:
            return None
        window = part_of(flow, level.window, level.subtracted)
        is_same_series = len(window.moves) == len(target.moves) == 1 and window.source[0] == target.source[0]
        axis = _time_axis(flow, level, window.moves[0][1]) if is_same_series else None
        wanted = shape_of(flow, call.inputs[1].tensor)
        if not axis or not _has_these_columns(wanted, shape_of(flow, level.window), axis):
            continue
        if _is_lost(flow, level, above) and _matters(flow, level, row):
            return level
    return None


def _level_of(flow: Dataflow, tensor: int, row: int) -> _Level | None:
    """The mean or the last value of each window that was subtracted from it, before it was scaled."""
    made = value_maker(flow, tensor, row)
    if made is not None and plain_name(made[1].function) == "div" and made[1].inputs:
        made = value_maker(flow, made[1].inputs[0].tensor, made[0])
    if made is None or plain_name(made[1].function) != "sub" or len(made[1].inputs) != _BOTH:
        return None
    subtracted, call = made
    window, level = (use.tensor for use in call.inputs)
    source = value_maker(flow, level, subtracted, through=_PASSES)
    if source is not None and plain_name(source[1].function) in WITH_MEANS and source[1].inputs[0].tensor == window:
        return _Level(window, subtracted, is_mean=True)
    return _Level(window, subtracted, is_mean=False) if _is_last_value(flow, level, window, subtracted) else None


def _is_last_value(flow: Dataflow, level: int, window: int, row: int) -> bool:
    for _, call in flow.makers(level, row, _MAX_CALLS):
        if not call.inputs or len(call.inputs) > 1:
            return False
        if call.inputs[0].tensor == window:
            return plain_name(call.function) in ("getitem", "select", "narrow") and -1 in call.scalars.values()
        if plain_name(call.function) not in ("detach", "unsqueeze", "clone"):
            return False
    return False


_MAX_CALLS = 4


def _time_axis(flow: Dataflow, level: _Level, length: int) -> int | None:
    """The axis that was cut out of the series, if the level has one element along it, for each window."""
    shape = shape_of(flow, level.window)
    taken = shape_of(flow, flow.log.calls[level.subtracted].inputs[1].tensor)
    if len(taken) != len(shape) or taken[:1] != shape[:1]:
        return None
    return next((axis for axis, size in enumerate(shape) if axis and size == length and taken[axis] == 1), None)


def _has_these_columns(target: Shape, window: Shape, axis: int) -> bool:
    """Whether targets are as wide as windows, for one later time or several: those of another column have none."""
    others = (*window[:axis], *window[axis + 1 :])
    return target == others or (*target[:axis], *target[axis + 1 :]) == others


def _matters(flow: Dataflow, level: _Level, row: int) -> bool:
    """Whether the levels of windows differ by a good part of what the targets do."""
    taken = flow.values(flow.log.calls[level.subtracted].inputs[1].tensor, level.subtracted)
    wanted = flow.values(flow.log.calls[row].inputs[1].tensor, row)
    spans = [
        None if each is None or each.minimum is None or each.maximum is None else each.maximum - each.minimum
        for each in (taken, wanted)
    ]
    return spans[0] is None or spans[1] is None or spans[0] >= _LEAST_SHARE * spans[1]


_LEAST_SHARE = 0.25


def _is_lost(flow: Dataflow, level: _Level, above: frozenset[int]) -> bool:
    """Whether the forecast depends on the window and on its level only through what is left without it."""
    own = {level.subtracted}
    waiting = [level.window, flow.log.calls[level.subtracted].inputs[1].tensor]
    for tensor in waiting:
        for user in flow.users(tensor):
            call = flow.log.calls[user]
            name = plain_name(call.function)
            if user not in above or user in own:
                continue
            is_part = name in ("detach", "unsqueeze", "clone", "getitem", "select", "narrow") and call.outputs
            if is_part and len(waiting) < _MAX_TENSORS:
                waiting.append(call.outputs[0].tensor)
            elif name in WITH_MEANS:
                waiting += [use.tensor for use in call.outputs if use.tensor not in waiting]
            elif name not in _DEVIATIONS:
                return False
    return True


_MAX_TENSORS = 8
