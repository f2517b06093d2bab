"""Cuts that hold for one stage of a training: what an optimizer holds gets no gradient in any of its steps, and a loss
of another stage brings it gradients before or after them.

A stage lasts from the first step of an optimizer to its last. Where a loss of other steps in between brings the
gradient, as with a critic and an actor that share an encoder, the cut is how it is meant. So it may be where an earlier
stage has trained what is cut off, as in a linear evaluation, and where the optimizer was given a whole model, of which
only the head is to learn at first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import takewhile

from msgspec import Struct

from gradviz.analysis.cuts.cut_paths import alive_above, cut_paths_on
from gradviz.analysis.cuts.missing_gradients import CutOff
from gradviz.analysis.parameters.parameter_histories import GIVES_A_GRADIENT, ParameterHistories

_MIN_STEPS = 2


class _Stage(Struct, frozen=True):
    """The steps of one optimizer, and what it holds and no backward reached in them, though others of the run did."""

    optimizer: int
    backwards: tuple[int, ...]
    wanted: frozenset[int]
    trained_before: frozenset[int]


def stage_cuts(histories: ParameterHistories) -> Iterator[CutOff]:
    """One for each line with a ``detach()`` and each optimizer."""
    flow = histories.flow
    for stage in _stages(histories):
        is_whole = _is_a_whole_model(histories, stage.optimizer)
        found: dict[int | None, CutOff] = {}
        for backward in _first_and_last_of_each_line(histories, stage):
            since = flow.step_before(backward)
            for use in flow.log.calls[backward].roots:
                for path, cuts in cut_paths_on(flow, use.tensor, backward, lambda cut: cut.call_site, since):
                    if path.cut.kind != "detach" or path.doubt or path.is_steering:
                        continue
                    above = alive_above(flow, ((tensor, cut.call) for cut in cuts for tensor in cut.live_inputs))
                    tensors = tuple(sorted(above & stage.wanted))
                    is_meant = is_whole or stage.trained_before.issuperset(tensors)
                    if tensors and path.cut.call_site not in found:
                        found[path.cut.call_site] = CutOff(
                            path,
                            cuts,
                            backward,
                            use.tensor,
                            False,
                            tensors,
                            may_be_meant=is_meant,
                            stage=stage.optimizer,
                        )
        yield from found.values()


def _stages(histories: ParameterHistories) -> Iterator[_Stage]:
    flow, calls = histories.flow, histories.log.calls
    rows = sorted(histories.reached_by)
    by_hand = {call.inputs[0].tensor for call in calls if call.function == GIVES_A_GRADIENT}
    first_reach, last_reach = histories.first_reach, histories.last_reach
    for optimizer, steps in histories.steps_by_optimizer.items():
        if optimizer is None or len(steps) < _MIN_STEPS:
            continue
        begin = flow.step_before(steps[0])
        backwards = rows[bisect_right(rows, begin) : bisect_right(rows, steps[-1])]
        given = histories.first_given(optimizer)
        live = {number for number, (_, use) in given.items() if use.requires_grad and number in last_reach} - by_hand
        # The first and the last are looked up first: a run has many optimizers, if each step makes one.
        idle = [n for n in live if not backwards or not _is_reached_at_an_end(histories, n, backwards)]
        if not idle or len(idle) == len(given):
            continue
        reached = frozenset().union(*(histories.reached_by[row] for row in backwards))
        figures = {calls[row].name for row in backwards}
        wanted = frozenset(n for n in idle if n not in reached and not _has_figures(histories, n, figures))
        if wanted and not reached.isdisjoint(given):
            yield _Stage(
                optimizer, tuple(backwards), wanted, frozenset(n for n in wanted if first_reach[n] < backwards[0])
            )


def _is_reached_at_an_end(histories: ParameterHistories, number: int, backwards: list[int]) -> bool:
    return any(number in histories.reached_by[row] for row in (backwards[0], backwards[-1]))


def _has_figures(histories: ParameterHistories, number: int, backwards: set[str | None]) -> bool:
    """Whether the recorded graph of one of these backward calls brought it a gradient."""
    return any(str(backward) in backwards for backward, _ in histories.received.figures(number))


def _first_and_last_of_each_line(histories: ParameterHistories, stage: _Stage) -> list[int]:
    calls, held = histories.log.calls, histories.held_by(stage.optimizer)
    by_line: dict[int | None, list[int]] = defaultdict(list)
    for row in stage.backwards:
        if not calls[row].misses_calls and not histories.reached_by[row].isdisjoint(held):
            by_line[calls[row].call_site].append(row)
    return sorted({row for rows in by_line.values() for row in (rows[0], rows[-1])})


def _is_a_whole_model(histories: ParameterHistories, optimizer: int) -> bool:
    """Whether it holds all parameters of one object: then nobody picked those that are cut off."""
    held = histories.held_by(optimizer)
    paths = [histories.name(number).split(".")[:-1] for number in sorted(held)]
    # What the first and the last in their order have in common, all have.
    ends = zip(min(paths, default=[]), max(paths, default=[]), strict=False)
    path = ".".join(one for one, _ in takewhile(lambda each: each[0] == each[1], ends))
    return bool(path) and held.issuperset(histories.parameters_below(path))
