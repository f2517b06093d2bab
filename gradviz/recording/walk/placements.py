"""Adds to nodes of distributed tensors how these lie on the mesh of their ranks."""

from __future__ import annotations

from msgspec.structs import replace

from gradviz.graph.model import Attribute, Node, TensorFacts
from gradviz.recording.forward.forward_log import Moved

BEFORE, AFTER = "from", "to"
"""Names of the attributes of a node that does nothing but change it."""
LOCAL = "local"
"""Stands for the part of a rank, as an ordinary tensor."""


def placed(
    node: Node, moved: Moved | None, *, is_custom: bool
) -> tuple[tuple[TensorFacts | None, ...], dict[str, Attribute]]:
    """Outputs and attributes of a node whose call did this to distributed tensors."""
    if moved is None:
        return node.outputs, node.attributes
    outputs = node.outputs
    if moved.after:
        outputs = tuple(each and replace(each, type_name="DTensor", placements=moved.after) for each in outputs)
    if not is_custom:
        return outputs, node.attributes
    before, after = (", ".join(placements) or LOCAL for placements in moved)
    return outputs, {**node.attributes, BEFORE: before, AFTER: after}
