"""The tables of a graph: entries of the forward log that the graph refers to, with names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import torch

from gradviz.graph.model import Constant, ModuleScope
from gradviz.recording.forward.forward_log import NO_SCOPE, ForwardLog, SeenConstant
from gradviz.recording.forward.module_tree import ParametersInside
from gradviz.recording.forward.tensor_names import ModuleNames
from gradviz.recording.run.traced_stacks import TracedModule
from gradviz.recording.torch_access.modules import class_name_of, own_modules
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION
from gradviz.recording.walk.constant_names import ConstantNames

_NO_PATHS: Mapping[int, str] = {}


class ScopeTable:
    """Module calls; a caller comes before the calls that it made."""

    def __init__(self, log: ForwardLog, modules: ModuleNames, paths: Mapping[int, str] = _NO_PATHS) -> None:
        """
        Args:
            paths: by index in `ForwardLog.modules`, names that are known already, also of modules that are gone.
        """
        self._log = log
        self._modules = modules
        self._paths = paths
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
        module, path, count = reference(), self._paths.get(entry.module), 0
        parent = None if entry.parent == NO_SCOPE else self._indices[entry.parent]
        if module is not None:
            path = path or self._modules.name_of_module(module)
            count = self._parameter_count(entry.module, module)
            class_name = class_name_of(module)
        return ModuleScope(path or class_name.lower(), class_name, parent, entry.call, count)

    def _parameter_count(self, index: int, module: torch.nn.Module) -> int:
        if index not in self._parameter_counts:
            with DISABLE_TORCH_FUNCTION():
                self._parameter_counts[index] = sum(self._inside.of(module).values())
        return self._parameter_counts[index]


class ConstantTable:
    """Inputs that require no gradient."""

    def __init__(self, log: ForwardLog, modules: ModuleNames) -> None:
        self.names = ConstantNames(log.copies, modules)
        self._log = log
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

    def seen(self, index: int) -> SeenConstant | None:
        """A logged constant; None if it was forgotten."""
        return self._log.constants.get(index)

    def indices_of(self, seen: tuple[int, ...]) -> tuple[int, ...]:
        """Indices of logged constants; each is added when first needed."""
        for index in seen:
            if index not in self._indices:
                self._indices[index] = len(self._constants)
                self._constants.append(self.names.constant(self._log.constants[index]))
        return tuple(self._indices[index] for index in seen)
