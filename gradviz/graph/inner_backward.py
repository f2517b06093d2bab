"""Nodes whose code calls backward while backward runs: what they reach is not in the graph."""

from __future__ import annotations

from gradviz.graph.model import REENTRANT_CHECKPOINT, Graph


def callers_of_backward(graph: Graph) -> tuple[str, ...]:
    """Names of the nodes whose own code calls backward, each once and in creation order."""
    return tuple(
        # A reentrant checkpoint is recognised by its name, even where no backward has run.
        dict.fromkeys(node.name for node in graph.nodes if node.calls_backward or node.name == REENTRANT_CHECKPOINT)
    )


def words_for_callers(names: tuple[str, ...]) -> str:
    """What users call them: ``reentrant checkpoints``, ``_ReversibleFunctionBackward``."""
    return " and ".join("reentrant checkpoints" if name == REENTRANT_CHECKPOINT else name for name in names)
