"""A checksum of a tensor's bits, much cheaper than a fingerprint: it only tells whether any element has changed."""

from __future__ import annotations

from functools import cache

import torch

from gradviz.recording.fingerprints.elements import as_real, bits_of, has_readable_elements

_PIECE = 4_096
_PIECES_AT_ONCE = 1_024
"""Products of so many pieces are in memory at the same time: 16 MiB of float32."""


def checksum_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """One number, on the device of the tensor, so that nothing waits for it; None if the tensor cannot be read.

    Call it inside `measuring`.
    """
    if not has_readable_elements(tensor):
        return None
    bits = bits_of(as_real(tensor).detach().contiguous()).reshape(-1)
    weights = _weights(bits.device)
    whole = len(bits) // _PIECE * _PIECE
    total = (bits[whole:] * weights[: len(bits) - whole]).sum(dtype=torch.int64)
    for number, pieces in enumerate(torch.split(bits[:whole].view(-1, _PIECE), _PIECES_AT_ONCE)):
        # Odd factors, so that pieces that change places change the sum.
        total = total * (2 * number + 3) + (pieces * weights).sum(dtype=torch.int64)
    return total


@cache
def _weights(device: torch.device) -> torch.Tensor:
    """Odd factors for the elements of a piece: their products wrap, and each single change of an element shows."""
    return (torch.arange(_PIECE, dtype=torch.int32) * 2 + 1).to(device)
