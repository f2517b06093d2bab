"""Which operations a compiled function computes again in backward: torch keeps from what it compiled that backward."""

from __future__ import annotations

from typing import Any

from torch import fx

from gradviz.recording.torch_access.dynamo.dynamo_graphs import schema_of
from gradviz.recording.torch_access.engine import compiled_backward_of
from gradviz.recording.torch_access.name_lookup import find

TAG = "partitioner_tag"
"""Where a partitioner notes whether a node belongs to the forward or to the backward."""


def graph_of_backward(function_class: Any) -> fx.Graph | None:
    """The graph of a compiled backward, if torch tells what it consists of.

    Code from a cache has no such graph, and inductor strips it once backward has run.
    """
    module = compiled_backward_of(function_class)
    is_whole = isinstance(module, fx.GraphModule) and any(TAG in node.meta for node in module.graph.nodes)
    return module.graph if is_whole else None


def recomputed_operations(graph: fx.Graph) -> list[fx.Node]:
    """Operations of the forward in the graph of a backward, without views."""
    nodes = [node for node in graph.nodes if node.op == "call_function"]
    # Until torch 2.6 only operations of the backward had a tag.
    forward = "is_forward" if find("torch._functorch.partitioners._has_tag_is_forward") is not None else None
    return [node for node in nodes if node.meta.get(TAG) == forward and computes(node.target)]


def operation_of(node: fx.Node) -> str:
    """``erf`` for ``aten.erf.default``."""
    return str(node.target).split(".")[1]


def computes(target: Any) -> bool:
    """Whether an operator does more than look at the memory of what it gets in another way."""
    schema = schema_of(target)
    return schema is not None and not any(argument.alias_info is not None for argument in schema.arguments)
