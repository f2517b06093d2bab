"""Names tensors that no variable holds after a variable or buffer that has the same memory: ``tokens[:, :-1]``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Literal, NamedTuple

import torch

from gradviz.recording.forward.memory_parts import MemoryPart, memory_part_of, words_of_part
from gradviz.recording.forward.tensor_names import ModuleNames
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION


class Sharer(NamedTuple):
    """A variable whose tensor has the memory of another tensor."""

    name: str
    words: str
    """The other tensor in terms of this variable: ``tokens[:, :-1]``, ``part of tokens``."""
    requires_grad: bool
    kind: Literal["data", "buffer"] = "data"


class MemorySharers:
    """Finds the variables and buffers that share memory with a tensor."""

    def __init__(self, modules: ModuleNames) -> None:
        self._modules = modules

    @cached_property
    def _by_address(self) -> dict[int, list[tuple[torch.Tensor, MemoryPart]]]:
        found: dict[int, list[tuple[torch.Tensor, MemoryPart]]] = {}
        with DISABLE_TORCH_FUNCTION():
            held = (tensor for tensor, _ in self._modules.variables.tensors.values())
            for tensor in (*held, *self._modules.buffer_tensors):
                part = memory_part_of(tensor)
                if part is not None:
                    found.setdefault(part.address, []).append((tensor, part))
        return found

    def of(self, part: MemoryPart | None, tensor: torch.Tensor | None) -> Sharer | None:
        """The variable that says most: one that requires grad, then one that the tensor is an index of.

        `tensor` itself, if it still exists, does not count.
        """
        found = [] if part is None else list(self._sharers(part, tensor))
        return min(found, key=lambda each: (not each.requires_grad, each.words.startswith("part")), default=None)

    def _sharers(self, part: MemoryPart, tensor: torch.Tensor | None) -> Iterator[Sharer]:
        for other, whole in self._by_address.get(part.address, ()):
            buffer_names = self._modules.buffers.get(id(other), ())
            name = next(iter(buffer_names), None) or self._modules.variables.name_of(other)
            if other is tensor or name is None:
                continue
            with DISABLE_TORCH_FUNCTION():
                requires_grad = other.requires_grad
            given = f"{name}.detach()" if requires_grad else name
            yield Sharer(name, words_of_part(given, part, whole), requires_grad, "buffer" if buffer_names else "data")
