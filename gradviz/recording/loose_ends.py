"""Where to start when the program never called backward: the tensors that no other one was computed from."""

from __future__ import annotations

from typing import Any

import torch

from gradviz.recording import torch_compat
from gradviz.recording.graph_walker import walk
from gradviz.recording.names import NameTable

MAX_CANDIDATES = 10_000


def loose_ends(names: NameTable) -> list[tuple[str | None, torch.Tensor | None, Any, int]]:
    """Name, tensor, ``grad_fn`` and output number of each, in the order of their creation."""
    candidates: list[tuple[str | None, torch.Tensor | None, Any, int]] = []
    for tensor, variables in names.tensors.values():
        with torch_compat.DISABLE_TORCH_FUNCTION():
            grad_fn = torch_compat.grad_fn_of(tensor)
            if grad_fn is not None:
                candidates.append((variables[0], tensor, grad_fn, tensor.output_nr))
    del candidates[MAX_CANDIDATES:]
    walked = walk(grad_fn for _, _, grad_fn, _ in candidates)
    consumed = {edge.target for edges in walked.edges for edge in edges if edge is not None}
    ends: dict[tuple[Any, int], tuple[str | None, torch.Tensor | None, Any, int]] = {}
    for candidate in candidates:
        if walked.position[candidate[2]] not in consumed:
            ends.setdefault((candidate[2], candidate[3]), candidate)
    return sorted(ends.values(), key=lambda end: end[2]._sequence_nr())
