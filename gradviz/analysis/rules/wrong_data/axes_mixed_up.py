"""GV630."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, calls_named, location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
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
    users_by_element,
)
from gradviz.analysis.rules.bases.sequences.attention.mixed_heads import heads_with_tokens, tokens_into_heads
from gradviz.analysis.rules.bases.sequences.mixed_times import (
    layers_with_samples,
    rows_joined_otherwise,
    samples_with_times,
    stacked_with_samples,
)
from gradviz.analysis.rules.bases.sources.names.exchanged_sizes import exchanged_sizes
from gradviz.analysis.rules.bases.sources.own_files import own_tree
from gradviz.graph.call_log import Call


class AxesMixedUp(Rule):
    """A reshape stands where two axes should change places.

    What it finds
    -------------
    The result of attention, (batch, heads, tokens, features), reshaped to (batch, tokens, heads * features) without a
    transposition before; the result of a convolution, (batch, channels, time), viewed as (batch, time, channels);
    the last states of a recurrent layer, (layers, batch, features), viewed as (batch, all features); pictures, (batch,
    height, width, 3), viewed as (batch, 3, height, width) for a convolution; series, (batch, time, channels), viewed as
    (batch, channels, time) for one along time; features of tokens, (batch, tokens, features), viewed as (batch,
    features, tokens) for a convolution or a loss; the numbers of each anchor of a detector, (batch, anchors * numbers,
    height, width), viewed as (batch, all anchors, numbers) and compared with targets; classes that were coded one-hot,
    (batch, height, width, classes), viewed as (batch, classes, height, width) and multiplied with probabilities of that
    shape; samples and times that a reshape exchanges for a recurrent layer or behind it; tensors that were stacked, as
    the states of time steps, viewed as (samples, tensors, features); heads that a reshape puts before the tokens; and
    sizes that ``b, t, m = x.shape`` names in one order, and ``x.reshape(b * m, t)`` in another.
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
        for row, call in calls_named(flow, _RESHAPES):
            if not call.inputs or not call.outputs:
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
    states = layers_with_samples(flow, row, call)
    known = states or _colours_with_pixels(case, row, call) or samples_with_times(flow, row, call)
    known = known or _channels_with_times(flow, row, call)
    known = known or features_with_positions(flow, row, call) or classes_with_positions(flow, row, call)
    heads = heads_with_tokens(flow, row, call) or tokens_into_heads(flow, row, call)
    cells = channels_with_positions(flow, row, call) or cells_with_channels(flow, row, call)
    mixed = known or heads or cells or stacked_with_samples(flow, row, call) or rows_joined_otherwise(flow, row, call)
    mixed = mixed or _names_of_sizes(case, row)
    if mixed is None:
        return None
    is_used = known or mixed.is_certain or _is_used_by_axis(case, row, call.outputs[0].tensor)
    return mixed if is_used else None


def _names_of_sizes(case: Case, row: int) -> Mixed | None:
    """The source itself names the sizes in two orders."""
    flow, call = case.dataflow, case.dataflow.log.calls[row]
    location = location_of_call(flow, row)
    tree = None if location is None else own_tree(case, location.file)
    if tree is None or location is None:
        return None
    given, made = (shape_of(flow, use.tensor) for use in (call.inputs[0], call.outputs[0]))
    found = exchanged_sizes(tree, location.line, given, made)
    if found is None:
        return None
    first, second = found.pair
    return Mixed(
        row,
        f"line {found.line} names the axes {', '.join(found.names)}",
        f"{first} and {second}",
        f"exchange the two axes before: x.transpose({found.names.index(first)}, {found.names.index(second)})",
        is_certain=True,
    )


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


def _channels_with_times(flow: Dataflow, row: int, call: Call) -> Mixed | None:
    """(batch, time, channels), data without a gradient, to (batch, channels, time) for a convolution along time."""
    given, made = shape_of(flow, call.inputs[0].tensor), shape_of(flow, call.outputs[0].tensor)
    if len(given) != _SERIES or call.inputs[0].requires_grad or len(set(given[1:])) == 1:
        return None
    users = users_by_element(flow, row, call.outputs[0].tensor)
    is_for_convolution = any(plain_name(flow.log.calls[user].function) == "conv1d" for user in users)
    if made != (given[0], given[2], given[1]) or not is_for_convolution:
        return None
    what = f"a convolution takes the axis of {made[1]} for channels"
    return Mixed(row, what, "channels and times", "exchange the axes instead: .transpose(1, 2)")


_SERIES = 3


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
