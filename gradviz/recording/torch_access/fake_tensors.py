"""Fake tensors: they have shapes and a graph, and neither memory nor numbers."""

from __future__ import annotations

from typing import Any

import torch

from gradviz.recording.torch_access.dynamo_graphs import TensorInput


def fake_tensors() -> Any:
    """While entered, new tensors are fake, and operations on them compute nothing."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=True)


def made_fake(mode: Any, given: TensorInput, sizes: dict[str, int]) -> torch.Tensor:
    """A fake tensor of the same kind, with these sizes for its symbols."""
    shape = tuple(
        sizes.get(symbol, size)
        for symbol, size in zip(given.symbols or ("",) * len(given.sizes), given.sizes, strict=True)
    )
    with mode:
        if shape == given.sizes:
            tensor = torch.empty_strided(shape, given.strides, dtype=given.dtype, device=given.device)
        else:
            tensor = torch.empty(shape, dtype=given.dtype, device=given.device)
    return tensor.requires_grad_(given.requires_grad)
