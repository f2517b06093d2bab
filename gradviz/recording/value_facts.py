"""The values of a tensor in figures, read without a trace: no graph, no mode of the program's, no random number."""

from __future__ import annotations

from math import isfinite

import torch

from gradviz.graph.call_log import ValueFacts
from gradviz.recording import torch_compat

MOST_ELEMENTS = 1 << 24
"""Larger tensors are not read."""

_PLAIN = (torch.Tensor, torch.nn.Parameter)


class ValueReader:
    """Reads values; `too_large` counts the tensors that were not read for their size.

    To be used inside `gradients.measuring`.
    """

    def __init__(self) -> None:
        self.too_large = 0

    def facts(self, tensor: torch.Tensor) -> ValueFacts | None:
        """None where there is nothing to read: no elements, or nothing that torch would tell quietly."""
        if type(tensor) not in _PLAIN or tensor.layout is not torch.strided or not torch_compat.can_read_values(tensor):
            return None
        if not (count := tensor.numel()):
            return None
        if count > MOST_ELEMENTS:
            self.too_large += 1
            return None
        try:
            return _read(tensor, count)
        except (RuntimeError, NotImplementedError):  # a dtype that has no such kernel: eight-bit floats, unsigned
            return None


def _read(tensor: torch.Tensor, count: int) -> ValueFacts:
    plain = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    zeros = plain.numel() - int(torch.count_nonzero(plain))
    low, high = (float(extreme) for extreme in torch.aminmax(plain))
    if isfinite(low) and isfinite(high):
        return ValueFacts(count, low, high, zeros)
    nans, infs = int(torch.isnan(plain).sum()), int(torch.isinf(plain).sum())
    finite = plain[torch.isfinite(plain)]
    if not finite.numel():
        return ValueFacts(count, None, None, zeros, nans, infs)
    low, high = (float(extreme) for extreme in torch.aminmax(finite))
    return ValueFacts(count, low, high, zeros, nans, infs)
