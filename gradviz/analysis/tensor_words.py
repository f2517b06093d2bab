"""How findings call tensors."""

from __future__ import annotations

from collections.abc import Iterable

from gradviz.graph.model import Node


def leaf_names(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Of those that are leaves and have a name."""
    return tuple(node.names[0] for node in nodes if node.is_leaf and node.names)
