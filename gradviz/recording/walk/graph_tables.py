"""The tables of a graph: entries of the forward log that the graph refers to, with names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import torch

from gradviz.graph.model import Constant, ModuleScope
from gradviz.recording.forward.forward_log import NO_SCOPE, ForwardLog
from gradviz.recording.forward.memory_parts import MemoryPart, memory_part_of, words_of_part
from gradviz.recording.forward.module_tree import ParametersInside
from gradviz.recording.forward.tensor_names import ModuleNames
from gradviz.recording.run.traced_stacks import TracedModule
from gradviz.recording.torch_access.modules import class_name_of, own_modules
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION, base_of
from gradviz.recording.walk.shared_memory import MemorySharers

_Named = tuple[Literal["data", "parameter", "buffer"], tuple[str, ...]]
"""The kind and the names of a tensor without gradient."""


class ScopeTable:
    """Module calls; a caller comes before the calls that it made."""

    def __init__(self, log: ForwardLog, modules: ModuleNames) -> None:
        self._log = log
        self._modules = modules
        self._scopes: list[ModuleScope] = []
        self._indices: dict[int, int] = {}
        self._parameter_counts: dict[int, int] = {}
        self._inside = ParametersInside()
        self._traced: list[tuple[TracedModule, int]] = []
        """The traced module calls of the last node, and their indices."""
        self._around_traced: int | None = None
        self._traced_calls: Counter[str] = Counter()

    @property
    def scopes(self) -> tuple[ModuleScope, ...]:
        """Everything added so far."""
        return tuple(self._scopes)

    def index_of(self, logged: int) -> int | None:
        """Index of a logged module call; it and its callers are added when first needed."""
        if logged == NO_SCOPE:
            return None
        known = self._indices.get(logged)
        if known is not None:
            return known
        missing = []
        while logged != NO_SCOPE and logged not in self._indices:
            missing.append(logged)
            logged = self._log.scopes[logged].parent
        for scope in reversed(missing):
            self._indices[scope] = len(self._scopes)
            self._scopes.append(self._module_scope(scope))
        return self._indices[missing[0]]

    def index_of_traced(self, logged: int, modules: Sequence[TracedModule]) -> int | None:
        """Index of the innermost module that was traced inside a logged call; nodes are asked for in their order."""
        around = self.index_of(logged)
        if around is None or not modules:
            return around
        same = 0
        if around == self._around_traced:
            for (known, _), module in zip(self._traced, modules, strict=False):
                if known != module:
                    break
                same += 1
        self._around_traced = around
        del self._traced[same:]
        root = self._log.module_of(logged)
        for module in modules[same:]:
            parent = self._traced[-1][1] if self._traced else around
            self._traced.append((module, len(self._scopes)))
            self._scopes.append(self._traced_scope(module, parent, around, root))
        return self._traced[-1][1]

    def _traced_scope(
        self, module: TracedModule, parent: int, around: int, root: torch.nn.Module | None
    ) -> ModuleScope:
        path = f"{self._scopes[around].path}.{module.path}"
        call = self._traced_calls[path]
        self._traced_calls[path] += 1
        found = root
        for part in module.path.split("."):
            found = own_modules(found).get(part) if found is not None else None
        with DISABLE_TORCH_FUNCTION():
            count = sum(self._inside.of(found).values()) if found is not None else 0
        return ModuleScope(path, module.class_name, parent, call, count)

    def _module_scope(self, logged: int) -> ModuleScope:
        entry = self._log.scopes[logged]
        reference, class_name = self._log.modules[entry.module]
        module = reference()
        parent = None if entry.parent == NO_SCOPE else self._indices[entry.parent]
        if module is None:
            path, count = class_name.lower(), 0
        else:
            path = self._modules.paths.get(id(module)) or self._modules.variables.module_name(module)
            count = self._parameter_count(entry.module, module)
            class_name = class_name_of(module)
        return ModuleScope(path, class_name, parent, entry.call, count)

    def _parameter_count(self, index: int, module: torch.nn.Module) -> int:
        if index not in self._parameter_counts:
            with DISABLE_TORCH_FUNCTION():
                self._parameter_counts[index] = sum(self._inside.of(module).values())
        return self._parameter_counts[index]


class ConstantTable:
    """Inputs that require no gradient."""

    def __init__(self, log: ForwardLog, modules: ModuleNames) -> None:
        self._log = log
        self._modules = modules
        self._constants: list[Constant] = []
        self._indices: dict[int, int] = {}
        self._sharers = MemorySharers(modules)

    @property
    def constants(self) -> tuple[Constant, ...]:
        """Everything added so far."""
        return tuple(self._constants)

    @property
    def logged(self) -> tuple[int, ...]:
        """The index of each constant in the log."""
        return tuple(self._indices)

    def indices_of(self, seen: tuple[int, ...]) -> tuple[int, ...]:
        """Indices of logged constants; each is added when first needed."""
        for index in seen:
            if index not in self._indices:
                self._indices[index] = len(self._constants)
                self._constants.append(self._constant(index))
        return tuple(self._indices[index] for index in seen)

    def _constant(self, index: int) -> Constant:
        seen = self._log.constants[index]
        tensor = seen.tensor()
        named = None if tensor is None else self._named(tensor)
        sharer = self._sharers.of(seen.part, tensor) if named is None or named[0] == "data" else None
        if named is None and tensor is not None and (sharer is None or not sharer.requires_grad):
            named = self._named_as_part(tensor)
        if named is None and sharer is not None:
            named = sharer.kind, (sharer.words,)
        if named is None and seen.part is not None:
            copied = self._log.copies.words_of(seen.part, self._name_of_memory)
            named = None if copied is None else ("data", (copied,))
        detached_from = sharer.name if sharer is not None and sharer.requires_grad else ""
        kind, names = named or ("data", ())
        return Constant(seen.facts, kind, names, detached_from=detached_from)

    def _name_of_memory(self, part: MemoryPart) -> str | None:
        """What a part of the memory of a variable without gradient is called."""
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
