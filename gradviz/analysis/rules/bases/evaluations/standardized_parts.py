"""Parts of one table of data of which each is standardized with its own mean: one for training, another for a score."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.evaluations.ranges_of_rows import RowRange, range_of_rows
from gradviz.analysis.rules.bases.evaluations.scoring_calls import calls_on_data
from gradviz.analysis.rules.bases.formulas.means import WITH_MEANS
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker


class OwnMean(Struct, frozen=True):
    """A part of the data, less its own mean."""

    row: int
    """The call that subtracts the mean."""
    mean: int
    """The call that computes it."""
    part: RowRange


_BOTH = 2
_SHARE = 0.4
_EXAMINED = 3


def standardized_apart(case: Case) -> tuple[OwnMean, OwnMean] | None:
    """The part that a model is trained on, and one that it is only scored on, if these are different rows of one table
    and each has its own mean."""
    first_backward = next(iter(case.dataflow.rows_of_kind("backward")), 0)
    found = {each.row: each for each in _with_own_means(case.dataflow, first_backward)}
    if len(found) < _BOTH:
        return None
    trained, scored = (_above(case, rows, found) for rows in calls_on_data(case))
    held_out = scored - trained
    if len(trained) != 1 or len(held_out) != 1:
        return None  # Windows, each of which has its own mean.
    one, other = found[trained.pop()], found[held_out.pop()]
    is_of_one = one.part.source == other.part.source and one.part.end - one.part.first >= _SHARE * one.part.total
    are_apart = one.part.end <= other.part.first or other.part.end <= one.part.first
    return (one, other) if is_of_one and are_apart else None


def _with_own_means(flow: Dataflow, first_backward: int) -> Iterator[OwnMean]:
    """Differences of rows of the data and the mean over all of these rows, by column."""
    for row, call in calls_named(flow, ("sub",)):
        if len(call.inputs) != _BOTH or call.live_inputs:
            continue
        given = call.inputs[0].tensor
        made, shape = value_maker(flow, call.inputs[1].tensor, row), shape_of(flow, given)
        if made is None or plain_name(made[1].function) not in WITH_MEANS or axis_of(made[1], len(shape)) != 0:
            continue
        averaged, columns = made[1].inputs[0].tensor, shape_of(flow, made[1].inputs[0].tensor)[1:]
        part = range_of_rows(flow, given, row, first_backward) if columns and columns == shape[1:] else None
        of_mean = None if part is None else range_of_rows(flow, averaged, made[0], first_backward)
        if part is None or of_mean is None or part.cut < 0:
            continue
        if (part.source, part.first, part.end) == (of_mean.source, of_mean.first, of_mean.end):
            yield OwnMean(row, made[0], part)


def _above(case: Case, rows: dict[int, list[int]], found: dict[int, OwnMean]) -> set[int]:
    """Those of some calls from which the first calls of each weight got their data."""
    flow = case.dataflow
    above = (
        flow.ancestors(flow.log.calls[row].inputs[0].tensor, row)
        for of_weight in rows.values()
        for row in of_weight[:_EXAMINED]
    )
    return {row for each in above for row in each if row in found}
