"""The tables of a graph: entries of the forward log that the graph refers to, with names."""

from __future__ import annotations

from typing import Literal

import torch

from gradviz.graph.model import Constant, ModuleScope
from gradviz.recording.forward.forward_log import NO_SCOPE, ForwardLog
from gradviz.recording.forward.module_tree import parameters_inside
from gradviz.recording.forward.tensor_names import ModuleNames
from gradviz.recording.torch_access.modules import class_name_of
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION, base_of


class ScopeTable:
    """Module calls; a caller comes before the calls that it made."""

    def __init__(self, log: ForwardLog, modules: ModuleNames) -> None:
        self._log = log
        self._modules = modules
        self._scopes: list[ModuleScope] = []
        self._indices: dict[int, int] = {}
        self._parameter_counts: dict[int, int] = {}

    @property
    def scopes(self) -> tuple[ModuleScope, ...]:
        """Everything added so far."""
        return tuple(self._scopes)

    def index_of(self, logged: int) -> int | None:
        """Index of a logged module call; it and its callers are added when first needed."""
        if logged == NO_SCOPE:
            return None
        missing = []
        while logged != NO_SCOPE and logged not in self._indices:
            missing.append(logged)
            logged = self._log.scopes[logged].parent
        for scope in reversed(missing):
            self._indices[scope] = len(self._scopes)
            self._scopes.append(self._module_scope(scope))
        return self._indices[missing[0] if missing else logged]

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
                self._parameter_counts[index] = sum(parameter.numel() for parameter in parameters_inside(module))
        return self._parameter_counts[index]


class ConstantTable:
    """Inputs that require no gradient."""

    def __init__(self, log: ForwardLog, modules: ModuleNames) -> None:
        self._log = log
        self._modules = modules
        self._constants: list[Constant] = []
        self._indices: dict[int, int] = {}

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
        reference, facts = self._log.constants[index]
        tensor = reference()
        if tensor is None:
            return Constant(facts)
        names = self._named(tensor)
        base = _whole_base(tensor) if names is None else None
        if base is not None:
            names = self._named(base)
        return Constant(facts, *names) if names is not None else Constant(facts)

    def _named(self, tensor: torch.Tensor) -> tuple[Literal["data", "parameter", "buffer"], tuple[str, ...]] | None:
        """The kind and the names of a tensor that has names."""
        modules = self._modules
        if id(tensor) in modules.parameters:
            return "parameter", tuple(modules.parameters[id(tensor)])
        if id(tensor) in modules.buffers:
            return "buffer", tuple(modules.buffers[id(tensor)])
        variables = modules.variables.variables_of(tensor)
        return ("data", variables) if variables else None


def _whole_base(tensor: torch.Tensor) -> torch.Tensor | None:
    """The tensor that this one is a view of, if the view has all its elements: ``labels`` for ``labels.view(-1)``."""
    with DISABLE_TORCH_FUNCTION():
        base: torch.Tensor | None = base_of(tensor)
        return base if base is not None and base.numel() == tensor.numel() else None
