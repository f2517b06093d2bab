"""Which storage each output of a node lives in, as far as saved tensors tell."""

from __future__ import annotations

from gradviz.graph.model import Graph

Output = tuple[int, int]
"""A node, and which of its outputs."""


def storages_of_outputs(graph: Graph) -> dict[Output, int]:
    """Index in `Graph.storages` by output, for those that some node saved."""
    return {
        (saved.source, saved.source_nr): saved.storage
        for node in graph.nodes
        for saved in node.saved
        if saved.source is not None and saved.storage is not None
    }


def bytes_of_output(graph: Graph, output: Output) -> int:
    """What the output needs if nothing shares it; 0 where its shape is not known."""
    facts = graph.nodes[output[0]].output(output[1])
    return 0 if facts is None else (facts.elements or 0) * item_size(facts.dtype)


def item_size(dtype: str) -> int:
    """Bytes of one element: of ``float32`` 4, of ``complex64`` 8, of ``bool`` 1."""
    digits = "".join(filter(str.isdigit, dtype.partition("_")[0]))
    return max(int(digits) // 8, 1) if digits else 1
