"""Losses where a permutation of all samples orders the inputs or the targets, and the others stay as they were."""

from __future__ import annotations

from collections.abc import Callable

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.batches.drawn_rows import picked_row
from gradviz.graph.call_log import Call

Orderings = Callable[[Case, tuple[int, ...]], dict[int, int]]
_PICKS = frozenset({"getitem", "index_select", "gather", "take", "take_along_dim", "sort", "argsort", "topk"})
_SLICES = frozenset({"getitem", "split", "chunk", "narrow", "unbind"})
_DRAWS = frozenset({"randn", "rand", "randn_like", "rand_like", "normal", "bernoulli", "randint", "uniform", "full"})
_MIN_SAMPLES = 4


def ordered_alone(case: Case, row: int, orderings: Orderings, *, of_loader: bool = False) -> int | None:
    """The call that orders the inputs or the targets of a loss, if it is a permutation of all samples of which the
    other side has as many, in another order. A permutation that both sides got before counts for neither.

    Args:
        row: the last call of a loss with a prediction and a target on its line.
        orderings: for some calls, by call of ``randperm()``, the one that orders constants by it.
        of_loader: only of samples that are taken one by one, of both sides by the same numbers.
    """
    flow = case.dataflow
    prediction, target = flow.log.calls[row].inputs[:2]
    above = [flow.ancestors(each.tensor, row) for each in (prediction, target)]
    by_inputs, by_targets = (orderings(case, rows) for rows in above)
    of_inputs = [found for drawn, found in by_inputs.items() if drawn not in by_targets]
    of_targets = [found for drawn, found in by_targets.items() if drawn not in by_inputs]
    if bool(of_inputs) == bool(of_targets):
        return None
    trained = case.histories.trained
    if any(use.tensor in trained for each in above[1] for use in flow.log.calls[each].inputs):
        return None  # The trained model compares its own results, of other samples perhaps on purpose.
    ordered, others = (above[0], above[1]) if of_inputs else (above[1], above[0])
    found = max(of_inputs or of_targets)
    base = flow.log.calls[found].inputs[0].tensor
    samples = shape_of(flow, base)[:1]
    is_whole = samples == shape_of(flow, flow.log.calls[found].inputs[1].tensor) and samples[0] >= _MIN_SAMPLES
    is_alone = not any(_takes(flow.log.calls[each], base) for each in ordered if each != found)
    if (
        not is_whole
        or not is_alone
        or any(_picks(flow.log.calls[each]) for each in (*others, *ordered) if each > found)
    ):
        return None
    values = flow.values_of(target, row)
    if values is not None and values.minimum == values.maximum:
        return None
    other = target if of_inputs else prediction
    size = shape_of(flow, other.tensor)[:1]
    # A loader takes the samples one by one, of both by the same numbers.
    numbers = _numbers(flow, ordered)
    is_loaded = bool(numbers) and numbers == _numbers(flow, others)
    if of_loader and not is_loaded:
        return None
    return found if _has_all(case, row, other.tensor, others, samples, None if is_loaded else size) else None


def _numbers(flow: Dataflow, rows: tuple[int, ...]) -> list[int]:
    """The numbers of single samples that calls take, in their order."""
    found = (picked_row(flow.log.calls[row]) for row in rows)
    return [number for number in found if number is not None]


def _takes(call: Call, tensor: int) -> bool:
    return any(use.tensor == tensor for use in call.inputs)


def _picks(call: Call) -> bool:
    """Whether a call takes elements by other tensors, which may be another order."""
    return plain_name(call.function) in _PICKS and len(call.inputs) > 1


def _has_all(
    case: Case, row: int, other: int, rows: tuple[int, ...], samples: tuple[int, ...], size: tuple[int, ...] | None
) -> bool:
    """Whether the other side is a part of as many samples, or has all of them, and these are no new random numbers.

    Args:
        size: of the part; None where a loader takes single samples.
    """
    flow, first = case.dataflow, next(iter(case.histories.backward_calls), 0)
    given = {(use.tensor, each) for each in rows for use in flow.log.calls[each].inputs if not use.requires_grad}
    if flow.log.calls[row].inputs[0].tensor != other:
        given.add((other, row))
    for tensor, user in given:
        maker = flow.newest_producer(tensor, user)
        is_new_draw = maker is not None and maker > first and plain_name(flow.log.calls[maker].function) in _DRAWS
        if shape_of(flow, tensor)[:1] != samples or is_new_draw:
            continue
        taken = shape_of(flow, flow.log.calls[user].outputs[0].tensor)[:1] if flow.log.calls[user].outputs else ()
        if size == samples or (plain_name(flow.log.calls[user].function) in _SLICES and size in (None, taken)):
            return True
    return False
