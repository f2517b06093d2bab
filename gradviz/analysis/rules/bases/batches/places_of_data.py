"""Where a loss should take the ends of episodes, the lengths of sequences, the weights or the exposures of samples, or
whether what one waits for was seen."""

from __future__ import annotations

import re

from msgspec import Struct

from gradviz.analysis.dataflow.axes import axes_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import RECURRENT_LAYERS
from gradviz.analysis.rules.bases.batches.times_of_events import event_counted_for_all
from gradviz.analysis.rules.bases.losses.loss_arguments import LOSSES_BY_SAMPLE
from gradviz.graph.call_log import Call, ValueFacts

ENDS = re.compile(r"(is_|not_|non_?)?(dones?|terminals?|terminated|terminations?)(_\w+)?")
LENGTHS = re.compile(r"(\w+_)?(lengths?|lens?)(_\w+)?")
WEIGHTS = re.compile(r"(is_|iw_|sample_|importance_|batch_|per_)?weights?(_\w+)?")

EXPOSURES = re.compile(r"(log_)?(exposures?|offsets?)(_\w+)?")
EVENTS = re.compile(
    r"(is_|was_|not_)?(events?|observed|uncensored|censored|censoring|died|deaths?|failed|failures?|relapsed?)(_\w+)?"
)


_NO_ENDS = re.compile(r"act|trunc|time|limit|group|mask|label|target|class|choice|bit|sex|gender", re.IGNORECASE)
_MOST_ENDS = 0.5
"""Flags that are more often 1 are hardly ends of episodes."""
_MOST_ENDS_OF_INTEGERS = 0.3
"""The same for integers, which may be actions."""


class Place(Struct, frozen=True):
    """The call that should take the data, with the words about it."""

    row: int
    what: str
    why: str
    fix: str


def is_telling(name: str) -> bool:
    """Whether a name says what the data are."""
    return any(pattern.fullmatch(name) for pattern in (ENDS, LENGTHS, WEIGHTS, EXPOSURES, EVENTS))


def place_of(flow: Dataflow, name: str, tensor: int, backward: int) -> Place | None:
    """Where the loss should take data of this name; flags of zeros and ones with any other name may be ends."""
    rows = range(flow.step_before(backward) + 1, backward)
    size, values = shape_of(flow, tensor)[0], flow.values(tensor, backward)
    if ENDS.fullmatch(name):
        return _value_of_next_states(flow, name, rows, size)
    if LENGTHS.fullmatch(name):
        longest = None if values is None else values.maximum
        is_count = longest is not None and "int" in flow.log.tensors[tensor].facts.dtype
        return _padded(flow, rows, size, int(longest)) if is_count and longest else None
    if EXPOSURES.fullmatch(name):
        return _counts(flow, name, rows, size)
    is_flag = values is not None and (values.minimum, values.maximum) == (0, 1)
    if EVENTS.fullmatch(name):
        return _unfinished_times(flow, name, rows, size) if is_flag else None
    if not WEIGHTS.fullmatch(name):
        is_end = is_flag and values is not None and _may_be_ends(flow, tensor, values) and not _NO_ENDS.search(name)
        return _value_of_next_states(flow, name, rows, size) if is_end else None
    is_weight = values is not None and values.minimum is not None and values.minimum >= 0
    return _average(flow, name, rows, size) if is_weight else None


def _may_be_ends(flow: Dataflow, tensor: int, values: ValueFacts) -> bool:
    is_integer = "int" in flow.log.tensors[tensor].facts.dtype
    most = _MOST_ENDS_OF_INTEGERS if is_integer else _MOST_ENDS
    return values.count - values.zeros < most * values.count


def _value_of_next_states(flow: Dataflow, name: str, rows: range, size: int) -> Place | None:
    for row in rows:
        call = flow.log.calls[row]
        if plain_name(call.function) != "add" or len(call.inputs) != _OF_BOTH:
            continue
        is_of_batch = shape_of(flow, call.outputs[0].tensor)[:1] == (size,)
        pairs = (call.inputs, call.inputs[::-1])
        added = [q for q, r in pairs if _is_discounted(flow, q.tensor, row) and not r.requires_grad]
        if is_of_batch and added and (ENDS.fullmatch(name) or not _is_masked(flow, added[0].tensor, row)):
            factor = name if name.startswith(("not", "non")) else f"(1 - {name})"
            return Place(
                row,
                "the value of the next state is added for all of them",
                "behind the end of an episode there is no value: the targets of its last steps are too large",
                f"multiply the value of the next state by it: r + gamma * {factor} * next_value",
            )
    return None


def _is_discounted(flow: Dataflow, tensor: int, before: int) -> bool:
    """Whether it is what a model made, and no part of the model, times a number somewhat below 1."""
    made = flow.newest_producer(tensor, before)
    call = None if made is None else flow.log.calls[made]
    if call is None or made is None or plain_name(call.function) != "mul" or len(call.inputs) != 1:
        return False
    shared = (call.inputs[0].tensor, *flow.sharing_memory(call.inputs[0].tensor))
    if any(flow.log.tensors[each].role == "parameter" for each in shared):
        return False
    factors = [value for value in call.scalars.values() if type(value) is float and _LEAST_DISCOUNT <= value < 1]
    above = flow.ancestors(tensor, before, flow.step_before(before)) if factors else ()
    uses = (use for row in above for use in flow.log.calls[row].inputs)
    return any(flow.log.tensors[use.tensor].role == "parameter" for use in uses)


def _is_masked(flow: Dataflow, tensor: int, before: int) -> bool:
    """Whether flags of zeros and ones have chosen among the values that a model made."""
    for row, call in flow.makers(tensor, before, _MAX_MAKERS):
        if any(flow.log.tensors[use.tensor].role == "parameter" for use in call.inputs):
            return False
        given = [flow.values(use.tensor, row) for use in call.inputs if plain_name(call.function) in _CHOOSE]
        if any(each is not None and each.minimum in (0, 1) and each.maximum in (0, 1) for each in given):
            return True
    return False


_CHOOSE = frozenset({"mul", "where", "masked_fill", "setitem"})
_MAX_MAKERS = 12
_OF_BOTH = 2
_LEAST_DISCOUNT = 0.5
_TELL_PADDING = frozenset({"ne", "eq", "gt", "lt", "ge", "le", "masked_fill", "where", "_pack_padded_sequence"})


def _padded(flow: Dataflow, rows: range, size: int, longest: int) -> Place | None:
    """What takes padding for data: the last step of a recurrent layer, or an average over time."""
    calls = [(row, flow.log.calls[row]) for row in rows]
    if any(plain_name(call.function) in _TELL_PADDING for _, call in calls):
        return None
    layer = next((row for row, call in calls if _is_over_padding(flow, call, size, longest)), None)
    if layer is None:
        return None
    outputs = {use.tensor for use in flow.log.calls[layer].outputs}
    last = (row for row, call in calls if row > layer and _takes_last(call) and call.inputs[0].tensor in outputs)
    return Place(
        next(last, layer),
        "padded sequences are used up to the longest one",
        "the result of a shorter sequence is that of its padding",
        "pack the sequences: pack_padded_sequence(x, lengths, enforce_sorted=False), or take the step lengths - 1 of "
        "each, or mask what is behind it",
    )


def _is_over_padding(flow: Dataflow, call: Call, size: int, longest: int) -> bool:
    shape = shape_of(flow, call.inputs[0].tensor) if call.inputs and call.live_inputs else ()
    if len(shape) != _OF_SEQUENCES or size not in shape[:2] or max(shape[:2]) < longest:
        return False
    is_average = plain_name(call.function) == "mean" and axes_of(call, len(shape)) == [1]
    return plain_name(call.function) in RECURRENT_LAYERS or is_average


_OF_SEQUENCES = 3


def _takes_last(call: Call) -> bool:
    return plain_name(call.function) == "getitem" and bool(call.inputs) and -1 in call.scalars.values()


def _counts(flow: Dataflow, name: str, rows: range, size: int) -> Place | None:
    """The loss of counts that a Poisson distribution explains."""
    for row in rows:
        call = flow.log.calls[row]
        function = plain_name(call.function)
        is_loss = function == "poisson_nll_loss" or (function == "xlogy" and len(call.inputs) == _OF_BOTH)
        if is_loss and call.live_inputs and shape_of(flow, call.inputs[0].tensor)[:1] == (size,):
            added = name if name.startswith("log_") else f"{name}.log()"
            return Place(
                row,
                "counts are compared with a rate, as if all were counted over the same time",
                "what is counted grows with how long it is counted: the rate is that of an average exposure",
                f"add its logarithm to that of the rate: F.poisson_nll_loss(log_rate + {added}, counts)",
            )
    return None


def _unfinished_times(flow: Dataflow, name: str, rows: range, size: int) -> Place | None:
    """The likelihood of times until an event, which takes all of them for times at whose end it was seen."""
    row = event_counted_for_all(flow, rows, size)
    if row is None:
        return None
    flag = f"(1 - {name})" if name.startswith(("cens", "is_cens", "not")) else name
    return Place(
        row,
        "the likelihood counts an event at the end of the time of each sample",
        "of those who left before, one only knows that nothing had happened until then: their term has no rate at the "
        "end",
        f"multiply the logarithm of the rate by it: (rate * time - {flag} * rate.log()).mean()",
    )


def _average(flow: Dataflow, name: str, rows: range, size: int) -> Place | None:
    """The last average of a loss over all samples."""
    for row in reversed(rows):
        call = flow.log.calls[row]
        function = plain_name(call.function)
        is_loss = function in LOSSES_BY_SAMPLE and call.scalars.get("reduction") == "mean"
        is_mean = function == "mean" and not axes_of(call, 1)
        if (is_loss or is_mean) and call.live_inputs and shape_of(flow, call.inputs[0].tensor)[:1] == (size,):
            return Place(
                row,
                "the loss is averaged with the same weight for each",
                "a sampler that prefers some samples hands out weights so that the gradient is still that of all data",
                "multiply the loss of each sample by it before the average: "
                f'({name} * f(..., reduction="none")).mean()',
            )
    return None
