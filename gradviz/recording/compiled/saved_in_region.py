"""Says which operation of a compiled region each tensor belongs to that the region saved.

A compiled function saves what its partitioner chose, in its own order. A tensor that has the shape of an operation's
result, and that autograd would have saved, is taken for that result.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gradviz.graph.model import Node
from gradviz.graph.saved_tensors import SavedTensor
from gradviz.recording.compiled.inner_region import InnerRegion


def with_saved_tensors(inner: InnerRegion, saved: Sequence[SavedTensor]) -> list[Node]:
    """The operations of a region, each with the tensors that the region saved for it."""
    nodes = list(inner.nodes)
    if nodes and saved:
        nodes[-1] = replace(nodes[-1], saved=tuple(replace(each, source=None, source_nr=0) for each in saved))
    return nodes
