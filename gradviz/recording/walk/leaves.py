"""Decides which nodes of a walk are leaves, and reads the tensors that they hold.

torch accumulates the gradient of a leaf in a node whose sequence number is `LEAF_SEQUENCE_NR`, the largest there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from msgspec.structs import replace

from gradviz.graph.model import HeldTensor, Node
from gradviz.recording.forward.tensor_hooks import hooks_on, names_of_hooks
from gradviz.recording.forward.tensor_names import ModuleNames
from gradviz.recording.torch_access.distributed.sharded_parameters import own_parameter
from gradviz.recording.torch_access.nodes import LEAF_SEQUENCE_NR
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION, unwrapped
from gradviz.recording.walk.graph_walker import Walk
from gradviz.recording.walk.node_outputs import OutputReader
from gradviz.recording.walk.saved_tensor_reader import SavedTensorReader


def leaf_indices(walk: Walk) -> list[int]:
    """Indices of the leaves' nodes."""
    return [index for index, number in enumerate(walk.sequence_nrs) if number == LEAF_SEQUENCE_NR]


def leaf_variables(walk: Walk) -> Iterator[tuple[int, Any]]:
    """Every leaf tensor, after the index of its node."""
    for index in leaf_indices(walk):
        if hasattr(walk.wrappers[index], "variable"):
            yield index, walk.wrappers[index].variable


def leaf_node(node: Node, wrapper: Any, modules: ModuleNames, outputs: OutputReader, saved: SavedTensorReader) -> Node:
    """`node`, which is a leaf, with the names, flags and hooks of its tensor; `wrapper` is torch's object for it."""
    if not hasattr(wrapper, "variable"):
        return replace(node, sequence_nr=None)
    tensor = wrapper.variable
    own = unwrapped(tensor)
    with DISABLE_TORCH_FUNCTION():
        names = modules.names_of(own)
        has_grad = tensor.grad is not None
        held = HeldTensor(names, tensor.is_leaf, tensor.requires_grad, tensor.retains_grad, has_grad)
        hooks = names_of_hooks(tensor)
        is_parameter = isinstance(own, torch.nn.Parameter) or id(own_parameter(own)) in modules.parameters
    return Node(
        node.id,
        node.name,
        "parameter" if is_parameter else "input",
        outputs=(outputs.of_leaf(wrapper, tensor),),
        hooks=hooks,
        held=(held,),
        saved=saved.of_hooks(hooks_on(tensor)),
    )
