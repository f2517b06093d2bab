"""Inputs and targets that two loaders shuffle, each in an order of its own."""

from __future__ import annotations

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axes_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.batches.drawn_rows import call_that_picks, number_of_sample

_MIN_ROWS = 4
_MIN_STEPS = 2
_PAIR = 2
_FIGURES = frozenset({"mean", "sum", "std", "var", "sort", "msort", "quantile", "median", "cov"})


class _Loaded(Struct, frozen=True):
    """Samples that were put into a batch one by one, by their numbers."""

    numbers: tuple[int, ...]
    source: int
    """The memory of the tensor that they were taken from."""
    count: int
    """How many samples that has."""
    made: int
    """The call that put them together."""
    taken: int
    """The call that took the first one."""


def are_loaded_apart(flow: Dataflow, rows: list[int]) -> bool:
    """Whether losses compare, in two steps or more, predictions for some samples with the targets of others.

    The numbers of both are known where a loader of one process takes them from tensors. Numbers that all differ by the
    same are those of samples that follow each other.
    """
    known = [pair for row in rows if (pair := _inputs_and_targets(flow, row)) is not None]
    return len(known) >= _MIN_STEPS and all(map(_are_of_others, known))


def _inputs_and_targets(flow: Dataflow, row: int) -> tuple[list[_Loaded], list[_Loaded]] | None:
    since = flow.step_before(row)
    prediction, target = (use.tensor for use in flow.log.calls[row].inputs[:_PAIR])
    if any(_mixes_samples(flow, each) for each in flow.ancestors(target, row, since)):
        return None
    inputs, targets = _loaded(flow, prediction, row, since), _loaded(flow, target, row, since)
    return (inputs, targets) if inputs and targets else None


def _mixes_samples(flow: Dataflow, row: int) -> bool:
    """Whether a call makes figures of a whole batch: two sets of samples are compared by their means, or one sorted set
    with the other, and no sample belongs to another one."""
    call = flow.log.calls[row]
    name, rank = plain_name(call.function), len(shape_of(flow, call.inputs[0].tensor)) if call.inputs else 0
    return name in _FIGURES and (rank <= 1 or 0 in (axes_of(call, rank) or (0,)))


def _loaded(flow: Dataflow, tensor: int, row: int, since: int) -> list[_Loaded]:
    found = (_samples_of(flow, each) for each in flow.ancestors(tensor, row, since))
    return [each for each in found if each is not None]


def _samples_of(flow: Dataflow, row: int) -> _Loaded | None:
    call = flow.log.calls[row]
    if plain_name(call.function) != "stack" or len(call.inputs) < _MIN_ROWS or call.live_inputs:
        return None
    numbers = [number_of_sample(flow, use.tensor, row) for use in call.inputs]
    taken = call_that_picks(flow, call.inputs[0].tensor, row)
    known = tuple(number for number in numbers if number is not None)
    if len(known) < len(numbers) or taken is None:
        return None
    source = flow.log.calls[taken].inputs[0].tensor
    return _Loaded(known, flow.memory_of(source), shape_of(flow, source)[0], row, taken)


def _are_of_others(known: tuple[list[_Loaded], list[_Loaded]]) -> bool:
    inputs, targets = known
    return all(_is_of_others(one, other) for one in inputs for other in targets)


def _is_of_others(one: _Loaded, other: _Loaded) -> bool:
    """Whether two batches, made one after the other, have as many samples of equally large data, in two orders."""
    if one.source == other.source or one.count != other.count or len(one.numbers) != len(other.numbers):
        return False
    is_one_by_one = one.taken < other.made and other.taken < one.made
    if is_one_by_one or any(len(set(each.numbers)) < len(each.numbers) for each in (one, other)):
        return False  # One loader took both, or a batch has a sample twice.
    distances = {given - target for given, target in zip(one.numbers, other.numbers, strict=True)}
    return len(distances) > len(one.numbers) / _PAIR


def lines_of_loaders(case: Case) -> tuple[Location, Location] | None:
    """The two lines that make loaders which do not keep the order of their data; None if there are not just two."""
    sites = {loader.call_site for loader in case.dataflow.log.loaders if not loader.is_in_order}
    lines = {(line.file, line.line): line for site in sites if (line := case.location_of_site(site)) is not None}
    if len(lines) != _PAIR:
        return None
    first, second = (lines[key] for key in sorted(lines))
    return first, second
