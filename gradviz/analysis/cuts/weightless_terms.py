"""Terms of a loss whose factor is 0 at every step: ``0.0 * term``, ``torch.add(loss, term, alpha=0.0)``.

>>> from gradviz.graph.call_log import Call, TensorUse
>>> both = tuple(TensorUse(number, str(number), 0, True, False) for number in range(2))
>>> [use.tensor for use in weightless_inputs(Call("torch.add", inputs=both, scalars={"alpha": 0.0}))]
[1]
>>> [use.tensor for use in weightless_inputs(Call("torch.lerp", inputs=both, scalars={"2": 1}))]
[0]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.cuts.dead_terms import sum_rows
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call, TensorUse

_FACTOR_OF_LAST = {"add": "alpha", "sub": "alpha", "addcmul": "value", "addcdiv": "value"}
"""By operation: the number that it multiplies all but its first input with."""


class WeightlessTerm(Struct, frozen=True):
    """One term of a loss whose factor is the number 0 at every step."""

    tensor: int
    factor: int
    """The last call that multiplies it by 0."""
    steps: int
    parameters: tuple[int, ...]
    """Trained tensors that it was computed from."""


def weightless_terms(histories: ParameterHistories) -> Iterator[WeightlessTerm]:
    """Those of the last backward call of each line that ran at least twice."""
    flow, log = histories.flow, histories.log
    steps = Counter(log.calls[row].call_site for row in histories.reached_by)
    zeros = Counter(call.call_site for row, call in enumerate(log.calls) if _without_weight(flow, row))
    for backward in histories.last_backward_of_each_line:
        count = steps[log.calls[backward].call_site]
        for use in log.calls[backward].roots if count > 1 else ():
            for row in _rows(flow, backward, use.tensor):
                terms = _without_weight(flow, row)
                if not terms or zeros[log.calls[row].call_site] < count:
                    continue
                leaves, _ = histories.live_leaves([each.tensor for each in terms], row)
                parameters = leaves & histories.trained
                if parameters:
                    yield WeightlessTerm(terms[0].tensor, row, count, tuple(sorted(parameters)))


def _rows(flow: Dataflow, backward: int, root: int) -> list[int]:
    """The calls that add up and scale the terms of a loss, and those that made what these take, such as ``lerp()``."""
    rows = list(sum_rows(flow, backward, root))
    taken = [(root, backward), *((use.tensor, row) for row in rows for use in flow.log.calls[row].live_inputs)]
    made = (flow.newest_producer(tensor, row) for tensor, row in taken)
    return sorted({*rows, *(each for each in made if each is not None)})


def _without_weight(flow: Dataflow, row: int) -> list[TensorUse]:
    call = flow.log.calls[row]
    return weightless_inputs(call) or _times_a_zero_tensor(flow, row, call)


def weightless_inputs(call: Call) -> list[TensorUse]:
    """The inputs with a gradient that a call multiplies by the Python number 0."""
    name, live = plain_name(call.function), call.live_inputs
    if call.kind != "operation" or not live:
        return []
    if name == "mul":
        return list(live) if len(live) == 1 and any(map(_is_zero, call.scalars.values())) else []
    if name in _FACTOR_OF_LAST:
        is_off = _is_zero(call.scalars.get(_FACTOR_OF_LAST[name]))
        return [use for use in live if use.place not in ("0", "input")] if is_off else []
    if name == "lerp":
        weight = call.scalars.get("2", call.scalars.get("weight"))
        places = ("1", "end") if _is_zero(weight) else ("0", "input") if weight in (1, 1.0) else ()
        return [use for use in live if use.place in places]
    return []


def _times_a_zero_tensor(flow: Dataflow, row: int, call: Call) -> list[TensorUse]:
    """The only live factor of a product whose other one is a single 0: ``torch.tensor(0.0) * term``."""
    others = [use for use in call.inputs if not use.requires_grad]
    if plain_name(call.function) != "mul" or len(call.live_inputs) != 1 or len(others) != 1:
        return []
    values = flow.values_of(others[0], row)
    is_off = values is not None and values.count == 1 and values.minimum == values.maximum == 0
    return list(call.live_inputs) if is_off else []


def _is_zero(number: object) -> bool:
    return type(number) in (int, float) and number == 0
