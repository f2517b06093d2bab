"""What inputs without gradient are called: after a variable, buffer or parameter, or after what they are a part of."""

from __future__ import annotations

from typing import Literal

import torch

from gradviz.graph.model import Constant
from gradviz.recording.forward.copies import Copies
from gradviz.recording.forward.forward_log import SeenConstant
from gradviz.recording.forward.memory_parts import MemoryPart, memory_part_of, words_of_part
from gradviz.recording.forward.tensor_names import ModuleNames
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION, base_of
from gradviz.recording.walk.shared_memory import MemorySharers

_Named = tuple[Literal["data", "parameter", "buffer"], tuple[str, ...]]
"""The kind and the names of a tensor without gradient."""


class ConstantNames:
    """Names tensors that torch calls received."""

    def __init__(self, copies: Copies, modules: ModuleNames) -> None:
        self._copies = copies
        self._modules = modules
        self._sharers = MemorySharers(modules)

    def constant(self, seen: SeenConstant) -> Constant:
        """What is drawn of a tensor."""
        tensor = seen.tensor()
        named = None if tensor is None else self._named(tensor)
        sharer = self._sharers.of(seen.part, tensor) if named is None or named[0] == "data" else None
        if named is None and tensor is not None and (sharer is None or not sharer.requires_grad):
            named = self._named_as_part(tensor)
        if named is None and sharer is not None:
            named = sharer.kind, (sharer.words,)
        if named is None and seen.part is not None:
            copied = self._copies.words_of(seen.part, self._name_of_memory)
            named = None if copied is None else ("data", (copied,))
        detached_from = sharer.name if sharer is not None and sharer.requires_grad else ""
        kind, names = named or ("data", ())
        return Constant(seen.facts, kind, names, detached_from=detached_from)

    def words_of(self, part: MemoryPart) -> str | None:
        """What a part of the memory of a variable without gradient is called, or of a copy of one."""
        return self._name_of_memory(part) or self._copies.words_of(part, self._name_of_memory)

    def _name_of_memory(self, part: MemoryPart) -> str | None:
        sharer = self._sharers.of(part, None)
        return None if sharer is None or sharer.requires_grad else sharer.words

    def _named_as_part(self, tensor: torch.Tensor) -> _Named | None:
        """The names of a view, after those of the tensor that it is a view of."""
        with DISABLE_TORCH_FUNCTION():
            base: torch.Tensor | None = base_of(tensor)
            named = None if base is None else self._named(base)
            if base is None or named is None or base.requires_grad:
                return None
            part, whole = memory_part_of(tensor), memory_part_of(base)
        if part is None or whole is None:
            return named if base.numel() == tensor.numel() else None
        kind, names = named
        return kind, tuple(words_of_part(name, part, whole) for name in names)

    def _named(self, tensor: torch.Tensor) -> _Named | None:
        """The kind and the names of a tensor that has names."""
        modules = self._modules
        if id(tensor) in modules.parameters:
            return "parameter", tuple(modules.parameters[id(tensor)])
        if id(tensor) in modules.buffers:
            return "buffer", tuple(modules.buffers[id(tensor)])
        variables = modules.variables.variables_of(tensor)
        return ("data", variables) if variables else None
