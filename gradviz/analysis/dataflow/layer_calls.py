"""Calls of layers, and what they were called with: dropout and batch normalization, and recurrent layers and cells; and
whether what is trained meets a result."""

from __future__ import annotations

from collections.abc import Iterable

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

OTHERWISE_IN_TRAINING = {
    "torch.nn.functional.dropout": "dropout",
    "torch.nn.functional.feature_dropout": "dropout",
    "torch.nn.functional.dropout1d": "dropout",
    "torch.nn.functional.dropout2d": "dropout",
    "torch.nn.functional.dropout3d": "dropout",
    "torch.nn.functional.feature_alpha_dropout": "dropout",
    "torch.nn.functional.alpha_dropout": "dropout",
    "torch.nn.functional.batch_norm": "batch normalization",
}
"""The functions of layers that do something else in training than in evaluation, and the words for them."""

DENSE_LAYERS = frozenset({"linear", "conv1d", "conv2d"})
RECURRENT_CELLS = frozenset({"lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"})
RECURRENT_LAYERS = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})
"""By the plain names of their functions."""


def is_training(call: Call) -> bool | None:
    """The mode of a dropout or normalization that could change something; None for other calls."""
    if call.function not in OTHERWISE_IN_TRAINING or call.scalars.get("p", call.scalars.get("1", 0.5)) == 0.0:
        return None
    if call.function.endswith("batch_norm"):
        flag = call.scalars.get("training", call.scalars.get("5"))
        has_statistics = len([use for use in call.inputs if use.place in _STATISTICS]) == len(_STATISTICS) // 2
        return flag if isinstance(flag, bool) and has_statistics else None
    flag = call.scalars.get("training", call.scalars.get("2"))
    return flag if isinstance(flag, bool) else None


def normalizes_by_batch(call: Call) -> bool:
    """Whether a normalization takes mean and variance of what it is given, not those of earlier batches."""
    flag = _OF_BATCH.get(plain_name(call.function))
    return flag is not None and call.scalars.get(*flag) is not False


_OF_BATCH = {"batch_norm": ("training", False), "instance_norm": ("use_input_stats", True)}
"""By normalization: the argument that says so, and what it is by default."""


def word_of_layer(call: Call) -> str:
    """``dropout`` or ``batch normalization``, for a call that does something else in training."""
    return OTHERWISE_IN_TRAINING.get(call.function, "dropout")


def drops_attention(call: Call) -> bool:
    """Whether it is an attention that drops some of its weights: the function has no mode of its own."""
    if not call.function.endswith("scaled_dot_product_attention"):
        return False
    rate = call.scalars.get("dropout_p", call.scalars.get("4", 0.0))
    return isinstance(rate, float) and rate > 0


def is_idle_dropout(call: Call) -> bool:
    """Whether it is a dropout that changes nothing: in evaluation mode, or with a probability of 0."""
    return "dropout" in call.function and not is_training(call)


def time_axis(call: Call) -> int | None:
    """The axis of the time steps of a recurrent layer's input and output; None if torch does not say."""
    flag = is_batch_first(call)
    return None if flag is None else int(flag)


def is_batch_first(call: Call) -> bool | None:
    """Whether a recurrent layer takes the first of three axes for the samples; not told for packed sequences, which
    have two axes."""
    flag = call.scalars.get("8")
    return flag if isinstance(flag, bool) else None


def is_bidirectional(call: Call) -> bool:
    """Whether a recurrent layer reads the sequence in both directions; not told for packed sequences."""
    return call.scalars.get("7") is True and isinstance(call.scalars.get("8"), bool)


_STATISTICS = ("1", "2", "running_mean", "running_var")
"""Where running statistics are given."""


def meets_parameters(flow: Dataflow, row: int) -> bool:
    """Whether something with a gradient, as parameters have, meets the result of a call before the next step."""
    until = flow.next_of_kind("step", row)
    below = flow.descendants(flow.log.calls[row].outputs[0].tensor, row, until)
    return until < len(flow.log.calls) and any(flow.log.calls[each].live_inputs for each in below)


def take_parameters(flow: Dataflow, rows: Iterable[int]) -> bool:
    """Whether one of some calls takes a parameter of a module."""
    return any(flow.log.tensors[use.tensor].role == "parameter" for row in rows for use in flow.log.calls[row].inputs)


def dense_weights_above(flow: Dataflow, tensor: int, row: int) -> set[int]:
    """The weights of the dense layers that made a tensor, as the call `row` received it, since the step before."""
    above = (flow.log.calls[each] for each in flow.ancestors(tensor, row, since=flow.step_before(row)))
    return {
        call.inputs[1].tensor for call in above if plain_name(call.function) in DENSE_LAYERS and len(call.inputs) > 1
    }
