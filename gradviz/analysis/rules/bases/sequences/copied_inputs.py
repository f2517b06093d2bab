"""Losses of regressions whose target is the very tensor that the model got as its input, and should be another one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import RECURRENT_LAYERS
from gradviz.analysis.rules.bases.losses.loss_arguments import PARTS, SHAPE_ONLY, argument
from gradviz.analysis.rules.bases.losses.objectives import has_line_with
from gradviz.graph.call_log import Call

REGRESSIONS = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "sub"})
_SHAPES = SHAPE_ONLY - PARTS - {"expand", "expand_as", "broadcast_to", "broadcast_tensors"}
_MAX_CALLS = 8
Cut = tuple[int, int, int]
"""The tensor that lost its last positions, the axis, and how many are left."""


def noisy_target(case: Case, row: int) -> int | None:
    """The call that adds noise to data, or drops parts of it, if a loss compares the result with itself."""
    flow = case.dataflow
    call = flow.log.calls[row]
    target = argument(call, 1, "target")
    if target is None or target.requires_grad or plain_name(call.function) == "sub":
        return None
    tensor = _plain(flow, target.tensor, row)
    made = flow.newest_producer(tensor, row)
    if made is None or made <= flow.step_before(row):
        return None
    clean = _clean_data(flow, flow.log.calls[made], made)
    if clean is None or set(flow.users(clean, made - _MAX_CALLS * _MAX_CALLS)) - _that_only_look(flow, clean) - {made}:
        return None
    users = {user for each in _shapes_of(flow, tensor, row) for user in flow.users(each)}
    models = {user for user in users if _has_parameters(flow, user)}
    others = users - models - {row} - _that_only_look(flow, tensor)
    is_read = any(model in flow.ancestors(call.inputs[0].tensor, row) for model in models)
    return made if is_read and not others and not has_line_with(case, _MEANT) else None


_NOISY = re.compile(r"nois|corrupt|perturb|distort|degrad|damag|(^|_)masked|dropped|tilde", re.IGNORECASE)
_MEANT = re.compile(r"noise2|n2n|n2v|n2s|blind.?spot|self.?supervised|\bsure\b|stein|dequant|augment", re.IGNORECASE)
_DRAWS = frozenset({"randn", "randn_like", "normal", "bernoulli", "rand", "rand_like"})


def is_named_noisy(flow: Dataflow, row: int) -> bool:
    """Whether the target of a loss has a name that speaks of noise, or is made by a function with such a name."""
    tensor = _plain(flow, flow.log.calls[row].inputs[1].tensor, row)
    made = flow.newest_producer(tensor, row)
    line = None if made is None else flow.line_of(made)
    names = [*flow.log.tensors[tensor].names, "" if line is None else line.function.rpartition(".")[2]]
    return any(_NOISY.search(name.rpartition(".")[2]) for name in names)


def _clean_data(flow: Dataflow, call: Call, row: int) -> int | None:
    """The data to which a call adds normal noise, or of which it drops parts at random."""
    name = plain_name(call.function)
    if name == "dropout" and not call.live_inputs:
        return call.inputs[0].tensor
    if name not in ("add", "mul", "masked_fill", "where") or len(call.inputs) != _TWO or call.live_inputs:
        return None
    drawn = [_is_drawn(flow, use.tensor, row, is_normal=name == "add") for use in call.inputs]
    if not any(drawn):
        return None
    newest = max(range(_TWO), key=lambda each: drawn[each])
    return call.inputs[1 - newest].tensor  # what was drawn first may be data that the program makes up


_TWO = 2


def _is_drawn(flow: Dataflow, tensor: int, row: int, *, is_normal: bool) -> int:
    """The call that drew a tensor at random, before it was scaled or compared; 0 if none did."""
    for maker, call in flow.makers(tensor, row, _MAX_CALLS):
        name = plain_name(call.function)
        if name in _DRAWS:
            return maker if not is_normal or name in ("randn", "randn_like", "normal") else 0
        if name not in _SCALES and name not in SHAPE_ONLY:
            break
    return 0


_SCALES = frozenset({"mul", "div", "lt", "gt", "le", "ge", "bool", "invert"})


def _plain(flow: Dataflow, tensor: int, row: int) -> int:
    """The tensor before its shape was changed."""
    for maker, call in flow.makers(tensor, row, _MAX_CALLS):
        if plain_name(call.function) not in _SHAPES or maker <= flow.step_before(row):
            break
        tensor = call.inputs[0].tensor
    return tensor


def _shapes_of(flow: Dataflow, tensor: int, until: int) -> Iterator[int]:
    """A tensor in all shapes that it was given."""
    waiting, left = [tensor], _MAX_CALLS * _MAX_CALLS
    while waiting and left:
        left -= 1
        tensor = waiting.pop()
        yield tensor
        for user in flow.users(tensor):
            call = flow.log.calls[user]
            if user < until and plain_name(call.function) in _SHAPES:
                waiting += [use.tensor for use in call.outputs if use.tensor != tensor]


def _that_only_look(flow: Dataflow, tensor: int) -> set[int]:
    """The calls that take only the shape of a tensor, or change it."""
    return {user for user in flow.users(tensor) if plain_name(flow.log.calls[user].function) in _LOOK | _SHAPES}


_LOOK = frozenset({"randn_like", "rand_like", "empty_like", "zeros_like", "ones_like", "size", "std"})


def _has_parameters(flow: Dataflow, row: int) -> bool:
    return any(flow.log.tensors[use.tensor].role == "parameter" for use in flow.log.calls[row].inputs)


# -- the same part of a sequence ---------------------------------------------------------------------------------------


def same_part(flow: Dataflow, row: int) -> int | None:
    """The recurrent call that reads the very part of a sequence that a loss asks for, if nothing uses its end."""
    call = flow.log.calls[row]
    if len(call.inputs) != _TWO or [use.requires_grad for use in call.inputs] != [True, False]:
        return None
    cut = _cut_of(flow, call.inputs[1].tensor, row)
    if cut is None:
        return None
    since = flow.step_before(row)
    for each in flow.ancestors(call.inputs[0].tensor, row, since):
        maker = flow.log.calls[each]
        if (
            plain_name(maker.function) not in RECURRENT_LAYERS
            or not maker.inputs
            or maker.live_inputs[:1] == maker.inputs[:1]
        ):
            continue
        goes_one_way = maker.outputs and shape_of(flow, maker.outputs[0].tensor)[:2] == _leading(flow, maker)
        if goes_one_way and _cut_of(flow, maker.inputs[0].tensor, each) == cut and _is_end_unused(flow, cut, row):
            return each if _keeps_positions(flow, each, call, row) else None
    return None


def decoded_target(flow: Dataflow, row: int) -> int | None:
    """The recurrent call that reads, position by position, all of the very tensor that a loss asks for, and begins with
    a state that another part of the model computed, as a decoder does."""
    call = flow.log.calls[row]
    if len(call.inputs) != _TWO or [use.requires_grad for use in call.inputs] != [True, False]:
        return None
    target = _plain(flow, call.inputs[1].tensor, row)
    for each in flow.ancestors(call.inputs[0].tensor, row, flow.step_before(row)):
        maker = flow.log.calls[each]
        is_layer = plain_name(maker.function) in RECURRENT_LAYERS and bool(maker.inputs and maker.outputs)
        if not is_layer or maker.inputs[0].requires_grad or _plain(flow, maker.inputs[0].tensor, each) != target:
            continue
        begins_with = [use for use in maker.inputs if use.place.partition("[")[0] == "1"]
        if begins_with and begins_with[0].requires_grad and _keeps_positions(flow, each, call, row):
            return each
    return None


def _leading(flow: Dataflow, call: Call) -> tuple[int, ...]:
    return shape_of(flow, call.inputs[0].tensor)[:_TWO]


def _keeps_positions(flow: Dataflow, recurrent: int, loss: Call, row: int) -> bool:
    """Whether the result for all positions, and not the last state, is what the loss compares."""
    made = flow.log.calls[recurrent]
    is_bidirectional = any(value is True for place, value in made.scalars.items() if place in ("7", "bidirectional"))
    below = flow.descendants(made.outputs[0].tensor, recurrent, row + 1)
    of_loss = shape_of(flow, loss.inputs[0].tensor)[:_TWO]
    return not is_bidirectional and row in below and of_loss == _leading(flow, made)


def _cut_of(flow: Dataflow, tensor: int, row: int) -> Cut | None:
    tensor = _plain(flow, tensor, row)
    made = flow.newest_producer(tensor, row)
    call = None if made is None else flow.log.calls[made]
    if call is None or plain_name(call.function) not in ("getitem", "narrow") or len(call.inputs) != 1:
        return None
    given, left = shape_of(flow, call.inputs[0].tensor), shape_of(flow, tensor)
    shorter = [axis for axis, pair in enumerate(zip(given, left, strict=False)) if pair[0] != pair[1]]
    if len(given) != len(left) or len(shorter) != 1 or shorter[0] >= _TWO or given[shorter[0]] != left[shorter[0]] + 1:
        return None
    starts = [value for place, value in call.scalars.items() if place.endswith((".start", ".step")) and value]
    is_from_the_start = call.scalars.get("2", 0) == 0 if plain_name(call.function) == "narrow" else not starts
    return (call.inputs[0].tensor, shorter[0], left[shorter[0]]) if is_from_the_start else None


def _is_end_unused(flow: Dataflow, cut: Cut, row: int) -> bool:
    """Whether all that uses a sequence is without its end."""
    for user in flow.users(cut[0], flow.step_before(row)):
        made = flow.log.calls[user].outputs
        if made and _cut_of(flow, made[0].tensor, user + 1) != cut:
            return False
    return True
