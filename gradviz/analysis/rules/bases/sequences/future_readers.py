"""Calls through which a position of a sequence reads later positions."""

from __future__ import annotations

from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import RECURRENT_LAYERS, is_bidirectional
from gradviz.analysis.rules.bases.sequences.attention.future_attended import (
    FutureReader,
    shown_by_attention,
    shown_by_softmax,
)
from gradviz.analysis.rules.bases.sequences.positions.position_convolutions import convolution_reach, has_whole_kernel
from gradviz.analysis.rules.bases.sequences.positions.position_mixers import MIXING, Mixer, reads_later
from gradviz.analysis.rules.bases.sequences.shifted_tokens import Shifted
from gradviz.graph.call_log import Call


def first_reader(flow: Dataflow, shifted: Shifted) -> FutureReader | None:
    """The first call on the way from the tokens to the loss that reads later positions of the same tokens."""
    rows = _way_up(flow, shifted, *shifted.trained)
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
        return shown_by_softmax(flow, shifted, row, call)
    if name in ("scaled_dot_product_attention", "multi_head_attention_forward"):
        found = shown_by_attention(flow, shifted, row, call, name)
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
