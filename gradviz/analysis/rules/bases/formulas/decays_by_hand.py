"""Weight decay that a program computes itself: by which number it pulls each parameter to zero."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.signed_terms import number_of
from gradviz.graph.call_log import Call

_BOTH = 2
_HALF = 0.5
_MIN_TIMES = 2


class Decay(Struct, frozen=True):
    """The decay of one parameter."""

    row: int
    parameter: int
    number: float


def decays_by_hand(flow: Dataflow) -> list[Decay]:
    """The last decay of each parameter, of those that the program decays again and again, perhaps by 0.

    Parameters that get the same update without any decay, in the same lines, have one of 0.
    """
    found: dict[int, list[Decay]] = defaultdict(list)
    updated: dict[int, int] = {}
    backwards = flow.rows_of_kind("backward")
    for row in range(backwards[0] if backwards else len(flow.log.calls), len(flow.log.calls)):
        call = flow.log.calls[row]
        if call.kind != "operation" or call.inside is not None or call.grad_mode == "enabled":
            continue
        for each in flow.lists.singles(row):
            for parameter, number in _decays_in(flow, row, each):
                found[parameter].append(Decay(row, parameter, number))
        updated |= {use.tensor: row for use in call.changed if may_train(flow, use.tensor)}
    decays = {each[-1].parameter: each[-1] for each in found.values() if len(each) >= _MIN_TIMES}
    sites = {flow.log.calls[updated[each]].call_site for each in decays if each in updated}
    for parameter, row in updated.items():
        if parameter not in found and flow.log.calls[row].call_site in sites:
            decays[parameter] = Decay(row, parameter, 0.0)
    return list(decays.values())


def growths_by_hand(flow: Dataflow) -> list[Decay]:
    """The last call, for each parameter, that takes a part of it off its gradient, of those that do so again and again:
    the opposite of a decay."""
    found: dict[int, list[Decay]] = defaultdict(list)
    backwards = flow.rows_of_kind("backward")
    for row in range(backwards[0] if backwards else len(flow.log.calls), len(flow.log.calls)):
        call = flow.log.calls[row]
        if call.kind != "operation" or plain_name(call.function).removeprefix("_foreach_") not in ("add", "sub"):
            continue
        for each in flow.lists.singles(row):
            parameter = _parameter_of_gradient(flow, each)
            number = None if parameter is None else _part_taken(flow, row, each, parameter)
            if parameter is not None and number is not None and -_HALF <= number < 0:
                found[parameter].append(Decay(row, parameter, number))
    return [each[-1] for each in found.values() if len(each) >= _MIN_TIMES]


def _parameter_of_gradient(flow: Dataflow, call: Call) -> int | None:
    """The parameter whose gradient is the first of two tensors that a call takes."""
    is_plain = len(call.inputs) == _BOTH and not call.function.endswith("__rsub__")
    of = flow.log.tensors[call.inputs[0].tensor].gradient_of if is_plain else None
    return of if of is not None and may_train(flow, of) else None


def _part_taken(flow: Dataflow, row: int, call: Call, parameter: int) -> float | None:
    """By which number of the parameter a call makes the gradient larger; below 0 where it takes it off."""
    number = number_of(call, "alpha", missing=1.0) * (-1 if plain_name(call.function) == "sub" else 1)
    added, before = call.inputs[1].tensor, row
    for _ in range(_BOTH):
        if flow.memory_of(added) == flow.memory_of(parameter):
            return number
        made = flow.newest_producer(added, before)
        maker = None if made is None else flow.lists.single(made, added)
        if made is None or maker is None or plain_name(maker.function) != "mul" or len(maker.inputs) != 1:
            return None
        number *= number_of(maker, "1", "0", "other", missing=1.0)
        added, before = maker.inputs[0].tensor, made
    return None


def may_train(flow: Dataflow, tensor: int) -> bool:
    """Whether it is a parameter, or a leaf that requires grad."""
    logged = flow.log.tensors[tensor]
    return logged.role == "parameter" or (logged.requires_grad and logged.is_leaf)


def _decays_in(flow: Dataflow, row: int, call: Call) -> Iterator[tuple[int, float]]:
    """The parameters that a call adds to their gradients, or shrinks, each with the number."""
    name = plain_name(call.function)
    if name == "add" and len(call.inputs) >= _BOTH:
        alpha = abs(number_of(call, "alpha", missing=1.0))
        one, other = call.inputs[:_BOTH]
        for gradient, added in ((one.tensor, other.tensor), (other.tensor, one.tensor)):
            of = flow.log.tensors[gradient].gradient_of
            if of is not None and of == added:
                # The parameter plus its gradient is a step.
                yield from ((of, alpha),) if gradient == one.tensor else ()
            elif of is not None:
                number = _times_parameter(flow, added, row, of)
                yield from () if number is None else ((of, alpha * number),)
    elif name == "mul" and len(call.inputs) == 1 and call.changed and may_train(flow, call.inputs[0].tensor):
        number = number_of(call, "1", missing=0.0)
        if _HALF < number <= 1:
            yield call.inputs[0].tensor, 1 - number


def _times_parameter(flow: Dataflow, tensor: int, row: int, parameter: int) -> float | None:
    """The number by which a parameter was multiplied to make a tensor; None if something else made it."""
    made = flow.newest_producer(tensor, row)
    call = None if made is None else flow.log.calls[made]
    if call is None or plain_name(call.function) != "mul" or [use.tensor for use in call.inputs] != [parameter]:
        return None
    return abs(number_of(call, "1", "0", "other", missing=0.0))
