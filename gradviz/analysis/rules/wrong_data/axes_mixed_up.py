"""GV630."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.einsum_equations import equation_of
from gradviz.analysis.dataflow.layer_calls import RECURRENT_LAYERS
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.batches.mixed_classes import classes_with_positions
from gradviz.analysis.rules.bases.boxes.mixed_cells import cells_with_channels
from gradviz.analysis.rules.bases.mixed_channels import (
    KEEPS_AXES,
    Mixed,
    as_one_reshape,
    channels_with_positions,
    features_with_positions,
    order_of,
    users_by_element,
)
from gradviz.analysis.rules.bases.sequences.mixed_times import samples_with_times, stacked_with_samples
from gradviz.graph.call_log import Call


class AxesMixedUp(Rule):
    """A reshape stands where two axes should change places.

    What it finds
    -------------
    The result of attention, (batch, heads, tokens, features), reshaped to (batch, tokens, heads * features) without a
    transposition before; the result of a convolution, (batch, channels, time), viewed as (batch, time, channels);
    the last states of a recurrent layer, (layers, batch, features), viewed as (batch, all features); pictures, (batch,
    height, width, 3), viewed as (batch, 3, height, width) for a convolution; features of tokens, (batch, tokens,
    features), viewed as (batch, features, tokens) for a convolution or a loss; the numbers of each anchor of a
    detector, (batch, anchors * numbers, height, width), viewed as (batch, all anchors, numbers) and compared with
    targets; classes that were coded one-hot, (batch, height, width, classes), viewed as (batch, classes, height, width)
    and multiplied with probabilities of that shape; samples and times that a reshape exchanges for a recurrent layer or
    behind it; tensors that were stacked, as the states of time steps, viewed as (samples, tensors, features); and heads
    that a reshape puts before the tokens.
    Which axis is which is told from the calls around: without such a call, and where two sizes are equal but those of
    heads and tokens in attention, the rule says nothing.

    Why it matters
    --------------
    A reshape keeps the order of the numbers in memory, and only counts them off anew: what it calls one token holds
    numbers of several tokens. The shapes fit, nothing raises, and the next layer learns what is left to learn.

    Example
    -------
    conv, gru = torch.nn.Conv1d(3, 8, 3), torch.nn.GRU(8, 4, batch_first=True)
    optimizer = torch.optim.SGD([*conv.parameters(), *gru.parameters()], lr=0.1)
    for step in range(3):
        h = conv(torch.randn(6, 3, 12)).relu()
        out, _ = gru(h.view(6, 10, 8))
        loss = (out[:, -1] - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    conv, gru = torch.nn.Conv1d(3, 8, 3), torch.nn.GRU(8, 4, batch_first=True)
    optimizer = torch.optim.SGD([*conv.parameters(), *gru.parameters()], lr=0.1)
    for step in range(3):
        h = conv(torch.randn(6, 3, 12)).relu()
        out, _ = gru(h.transpose(1, 2))
        loss = (out[:, -1] - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV630"
    name = "axes_mixed_up"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        told: set[Location | None] = set()
        for row, call in enumerate(flow.log.calls):
            if plain_name(call.function) not in _RESHAPES or not call.inputs or not call.outputs:
                continue
            location = location_of_call(flow, row)
            if location in told or not flow.has_step_after(row):
                continue
            for whole in as_one_reshape(flow, row, call):
                mixed = _mixed_by(case, row, whole)
                if mixed is not None:
                    told.add(location)
                    yield self._finding(case, row, whole, mixed)
                    break

    def _finding(self, case: Case, row: int, call: Call, mixed: Mixed) -> Finding:
        flow = case.dataflow
        given, made = (shape_of(flow, use.tensor) for use in (call.inputs[0], call.outputs[0]))
        location, origin = two_lines(flow, row, mixed.origin)
        name = plain_name(call.function)
        where = at_line(origin)
        return self.finding(
            f"{name}() makes {made} of {given}, where {mixed.what}{where}: it mixes {mixed.pair}",
            symptom="grad_wrong",
            why=f"{name}() keeps the order of the numbers in memory, so it cannot exchange two axes",
            fix=mixed.fix,
            location=location,
            symptom_location=origin,
            evidence={"shapes": f"{given}, {made}"},
        )


_RESHAPES = frozenset({"view", "reshape", "unflatten", "view_as", "reshape_as"})
_MAX_FOLLOWED = 40


def _mixed_by(case: Case, row: int, call: Call) -> Mixed | None:
    """What a reshape mixes, if something that is trained uses it by its axes."""
    flow = case.dataflow
    states = _layers_with_samples(case, row, call)
    known = states or _colours_with_pixels(case, row, call) or samples_with_times(flow, row, call)
    known = known or features_with_positions(flow, row, call) or classes_with_positions(flow, row, call)
    heads = _heads_with_tokens(case, row, call) or _tokens_into_heads(case, row, call)
    cells = channels_with_positions(flow, row, call) or cells_with_channels(flow, row, call)
    mixed = known or heads or cells or stacked_with_samples(flow, row, call)
    if mixed is None:
        return None
    is_used = known or mixed.is_certain or _is_used_by_axis(case, row, call.outputs[0].tensor)
    return mixed if is_used else None


# -- layers and samples ------------------------------------------------------------------------------------------------


def _layers_with_samples(case: Case, row: int, call: Call) -> Mixed | None:
    """(layers * directions, batch, features), the last states of a recurrent layer, to (batch, all features)."""
    flow = case.dataflow
    state, made = call.inputs[0].tensor, shape_of(flow, call.outputs[0].tensor)
    given = shape_of(flow, state)
    if len(given) != 3 or min(given[:2]) < 2 or made != (given[1], given[0] * given[2]):
        return None
    state, maker = _before_parts(case, state, row)
    if maker is None:
        return None
    is_state = any(use.tensor == state and use.place != "return[0]" for use in flow.log.calls[maker].outputs)
    if plain_name(flow.log.calls[maker].function) not in RECURRENT_LAYERS or not is_state:
        return None
    what = f"axis 0 has the layers and directions of {plain_name(flow.log.calls[maker].function)}()"
    return Mixed(maker, what, "layers and samples", "exchange the axes first: .transpose(0, 1).reshape(batch, -1)")


def _before_parts(case: Case, tensor: int, row: int) -> tuple[int, int | None]:
    """The tensor of which another one has some layers, or the samples in another order, and the call that made it."""
    flow = case.dataflow
    maker = flow.newest_producer(tensor, row)
    for _ in range(_MAX_PARTS):
        part = None if maker is None else flow.log.calls[maker]
        if part is None or plain_name(part.function) not in ("getitem", "index_select") or not part.inputs:
            break
        whole = part.inputs[0].tensor
        if shape_of(flow, whole)[1:] != shape_of(flow, tensor)[1:]:
            break
        tensor, maker = whole, flow.newest_producer(whole, maker or row)
    return tensor, maker


_MAX_PARTS = 3


# -- heads and tokens --------------------------------------------------------------------------------------------------


def _heads_with_tokens(case: Case, row: int, call: Call) -> Mixed | None:
    """(..., heads, tokens, features) to (..., tokens, heads * features), where the heads had been split from the last
    axis of a tensor that has the tokens before it."""
    flow = case.dataflow
    given, made = shape_of(flow, call.inputs[0].tensor), shape_of(flow, call.outputs[0].tensor)
    if len(given) < 3 or min(given[-3:]) < 2:
        return None
    *batch, heads, tokens, features = given
    if made not in ((*batch, tokens, heads * features), (prod(batch) * tokens, heads * features)):
        return None
    origin, is_attention = _split_into_heads(case, row, call.inputs[0].tensor)
    # With as many heads as tokens the shape alone would fit the features of all tokens of a head, too.
    if origin is None or (heads == tokens and not is_attention):
        return None
    axes = f"axis {len(given) - 3} has the heads that were split off"
    fix = f"exchange the axes first: .transpose({len(given) - 3}, {len(given) - 2}).reshape(...)"
    return Mixed(origin, axes, "heads and tokens", fix)


def _tokens_into_heads(case: Case, row: int, call: Call) -> Mixed | None:
    """(..., tokens, features) to (..., heads, tokens, features of a head): the heads are parts of the features."""
    flow = case.dataflow
    given, made = shape_of(flow, call.inputs[0].tensor), shape_of(flow, call.outputs[0].tensor)
    if len(given) < 3 or len(made) != len(given) + 1 or not call.inputs[0].requires_grad:
        return None
    *batch, tokens, features = given
    heads = made[-3]
    if made != (*batch, heads, tokens, features // heads) or heads in (1, tokens) or tokens == 1 or features == heads:
        return None
    maker = flow.newest_producer(call.inputs[0].tensor, row)
    before, sizes = len(given) - 1, ", ".join(map(str, (*batch, tokens, heads, features // heads)))
    return Mixed(
        row if maker is None else maker,
        f"axis {before - 1} has the tokens, and the heads are parts of the last axis",
        "heads and tokens",
        f"split the last axis, then exchange: .reshape({sizes}).transpose({before - 1}, {before})",
    )


def _split_into_heads(case: Case, row: int, tensor: int) -> tuple[int | None, bool]:
    """The call that split the third last axis off the last one of its input, and the second last one not; and whether
    a product with weights of attention came after it."""
    flow, is_attention = case.dataflow, False
    rank = len(shape_of(flow, tensor))
    heads, tokens = rank - 3, rank - 2
    for _ in range(_MAX_FOLLOWED):
        made = flow.producers(tensor, row)
        if not made:
            break
        row = made[-1]
        call = flow.log.calls[row]
        above = _input_with_these_axes(case, call)
        if above is None:
            break
        name, given, result = plain_name(call.function), shape_of(flow, above), shape_of(flow, tensor)
        if name in ("transpose", "swapaxes", "permute"):
            order = order_of(call, len(given))
            if order is None:
                break
            heads, tokens = order[heads], order[tokens]
        elif name in ("view", "reshape", "unflatten"):
            return (row if _is_split_from_last(given, result, heads, tokens) else None), is_attention
        elif name in ("getitem", "unbind", "select") and given[1:] == result:
            heads, tokens = heads + 1, tokens + 1
        elif len(given) != len(result) or name not in KEEPS_AXES | _PRODUCTS | _PARTS:
            break
        is_attention = is_attention or name in _PRODUCTS
        tensor = above
    return None, False


_PRODUCTS = frozenset({"matmul", "scaled_dot_product_attention", "einsum"})
_PARTS = frozenset({"chunk", "split", "repeat_interleave"})


def _input_with_these_axes(case: Case, call: Call) -> int | None:
    """The input whose axes are those of the result: of a product with the weights of attention, the values."""
    flow, name = case.dataflow, plain_name(call.function)
    if not call.inputs or not call.outputs:
        return None
    if name == "scaled_dot_product_attention":
        return call.inputs[2].tensor if len(call.inputs) > 2 else None
    if name == "matmul":
        shapes = [shape_of(flow, use.tensor) for use in call.inputs]
        return call.inputs[1].tensor if len(shapes) == 2 and len(shapes[0]) == len(shapes[1]) else None
    if name == "einsum":
        equation = equation_of(call)
        last, result = equation.terms[-1], equation.result
        # "bhts,bhsd->bhtd": heads stay heads, and the tokens come from the other factor.
        is_product = len(last) == len(result) > 2 and last[:-2] == result[:-2] and last[-1] == result[-1]
        return call.inputs[-1].tensor if is_product else None
    return call.inputs[0].tensor


def _is_split_from_last(given: Shape, result: Shape, heads: int, tokens: int) -> bool:
    """Whether a reshape made several axes of the last one, the heads among them, and kept the tokens before it."""
    if len(given) < 2 or tokens >= heads:
        return False
    first = next((axis for axis in range(len(result)) if prod(result[axis:]) == given[-1]), None)
    if first is None or not tokens < first <= heads < len(result) - 1:
        return False
    return result[:first] == given[:-1] or (len(given) == 2 and prod(result[:first]) == given[0])


# -- colours and pixels ------------------------------------------------------------------------------------------------


def _colours_with_pixels(case: Case, row: int, call: Call) -> Mixed | None:
    """(..., height, width, colours), data without a gradient, to (..., colours, height, width) for a convolution."""
    flow = case.dataflow
    given, made = shape_of(flow, call.inputs[0].tensor), shape_of(flow, call.outputs[0].tensor)
    if len(given) < 3 or call.inputs[0].requires_grad:
        return None
    *batch, height, width, colours = given
    if colours not in _COLOURS or min(height, width) <= max(_COLOURS) or made != (*batch, colours, height, width):
        return None
    if not any(_takes_pictures(flow.log.calls[user]) for user in users_by_element(flow, row, call.outputs[0].tensor)):
        return None
    what = f"the last axis of {colours} has the colours"
    order = ", ".join(map(str, (*range(len(batch)), len(given) - 1, len(given) - 3, len(given) - 2)))
    return Mixed(row, what, "colours and pixels", f"exchange the axes instead: .permute({order})")


_COLOURS = (3, 4)


def _takes_pictures(call: Call) -> bool:
    return plain_name(call.function) == "conv2d"


# -- what the result is used for ---------------------------------------------------------------------------------------


def _is_used_by_axis(case: Case, row: int, tensor: int) -> bool:
    """Whether a call that is trained tells the axes of the result apart: a sum over all of it does not."""
    flow = case.dataflow
    waiting, seen = [(tensor, row)], {tensor}
    while waiting and len(seen) < _MAX_FOLLOWED:
        given, after = waiting.pop()
        for user in flow.users(given, after):
            call = flow.log.calls[user]
            if call.kind != "operation" or not call.outputs:
                continue
            name = plain_name(call.function)
            has_axis = any(each.startswith(("dim", "1")) for each in call.scalars)
            is_choice = name in _CHOICES and len(shape_of(flow, call.outputs[0].tensor)) < len(shape_of(flow, given))
            if name in _BY_AXIS or (name in _REDUCTIONS and has_axis) or is_choice:
                if any(use.requires_grad for use in call.outputs):
                    return True
            elif call.outputs[0].tensor not in seen and (name in KEEPS_AXES or _keeps_rows(case, call, given)):
                seen.add(call.outputs[0].tensor)
                waiting.append((call.outputs[0].tensor, user))
    return False


def _keeps_rows(case: Case, call: Call, tensor: int) -> bool:
    """Whether a call takes some rows of a tensor, as those that are not padding, or folds all axes but the last one."""
    name = plain_name(call.function)
    if call.inputs[0].tensor != tensor:
        return False
    given, made = (shape_of(case.dataflow, each) for each in (tensor, call.outputs[0].tensor))
    if name in ("getitem", "index_select"):
        return len(made) == len(given) > 1 and made[1:] == given[1:]
    return name in ("view", "reshape", "flatten") and len(made) > 1 and made[-1:] == given[-1:]


_BY_AXIS = frozenset({
    "linear", "matmul", "bmm", "mm", "addmm", "einsum", "layer_norm", "rms_norm", "softmax", "log_softmax",
    "cross_entropy", "nll_loss", "scaled_dot_product_attention", "multi_head_attention_forward", "cdist",
    *RECURRENT_LAYERS,
})  # fmt: skip
_REDUCTIONS = frozenset({"sum", "mean", "max", "amax", "logsumexp", "gather"})
_CHOICES = frozenset({"getitem", "select", "unbind"})
"""They take one position of an axis."""
