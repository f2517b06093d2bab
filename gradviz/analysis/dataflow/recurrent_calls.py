"""Calls of recurrent layers and cells, by the plain names of their functions."""

from __future__ import annotations

from gradviz.graph.call_log import Call

RECURRENT_CELLS = frozenset({"lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"})
RECURRENT_LAYERS = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})


def is_batch_first(call: Call) -> bool | None:
    """Whether a layer takes the first of three axes for the samples; not for packed sequences, which have two axes."""
    flag = call.scalars.get("8")
    return flag if isinstance(flag, bool) else None


def is_bidirectional(call: Call) -> bool:
    """Whether a layer reads the sequence in both directions; not told for packed sequences, which have two axes."""
    return call.scalars.get("7") is True and isinstance(call.scalars.get("8"), bool)
