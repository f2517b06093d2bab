"""Decides the kind of a node from its class, the call that made it and what it saved."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from gradviz.graph.model import NodeKind

VIEW_OPERATIONS = frozenset(
    {
        "Alias",
        "AsStrided",
        "Chunk",
        "Conj",
        "Diagonal",
        "Expand",
        "Flatten",
        "Imag",
        "MoveDim",
        "Narrow",
        "Permute",
        "Real",
        "ReshapeAlias",
        "Select",
        "Slice",
        "Split",
        "SplitWithSizes",
        "Squeeze",
        "SwapAxes",
        "SwapDims",
        "T",
        "Transpose",
        "Unbind",
        "Unflatten",
        "Unfold",
        "UnsafeView",
        "Unsqueeze",
        "View",
        "ViewAsComplex",
        "ViewAsReal",
    }
)
"""Operations that return the same storage under another shape; their nodes are named ``ViewBackward0`` and so on."""

_TORCHS_OWN = "torch.nn.modules.", "torch.distributed."
"""Modules whose functions run a module's backward hooks, synchronize its statistics, or move tensors between ranks."""

INPLACE_NODES = frozenset({"torch::autograd::CopySlices", "torch::autograd::CopyBackwards"})


def kind_of_function_class(function_class: type) -> NodeKind:
    """The kind of a node written in Python: torch's own functions or the user's."""
    module = function_class.__module__
    if module.startswith("torch.utils.checkpoint"):
        return "checkpoint"
    if module.startswith(("torch._functorch._aot_autograd", "torch._dynamo", "torch._inductor")):
        return "compiled"
    return "operation" if module.startswith(_TORCHS_OWN) else "custom"


def kind_of_operation(name: str) -> NodeKind:
    """The kind of a node that torch wrote in C++, as far as its class shows it."""
    if name in INPLACE_NODES:
        return "inplace"
    return "view" if name.rstrip("0123456789").removesuffix("Backward") in VIEW_OPERATIONS else "operation"


def kind_of_call(kind: NodeKind, forward_call: str, *, is_checkpointed: bool) -> NodeKind:
    """The kind, once the call that made the node is known."""
    if is_checkpointed and kind == "operation":
        return "checkpoint"
    return "inplace" if _changes_its_input(forward_call) else kind


@lru_cache(maxsize=1024)
def _changes_its_input(forward_call: str) -> bool:
    method = forward_call.rpartition(".")[2]
    if method.startswith("__i") and method not in {"__invert__", "__index__", "__int__"}:
        return True
    return method == "__setitem__" or (method.endswith("_") and not method.endswith("__"))


def is_checkpointed(raw_saved: Any) -> bool:
    """True for a saved tensor that non-reentrant checkpointing will compute again; nothing is unpacked."""
    if getattr(raw_saved, "unpack_hook", None) is None:
        return False
    return type(raw_saved.data).__module__ == "torch.utils.checkpoint"
