"""The classes of samples that a call takes as targets."""

from __future__ import annotations

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import argument, value_maker
from gradviz.graph.call_log import Call, TensorUse, ValueFacts

OF_CLASSES = frozenset({"cross_entropy", "nll_loss", "multi_margin_loss"})
BINARY = frozenset({"binary_cross_entropy", "binary_cross_entropy_with_logits"})


def class_targets(flow: Dataflow, row: int, call: Call) -> TensorUse | None:
    """The classes of the samples that a call takes; None if it takes none."""
    name = plain_name(call.function)
    if name == "gather":
        return argument(call, 2, "index") if _are_probabilities(flow, row, call) else None
    if name == "getitem":
        return _chosen_of_each(flow, row, call) if _are_probabilities(flow, row, call) else None
    if name == "mul" or not call.inputs[0].requires_grad:
        targets = next((use for use in call.inputs if not use.requires_grad), None)
    else:
        targets = argument(call, 1, "target")
    if targets is None or targets.requires_grad:
        return None
    hot = value_maker(flow, targets.tensor, row)
    if hot is not None and plain_name(hot[1].function) == "one_hot":
        return hot[1].inputs[0]
    is_integer = "int" in flow.log.tensors[targets.tensor].facts.dtype
    if name in BINARY:
        return targets if _is_zero_or_one(flow.values_of(targets, row)) else None
    return targets if name in OF_CLASSES and is_integer else None


def _is_zero_or_one(values: ValueFacts | None) -> bool:
    return values is not None and {values.minimum, values.maximum} <= {0.0, 1.0}


def _are_probabilities(flow: Dataflow, row: int, call: Call) -> bool:
    if not call.inputs[0].requires_grad:
        return False
    makers = flow.makers(call.inputs[0].tensor, row, _MAX_MAKERS)
    return any(plain_name(maker.function) in ("softmax", "log_softmax") for _, maker in makers)


_MAX_MAKERS = 3


def _chosen_of_each(flow: Dataflow, row: int, call: Call) -> TensorUse | None:
    """``y`` of ``p[torch.arange(n), y]``."""
    if len(call.inputs) != _WITH_TWO_INDEXES:
        return None
    _, first, second = call.inputs
    made = flow.newest_producer(first.tensor, row)
    return second if made is not None and plain_name(flow.log.calls[made].function) == "arange" else None


_WITH_TWO_INDEXES = 3
