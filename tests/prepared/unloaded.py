"""Makes a loaded package look as if it were not: its next import takes no time, but is an import to all who listen."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


def unload(package: str) -> None:
    """Take the package and its modules out of `sys.modules`, until it is imported."""
    modules = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == package}
    for name in modules:
        del sys.modules[name]
    sys.meta_path.insert(0, _Finder(package, modules))


class _Finder:
    """Finds one package where it always was, and has it loaded by `_Loader`."""

    def __init__(self, package: str, modules: dict[str, ModuleType]) -> None:
        self._package = package
        self._modules = modules

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name == self._package else None
        if spec is not None:
            spec.loader = _Loader(self, self._modules)  # type: ignore[assignment]
        return spec


class _Loader:
    """Gives the modules back as they were."""

    def __init__(self, finder: _Finder, modules: dict[str, ModuleType]) -> None:
        self._finder = finder
        self._modules = modules

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = self._modules[spec.name]
        self._facts = module.__spec__, module.__loader__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__, module.__loader__ = self._facts
        sys.modules.update(self._modules)
        sys.meta_path.remove(self._finder)
