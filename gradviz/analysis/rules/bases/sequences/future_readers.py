"""Calls through which a position of a sequence reads later positions."""

from __future__ import annotations

from msgspec import Struct

from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.einsum_equations import equation_of
from gradviz.analysis.dataflow.layer_calls import RECURRENT_LAYERS, is_bidirectional
from gradviz.analysis.rules.bases.losses.scores_before_softmax import (
    FAR_BELOW,
    Triangle,
    hidden_of,
    scores_of,
    triangle_of,
)
from gradviz.analysis.rules.bases.sequences.position_convolutions import convolution_reach, has_whole_kernel
from gradviz.analysis.rules.bases.sequences.position_mixers import MIXING, Mixer, reads_later
from gradviz.analysis.rules.bases.sequences.shifted_tokens import Shifted
from gradviz.graph.call_log import Call


class FutureReader(Struct, frozen=True):
    """A line that lets positions read later ones."""

    row: int
    """The call that one would change."""
    what: str
    fix: str
    is_convolution: bool = False


def first_reader(flow: Dataflow, shifted: Shifted) -> FutureReader | None:
    """The first call on the way from the tokens to the loss that reads later positions of the same tokens."""
    trained = next(use.tensor for use in flow.log.calls[shifted.loss].inputs if use.requires_grad)
    rows = _way_up(flow, shifted, trained, shifted.loss)
    reaches = [convolution_reach(flow, row, shifted.lengths) for row in rows]
    # Convolutions that end before the values of a forecast for several positions later show none of them.
    is_short = sum(max(reach.after, 0) for reach in reaches if reach is not None) < shifted.by
    for row in sorted(rows) if shifted.lookup in rows else ():
        found = _reader(flow, shifted, row)
        if found is not None and not (is_short and shifted.series and found[0].is_convolution):
            reader, read = found
            if shifted.lookup in _way_up(flow, shifted, *read):
                return reader
    return None


_MAX_FOLLOWED = 5_000
_MOVES = frozenset({"roll", "pad", "cat", "concat", "flip"})
_STATES = ("return[1]", "return[2]")


def _way_up(flow: Dataflow, shifted: Shifted, tensor: int, before: int) -> set[int]:
    """The calls above a tensor whose results all have samples and positions, and that do not move the positions."""
    waiting, rows = [(tensor, before)], set[int]()
    while waiting and len(rows) < _MAX_FOLLOWED:
        tensor, before = waiting.pop()
        if tensor in shifted.series:
            rows.add(shifted.lookup)
            continue
        made = flow.producers(tensor, before)
        if not made or made[-1] in rows or made[-1] < flow.step_before(shifted.loss):
            continue
        row = made[-1]
        call = flow.log.calls[row]
        place = next((use.place for use in call.outputs if use.tensor == tensor), "return")
        is_state = plain_name(call.function) in RECURRENT_LAYERS and place in _STATES
        if is_state or not _has_positions(shape_of(flow, tensor), shifted) or _moves(flow, call):
            continue
        rows.add(row)
        reach = convolution_reach(flow, row, shifted.lengths)
        if reach is not None and reach.after >= 0:
            waiting.append((reach.tensor, reach.before))
        else:
            waiting += [(use.tensor, row) for use in call.inputs if row != shifted.lookup]
    return rows


def _has_positions(shape: Shape, shifted: Shifted) -> bool:
    """Whether a shape has an axis of the positions and one with all samples, or one for both."""
    for length in shifted.lengths:
        if length * shifted.samples in shape:
            return True
        rest = list(shape)
        if length in rest:
            rest.remove(length)
            if shifted.samples == 1 or any(size % shifted.samples == 0 for size in rest):
                return True
    return False


def _moves(flow: Dataflow, call: Call) -> bool:
    """Whether a call moves the positions: what is read later may then be what came before."""
    if plain_name(call.function) in _MOVES:
        return True
    return any(place.endswith(".start") and value for place, value in call.scalars.items()) and _is_sliced(flow, call)


def _is_sliced(flow: Dataflow, call: Call) -> bool:
    """Whether another axis than the last one, that of the features, became shorter."""
    given, made = (shape_of(flow, use.tensor) for use in (call.inputs[0], call.outputs[0]))
    return len(given) == len(made) and given[:-1] != made[:-1]


def _reader(flow: Dataflow, shifted: Shifted, row: int) -> tuple[FutureReader, tuple[int, int]] | None:
    """What a call does, and what it reads later positions of: a tensor, as the call with that number received it."""
    call = flow.log.calls[row]
    name = plain_name(call.function)
    if name == "softmax":
        return _of_softmax(flow, shifted, row, call)
    if name in ("scaled_dot_product_attention", "multi_head_attention_forward"):
        found = _of_attention(flow, shifted, row, call, name)
        return None if found is None else (found, (call.inputs[1].tensor, row))
    if name in RECURRENT_LAYERS and is_bidirectional(call):
        reader = FutureReader(
            row,
            f"the {name.partition('_')[0].upper()} reads the sequence in both directions",
            "make the layer without bidirectional=True",
        )
        return reader, (call.inputs[0].tensor, row)
    mixed = reads_later(flow, row, shifted.lengths) if name in MIXING else None
    if mixed is not None:
        return _of_mixer(flow, row, *mixed)
    return _of_convolution(flow, shifted, row) if name in ("conv1d", "getitem", "narrow") else None


# -- attention ---------------------------------------------------------------------------------------------------------

_ADD_A_MASK = "hide what comes later: scores.masked_fill(torch.triu(torch.ones(T, T), diagonal=1).bool(), -inf)"
_HIDE_UPPER = "hide the triangle above the diagonal, and only that: torch.triu(torch.ones(T, T), diagonal=1).bool()"
_TWO = 2


def _of_softmax(flow: Dataflow, shifted: Shifted, row: int, call: Call) -> tuple[FutureReader, tuple[int, int]] | None:
    shape = shape_of(flow, call.outputs[0].tensor)
    is_square = len(shape) >= _TWO and shape[-1] == shape[-2] and shape[-1] in shifted.lengths
    if not is_square or axis_of(call, len(shape)) != len(shape) - 1 or _is_masked_after(flow, row, call):
        return None
    scores = scores_of(flow, row)
    keys = None if scores.product is None else _keys_of(flow.log.calls[scores.product])
    if keys is None or scores.product is None:
        return None
    masks: list[tuple[int, int, bool]] = []
    for edit in scores.edits:
        if edit.kind == "term" and edit.mask is not None:
            values = flow.values(edit.mask, edit.row)
            if values is not None and not values.infs and (values.minimum or 0.0) > FAR_BELOW:
                continue  # a bias
            masks.append((edit.row, edit.mask, True))
        elif edit.kind == "fill" and edit.mask is not None and edit.value is not None and edit.value <= FAR_BELOW:
            masks.append((edit.row, edit.mask, edit.hides_true))
        else:
            return None
    reader = _of_masks(flow, row, shape[-1], masks, _ADD_A_MASK)
    return None if reader is None else (reader, (keys, scores.product))


def _keys_of(call: Call) -> int | None:
    """The factor of a product whose positions are the last axis of the result."""
    if plain_name(call.function) == "einsum":
        equation = equation_of(call)
        terms = equation.terms if equation.has_arrow else ()
        having = [number for number, each in enumerate(terms) if equation.result[-1:] in each]
        return call.inputs[having[0]].tensor if len(having) == 1 and len(terms) == len(call.inputs) else None
    return call.inputs[-1].tensor if len(call.inputs) >= _TWO else None


_PASSES = frozenset({"dropout", "to", "float", "half", "type_as", "view", "reshape"})


def _is_masked_after(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether the weights themselves are masked."""
    tensor = call.outputs[0].tensor
    for _ in range(_TWO):
        for user in flow.users(tensor, row):
            used = flow.log.calls[user]
            name = plain_name(used.function)
            is_weighed = name == "mul" and len(used.inputs) > 1
            if name in ("masked_fill", "where", "tril", "triu", "setitem") or is_weighed:
                return True
            if name in _PASSES and used.outputs:
                tensor, row = used.outputs[0].tensor, user
                break
    return False


def _of_attention(flow: Dataflow, shifted: Shifted, row: int, call: Call, name: str) -> FutureReader | None:
    if len(call.inputs) <= _TWO or call.scalars.get("is_causal", call.scalars.get("5")) is True:
        return None
    is_whole = name == "scaled_dot_product_attention"
    # multi_head_attention_forward() takes (positions, samples, features).
    query, keys = (shape_of(flow, use.tensor) for use in call.inputs[:_TWO])
    lengths = {query[-2], keys[-2]} if is_whole else {query[0], keys[0]}
    if len(lengths) != 1 or not lengths <= shifted.lengths:
        return None
    places = ("3", "attn_mask") if is_whole else ("attn_mask",)
    mask = next((use.tensor for use in call.inputs if use.place in places), None)
    masks = [] if mask is None else [(row, mask, not (is_whole and flow.log.tensors[mask].facts.dtype == "bool"))]
    fix = (
        "give it is_causal=True"
        if is_whole
        else "give the layer a causal mask: nn.Transformer.generate_square_subsequent_mask(T)"
    )
    return _of_masks(flow, row, lengths.pop(), masks, fix)


def _of_masks(
    flow: Dataflow, row: int, length: int, masks: list[tuple[int, int, bool]], fix: str
) -> FutureReader | None:
    """What masks leave visible, each with the call that uses it and whether it hides where it is true.

    None where one of them may hide the future.
    """
    wrong: Triangle | None = None
    too_few: tuple[int, int] | None = None
    for user, mask, hides_true in masks:
        shape = shape_of(flow, mask)
        if len(shape) < _TWO or shape[-2] == 1:
            continue  # the same for all positions: padding
        triangle = triangle_of(flow, user, mask, hides_true=hides_true)
        hidden = hidden_of(flow, user, mask, hides_true=hides_true)
        is_square = shape[-2:] == (length, length)
        if triangle is not None and triangle.shows_the_future:
            wrong = triangle
        elif is_square and hidden is not None and _hides_less_than_the_future(hidden, length):
            too_few = user, hidden[0] // max(hidden[1] // length**2, 1)
        else:
            return None
    if wrong is not None:
        half = "below the diagonal" if not wrong.hides_upper else f"from diagonal {wrong.diagonal} on"
        return FutureReader(wrong.row, f"the mask hides what is {half}, so positions see later ones", _HIDE_UPPER)
    if too_few is not None:
        what = (
            f"the mask hides {too_few[1]} of the {length * (length - 1) // 2} pairs in which a later position is read"
        )
        return FutureReader(too_few[0], what, _HIDE_UPPER)
    only = " but one of padding" if masks else ""
    return FutureReader(row, f"each position attends to all {length}, without a mask{only}", fix)


def _hides_less_than_the_future(hidden: tuple[int, int], length: int) -> bool:
    count, elements = hidden
    return 2 * count * length < elements * (length - 1)


# -- matrices ----------------------------------------------------------------------------------------------------------


def _of_mixer(flow: Dataflow, row: int, mixer: Mixer, is_whole: bool) -> tuple[FutureReader, tuple[int, int]]:
    length = shape_of(flow, mixer.matrix.tensor)[-1]
    if is_whole:
        what = f"the product with a matrix of {length} x {length} gives each position all {length}"
        fix = "leave only the positions before each: matrix.tril() @ x"
    else:
        order = "columns of a lower triangle" if mixer.past == "lower" else "rows of an upper triangle"
        what = "the product with a triangular matrix gives each position itself and those after it"
        fix = f"take the other half of the matrix, or sum over the other axis: the sum over the {order} is of the past"
    return FutureReader(row, what, fix), (mixer.sequence.tensor, row)


# -- convolutions ------------------------------------------------------------------------------------------------------


def _of_convolution(flow: Dataflow, shifted: Shifted, row: int) -> tuple[FutureReader, tuple[int, int]] | None:
    reach = convolution_reach(flow, row, shifted.lengths)
    if reach is None or reach.after <= 0 or not has_whole_kernel(flow, reach):
        return None
    what = f"the convolution over time also reads {reach.after} position{'s' * (reach.after > 1)} after each one"
    fix = "pad the beginning only: F.pad(x, ((kernel_size - 1) * dilation, 0)), and a convolution without padding"
    if reach.trim is not None and reach.left_out == reach.after:
        what += f", as its first {reach.left_out} results are left out"
        fix = f"leave out the last results, not the first ones: [..., :-{reach.left_out}]"
    changed = reach.row if reach.trim is None else reach.trim
    return FutureReader(changed, what, fix, is_convolution=True), (reach.tensor, reach.before)
