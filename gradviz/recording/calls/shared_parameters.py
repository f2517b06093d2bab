"""Compares the gradients with which two optimizers step on the same parameters.

Most programs have none of those, and pay a look-up for each parameter and step. Nothing waits for an accelerator: what
is computed stays on its device until the log is built.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import isfinite, sqrt
from typing import Any

import torch

from gradviz.recording.calls.known_tensors import KnownTensor
from gradviz.recording.torch_access.transfers import in_memory

_MAX_COMPARED = 64
"""Pairs of steps that are compared for each two optimizers."""


class SharedParameters:
    """Gets every step of every optimizer. Call its methods inside `measuring`."""

    def __init__(self) -> None:
        self._owners: dict[int, tuple[KnownTensor, Any]] = {}
        """By id of a tensor: the optimizer that stepped on it first."""
        self._last: dict[int, tuple[Any, torch.Tensor]] = {}
        """By id of a tensor that two optimizers have: the last of them, and a copy of the gradient that it used."""
        self._shared: set[int] = set()
        self._compared: dict[tuple[int, int], list[torch.Tensor]] = defaultdict(list)
        self._pairs: dict[tuple[int, int], tuple[Any, Any, dict[int, KnownTensor]]] = {}

    def note(self, optimizer: Any, parameters: Iterable[tuple[KnownTensor, torch.Tensor]]) -> None:
        """An optimizer (what is known about it) steps on these."""
        sums: dict[int, list[torch.Tensor]] = {}
        for known, tensor in parameters:
            key = id(known)
            _, owner = self._owners.setdefault(key, (known, optimizer))
            if owner is not optimizer and owner.weak() is None:
                self._owners[key] = known, optimizer  # the first one was replaced
            elif owner is not optimizer:
                self._shared.add(key)
            gradient = tensor.grad if key in self._shared else None
            if gradient is None or type(gradient) is not torch.Tensor or gradient.layout is not torch.strided:
                continue
            other, before = self._last.get(key, (optimizer, gradient))
            self._last[key] = optimizer, gradient.detach().clone()
            if other is not optimizer and before.shape == gradient.shape and before.device == gradient.device:
                self._add(sums, other, optimizer, known, _products(before, gradient))
        for key, of_pair in sums.items():
            compared = self._compared[_pair(key, id(optimizer))]
            if len(compared) < _MAX_COMPARED:
                compared.append(torch.stack(of_pair).sum(0))

    def _add(
        self, sums: dict[int, list[torch.Tensor]], other: Any, optimizer: Any, known: KnownTensor, products: Any
    ) -> None:
        _, _, tensors = self._pairs.setdefault(_pair(id(other), id(optimizer)), (other, optimizer, {}))
        tensors[id(known)] = known
        of_pair = sums.setdefault(id(other), [])
        if not of_pair or of_pair[0].device == products.device:
            of_pair.append(products)

    def results(self) -> Iterator[tuple[Any, Any, list[KnownTensor], tuple[float, ...]]]:
        """For each two optimizers: the tensors, and the cosine of the gradients of each two steps in a row."""
        for pair, (one, other, tensors) in self._pairs.items():
            rows = (products.tolist() for products in in_memory(self._compared[pair]))
            cosines = [dot / sqrt(a * b) for dot, a, b in rows if a > 0 and b > 0 and isfinite(a * b)]
            yield one, other, list(tensors.values()), tuple(each for each in cosines if isfinite(each))


def _pair(one: int, other: int) -> tuple[int, int]:
    return min(one, other), max(one, other)


def _products(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    one, other = one.detach().float(), other.detach().float()
    return torch.stack([(one * other).sum(), one.square().sum(), other.square().sum()])
