"""The tables of a graph: of everything that the log saw, only what the graph refers to, and named."""

from __future__ import annotations

import torch

from gradviz.graph.model import Constant, ModuleScope
from gradviz.recording import torch_compat
from gradviz.recording.forward_log import NO_SCOPE, ForwardLog
from gradviz.recording.names import ModuleNames, parameters_inside


class ScopeTable:
    """Module calls, callers before those that they called."""

    def __init__(self, log: ForwardLog, modules: ModuleNames) -> None:
        self._log = log
        self._modules = modules
        self._scopes: list[ModuleScope] = []
        self._places: dict[int, int] = {}
        self._parameter_counts: dict[int, int] = {}

    @property
    def scopes(self) -> tuple[ModuleScope, ...]:
        """Everything added so far."""
        return tuple(self._scopes)

    def place_of(self, logged: int) -> int | None:
        """Index of a logged module call; it and its callers are added at first sight."""
        if logged == NO_SCOPE:
            return None
        missing = []
        while logged != NO_SCOPE and logged not in self._places:
            missing.append(logged)
            logged = self._log.scopes[logged].parent
        for scope in reversed(missing):
            self._places[scope] = len(self._scopes)
            self._scopes.append(self._module_scope(scope))
        return self._places[missing[0] if missing else logged]

    def _module_scope(self, logged: int) -> ModuleScope:
        entry = self._log.scopes[logged]
        reference, class_name = self._log.modules[entry.module]
        module = reference()
        parent = None if entry.parent == NO_SCOPE else self._places[entry.parent]
        if module is None:
            path, count = class_name.lower(), 0
        else:
            path = self._modules.paths.get(id(module)) or self._modules.variables.module_name(module)
            count = self._parameter_count(entry.module, module)
        return ModuleScope(path, class_name, parent, entry.call, count)

    def _parameter_count(self, place: int, module: torch.nn.Module) -> int:
        if place not in self._parameter_counts:
            with torch_compat.DISABLE_TORCH_FUNCTION():
                self._parameter_counts[place] = sum(parameter.numel() for parameter in parameters_inside(module))
        return self._parameter_counts[place]


class ConstantTable:
    """Inputs that need no gradient."""

    def __init__(self, log: ForwardLog, modules: ModuleNames) -> None:
        self._log = log
        self._modules = modules
        self._constants: list[Constant] = []
        self._places: dict[int, int] = {}

    @property
    def constants(self) -> tuple[Constant, ...]:
        """Everything added so far."""
        return tuple(self._constants)

    @property
    def logged(self) -> tuple[int, ...]:
        """The place in the log of each of them."""
        return tuple(self._places)

    def places_of(self, seen: tuple[int, ...]) -> tuple[int, ...]:
        """Indices of logged constants; each is added at first sight."""
        for place in seen:
            if place not in self._places:
                self._places[place] = len(self._constants)
                self._constants.append(self._constant(place))
        return tuple(self._places[place] for place in seen)

    def _constant(self, place: int) -> Constant:
        reference, facts = self._log.constants[place]
        tensor = reference()
        if tensor is None:
            return Constant(facts)
        if id(tensor) in self._modules.parameters:
            return Constant(facts, "parameter", tuple(self._modules.parameters[id(tensor)]))
        if id(tensor) in self._modules.buffers:
            return Constant(facts, "buffer", tuple(self._modules.buffers[id(tensor)]))
        return Constant(facts, "data", self._modules.variables.variables_of(tensor))
