"""Whether two tensors are the same, bit for bit."""

from __future__ import annotations

import torch


def difference(one: torch.Tensor | None, other: torch.Tensor | None) -> str | None:
    """What differs, in a few words; None if nothing does."""
    if one is None or other is None:
        return None if one is other else f"one is {_word(one)}, the other {_word(other)}"
    if (one.shape, one.dtype, one.layout) != (other.shape, other.dtype, other.layout):
        return f"{tuple(one.shape)} {one.dtype} {one.layout} is not {tuple(other.shape)} {other.dtype} {other.layout}"
    differing = sum(
        _bits(part).ne(_bits(other_part)).sum().item() if part.shape == other_part.shape else 1
        for part, other_part in zip(_parts(one), _parts(other), strict=True)
    )
    return f"{differing} bytes differ" if differing else None


def _word(tensor: torch.Tensor | None) -> str:
    return "None" if tensor is None else "a tensor"


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    # Of a single element torch calls any stride contiguous, and then refuses to read it as bytes: so it is copied.
    return torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor.detach()).reshape(-1).view(torch.uint8)


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The dense tensors that it consists of."""
    tensor = tensor.detach()
    if tensor.is_nested:
        return list(tensor.unbind())
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return [tensor]
