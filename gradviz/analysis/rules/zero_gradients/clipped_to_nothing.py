"""GV895."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from statistics import median

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.clipping import is_clipping
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.gradients.gradient_changes import changes_of_gradients
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.parameters.courses import largest_move_per_step
from gradviz.graph.call_log import Call, ValueFacts


class ClippedToNothing(Rule):
    """Gradients are clipped to so little that the steps move nothing.

    What it finds
    -------------
    A line that clips gradients to zero, or to a hundredth of what they were or less (or to a bound that every matrix
    reaches), where the steps after it move the weights by less than 0.002 % each. Where an optimizer of the Adam family
    makes the same steps of small gradients as of large ones, nothing is told.

    Why it matters
    --------------
    Clipping is meant for the few steps with huge gradients: a bound of zero is no "no bound", it makes every gradient
    zero; a bound far below the usual norm divides the learning rate by the ratio of the two.

    Example
    -------
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(10):
        x = torch.randn(16, 4)
        loss = torch.nn.functional.mse_loss(model(x), x[:, :1])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.0)
        optimizer.step()

    Instead
    -------
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(10):
        x = torch.randn(16, 4)
        loss = torch.nn.functional.mse_loss(model(x), x[:, :1])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    """

    code = "GV895"
    name = "clipped_to_nothing"
    severity = "warning"
    yields_to = ("clip_misplaced",)

    def check(self, case: Case) -> Iterator[Finding]:
        histories = case.histories
        for location, clips in _clips(histories).items():
            leaves = sorted(clips.leaves)
            steps = [row for leaf in leaves[:1] for row in _steps_on(histories, leaf)]
            if min(len(steps), len(clips.factors)) < _MIN_STEPS or not _leaves_little(clips.factors):
                continue
            move = largest_move_per_step(histories, leaves, steps)
            if not any(clips.factors) or (move is not None and move < _MOST_PER_STEP):
                yield self._finding(case, location, leaves, clips, len(steps))

    def _finding(self, case: Case, location: Location | None, leaves: list[int], clips: _Clips, steps: int) -> Finding:
        left = median(factor for factor in clips.factors if factor is not None)
        names = case.histories.together(leaves)
        if left == 0:
            message = f"this clipping makes the gradients of {names} zero in all {steps:,} steps"
        elif clips.bound is not None:
            message = f"this clipping bounds gradients to {clips.bound:.2g}: {steps:,} steps hardly move {names}"
        else:
            message = f"this clipping multiplies gradients by {left:.2g}: {steps:,} steps hardly move {names}"
        return self.finding(
            message,
            symptom="grad_zero" if left == 0 else "grad_wrong",
            why="clipping bounds the size of every gradient: 0 does not mean no bound, and a bound far below the usual "
            "size makes every step as small as the bound",
            fix="raise the bound above what the gradients usually are (a norm of 1.0 is usual), or leave the clipping "
            "out; print what clip_grad_norm_() returns to see their norm",
            location=location,
            tensors=names_of(case.dataflow, leaves),
            evidence={"steps": steps, "left": left},
        )


class _Clips(Struct):
    """What one line clips."""

    leaves: set[int]
    factors: list[float | None]
    """By what each call multiplied gradients, as far as a bound tells: 0 if it is 0, else 0.01 where all reach it; None
    where that is not known, or where the bound was not reached."""
    bound: float | None = None


_MIN_STEPS = 3
_MOST_LEFT = 0.01
_MOST_PER_STEP = 2e-5
_MIN_ELEMENTS = 8


def _clips(histories: ParameterHistories) -> dict[Location | None, _Clips]:
    flow = histories.flow
    by_row: dict[int, set[int]] = defaultdict(set)
    for row, leaf in changes_of_gradients(flow):
        by_row[row].add(leaf)
    found: dict[Location | None, _Clips] = {}
    for row, leaves in by_row.items():
        if is_clipping(flow, row):
            clips = found.setdefault(location_of_call(flow, row), _Clips(set(), []))
            clips.leaves |= leaves
            bound = _bound(flow.log.calls[row])
            clips.bound = clips.bound if bound is None else bound
            if bound is None:
                clips.factors.append(_factor(histories, row))
            else:
                clips.factors += _at_bound(flow.log.calls[row], bound)
    return found


def _factor(histories: ParameterHistories, row: int) -> float | None:
    """The tensor by which a call multiplies gradients."""
    call = histories.log.calls[row]
    changed = {use.tensor for use in call.changed}
    sizes = [_size(histories.flow.values_of(use, row)) for use in call.inputs if use.tensor not in changed]
    known = [size for size in sizes if size is not None]
    return max(known, default=None) if len(known) == len(sizes) and "mul" in plain_name(call.function) else None


def _bound(call: Call) -> float | None:
    """The number at which a call clamps."""
    name = plain_name(call.function).lstrip("_").removeprefix("foreach_")
    numbers = [abs(number) for number in call.scalars.values() if isinstance(number, int | float)]
    return max(numbers, default=None) if name.startswith(("clamp", "clip")) else None


def _at_bound(call: Call, bound: float) -> list[float | None]:
    """What is left of each tensor that a call clamps; small ones, which may stay below the bound, are left out."""
    sizes = [
        _size(use.values)
        for use in call.changed
        if use.values is not None and (use.values.count >= _MIN_ELEMENTS or not bound)
    ]
    if not bound:
        return [0.0 for _ in sizes]
    return [_MOST_LEFT if size is not None and size >= bound * (1 - 1e-4) else None for size in sizes]


def _leaves_little(factors: list[float | None]) -> bool:
    known = [factor for factor in factors if factor is not None]
    return len(known) == len(factors) > 0 and median(known) <= _MOST_LEFT


def _size(values: ValueFacts | None) -> float | None:
    if values is None or values.minimum is None or values.maximum is None:
        return None
    return max(abs(values.minimum), abs(values.maximum))


def _steps_on(histories: ParameterHistories, leaf: int) -> list[int]:
    return [
        row
        for number in histories.optimizers_of(leaf)
        for row in histories.steps_by_optimizer.get(number, [])
    ]  # fmt: skip
