"""Variables that hold graphs which were computed before the one that backward walks, and which it does not free.

``losses.append(loss)`` and ``running += loss`` keep the graph of every step, and so does a validation loss that was
computed without ``torch.no_grad()``. These graphs are not walked: walking makes deep ones dangerous to free.
"""

from __future__ import annotations

from collections import Counter

from gradviz.graph.saved_tensors import OlderGraph
from gradviz.recording import torch_compat
from gradviz.recording.graph_walker import Walk
from gradviz.recording.names import NameTable


def older_graphs(walked: Walk, names: NameTable) -> tuple[OlderGraph, ...]:
    """By variable, those with most tensors first."""
    numbers = [number for number in walked.sequence_nrs if number != torch_compat.LEAF_SEQUENCE_NR]
    first = min(numbers, default=0)
    found: Counter[str] = Counter()
    for tensor, paths in names.tensors.values():
        with torch_compat.DISABLE_TORCH_FUNCTION():
            maker = torch_compat.grad_fn_there_already(tensor)
            if maker is not None and maker not in walked.position and maker._sequence_nr() < first:
                found[paths[0].partition("[")[0]] += 1
    return tuple(OlderGraph(name, tensors) for name, tensors in found.most_common())
