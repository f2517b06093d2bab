"""What a network made of one batch, kept for later steps: which batches it meets there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator
from itertools import pairwise

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.evaluations.scoring_calls import calls_on_data
from gradviz.analysis.rules.bases.losses.loss_arguments import LOSSES_BY_SAMPLE, SHAPE_ONLY, argument
from gradviz.analysis.rules.bases.sequences.part_of_inputs import data_read
from gradviz.graph.call_log import Call, TensorUse


class KeptOfBatches(Struct, frozen=True):
    """A line that keeps what a network made of each batch, and one that uses this with other batches."""

    made: int
    """A call that made such a result."""
    used: int
    """The first call that uses one with another batch."""
    batches: int
    """How many of them were used with another batch."""
    is_input: bool
    """Whether it is what a network reads, where the labels are those of another batch; else a loss compares it."""


class _Use(Struct, frozen=True):
    row: int
    kept: int
    """The tensor."""
    is_later: bool
    """Whether it was made in an earlier step."""
    batch: frozenset[Hashable]
    """What tells the batch that it meets from another one; empty if unknown."""
    own: frozenset[Hashable]
    """The same of the batch that it was made of; empty if unknown."""


_PAIRS = LOSSES_BY_SAMPLE | {"kl_div", "sub", "mul", "cosine_similarity"}
_SINGLE = frozenset(
    {"softmax", "log_softmax", "sigmoid", "div", "mul", "detach", "clone", "to", "float", "cpu", "cuda"}
)
_SINGLE_INPUTS = SHAPE_ONLY | _SINGLE | {"dropout", "normalize", "relu"}
_MAX_CALLS = 6
_MOST_ROWS = 2000
_TAKE = frozenset({"getitem", "index_select", "stack", "cat"})
"""Of these, those of several tensors take other samples."""
_BOTH = 2
_CLASSES = frozenset({"cross_entropy", "nll_loss"})


def kept_of_batches(case: Case) -> Iterator[KeptOfBatches]:
    """One for each line that keeps results, if batches have other samples each time."""
    flow = case.dataflow
    if not _are_drawn_again(flow):
        return
    labels = _labels_by_step(flow)
    told = set[int | None]()
    for is_input, lines in ((False, _compared(flow)), (True, _read(case, labels))):
        for uses in lines:
            made = flow.first_producer(uses[0].kept, uses[0].row)
            found = None if made is None else _met_others(uses, {} if is_input else labels, flow)
            if made is None or found is None or flow.log.calls[made].call_site in told:
                continue
            told.add(flow.log.calls[made].call_site)
            yield KeptOfBatches(made, found[0].row, len({each.kept for each in found}), is_input)


def _are_drawn_again(flow: Dataflow) -> bool:
    """Whether something shuffles: a loader, or permutations that are drawn more than once."""
    return any(not each.is_in_order for each in flow.log.loaders) or any(
        len(flow.rows_of_function(name)) >= _BOTH for name in flow.functions if plain_name(name) == "randperm"
    )


def _met_others(uses: list[_Use], labels: dict[int, Hashable], flow: Dataflow) -> list[_Use] | None:
    """The uses that met another batch, if several results are used in turn, and again and again."""
    by_kept: dict[int, list[_Use]] = defaultdict(list)
    for each in uses:
        by_kept[each.kept].append(each)
    again = {kept: each for kept, each in by_kept.items() if len(each) >= _BOTH and any(use.is_later for use in each)}
    # A memory of the last few steps is used at each of the next steps.
    is_in_turn = all(before.kept != after.kept for before, after in pairwise(uses))
    if len(again) < _BOTH or not is_in_turn:
        return None
    found = list[_Use]()
    for of_one in again.values():
        known = {label for use in of_one if (label := labels.get(flow.step_before(use.row))) is not None}
        first = next((use.own for use in of_one if use.own), of_one[0].batch)
        others = [use for use in of_one if use.is_later and use.batch and first and first.isdisjoint(use.batch)]
        if others and len(known) != 1:
            found += others
    # Of a few batches, one may be drawn again as it was.
    return sorted(found, key=lambda use: use.row) if len({use.kept for use in found}) * _BOTH >= len(again) else None


def _compared(flow: Dataflow) -> Iterator[list[_Use]]:
    """By line: the calls that compare what was kept with what a network makes now, element by element."""
    lines: dict[tuple[int | None, int | None], list[_Use]] = defaultdict(list)
    seen: dict[int | None, int] = defaultdict(int)
    for row, call in calls_named(flow, _PAIRS):
        live = [use for use in call.inputs[:_BOTH] if use.requires_grad]
        dead = [use for use in call.inputs[:_BOTH] if not use.requires_grad]
        if not len(live) == len(dead) == 1 or live[0].is_leaf or not flow.has_step_after(row):
            continue  # A parameter that is moved towards its average is no result.
        shape = shape_of(flow, live[0].tensor)
        seen[call.call_site] += 1
        if len(shape) < _BOTH or shape[0] < _BOTH or shape_of(flow, dead[0].tensor) != shape:
            continue
        kept = _kept(flow, dead[0].tensor, row) if seen[call.call_site] <= _MOST_ROWS else None
        if kept is None:
            continue
        tensor, made = kept
        own, now = (next(data_read(flow, *each), None) for each in ((tensor, made + 1), (live[0].tensor, row)))
        if own is None or now is None:
            continue
        is_alike = shape_of(flow, own[1].tensor) == shape_of(flow, now[1].tensor)
        use = _Use(
            row,
            tensor,
            made < flow.step_before(row),
            _facts(flow, now[1], now[0]),
            _facts(flow, own[1], own[0]) if is_alike else frozenset(),
        )
        lines[call.call_site, flow.log.calls[made].call_site].append(use)
    yield from lines.values()


def _read(case: Case, labels: dict[int, Hashable]) -> Iterator[list[_Use]]:
    """By line: the layers that are trained on what another network made, with the labels of the step."""
    flow = case.dataflow
    lines: dict[tuple[int | None, int | None], list[_Use]] = defaultdict(list)
    for rows in calls_on_data(case)[0].values() if labels else ():
        for row in rows[:_MOST_ROWS]:
            call = flow.log.calls[row]
            kept = _kept(flow, call.inputs[0].tensor, row, _SINGLE_INPUTS)
            if kept is None or next(data_read(flow, kept[0], kept[1] + 1), None) is None:
                continue
            tensor, made = kept
            step = flow.step_before(row)
            label = labels.get(step)
            use = _Use(row, tensor, made < step, frozenset({label} - {None}), frozenset())
            lines[call.call_site, flow.log.calls[made].call_site].append(use)
    yield from lines.values()


def _kept(flow: Dataflow, tensor: int, row: int, through: frozenset[str] = _SINGLE) -> tuple[int, int] | None:
    """What some values were made of in an earlier step, by calls of a single tensor; else the tensor of which these
    calls made them in this one."""
    step = flow.step_before(row)
    for _ in range(_MAX_CALLS):
        made = flow.newest_producer(tensor, row)
        if made is None:
            return None
        call = flow.log.calls[made]
        is_single = plain_name(call.function) in through and len(call.inputs) == len(call.outputs) == 1
        if made < step or call.live_inputs or not is_single or not _is_whole(flow, call):
            return tensor, made
        tensor, row = call.inputs[0].tensor, made
    return None


def _is_whole(flow: Dataflow, call: Call) -> bool:
    """Whether a call leaves all samples in their places."""
    given, result = (shape_of(flow, use.tensor) for use in (call.inputs[0], *call.outputs[:1]))
    return given[:1] == result[:1]


def _facts(flow: Dataflow, use: TensorUse, row: int) -> frozenset[Hashable]:
    """What tells the values of one batch from those of another one: its own, and those that it had before noise was
    added to it, or before it was changed in another way."""
    found, size = [_facts_of(flow, use, row)], shape_of(flow, use.tensor)[:1]
    for made, call in flow.makers(use.tensor, row, _MAX_CALLS):
        is_taken = plain_name(call.function) in _TAKE and len(call.inputs) != 1
        if is_taken or not call.inputs or shape_of(flow, call.inputs[0].tensor)[:1] != size:
            break
        found.append(_facts_of(flow, call.inputs[0], made))
    return frozenset(each for each in found if each is not None)


def _facts_of(flow: Dataflow, use: TensorUse, row: int) -> Hashable:
    values = flow.values_of(use, row)
    checksum = flow.log.calls[row].checksums.get(use.place)
    return (values, checksum) if values is not None and values.minimum != values.maximum else None


def _labels_by_step(flow: Dataflow) -> dict[int, Hashable]:
    """By step: the classes with which its only loss of classes compares."""
    found: dict[int, set[Hashable]] = defaultdict(set)
    for row, call in calls_named(flow, _CLASSES):
        target = argument(call, 1, "target")
        if target is None or not call.live_inputs or not flow.has_step_after(row):
            continue
        checksum = call.checksums.get(target.place)
        found[flow.step_before(row)].add(checksum)
    return {step: next(iter(each)) for step, each in found.items() if len(each) == 1}
