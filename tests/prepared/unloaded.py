"""Makes loaded modules look as if they were not: their next import takes no time, but is one to all who listen."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from gradviz.recording.torch_access.import_notice import ImportNotice


def unload(names: Collection[str]) -> None:
    """Take modules out of `sys.modules`, and out of their packages; all of them are back once one is imported."""
    modules = {name: module for name, module in sys.modules.items() if name in names}
    attributes = [
        (sys.modules[package], attribute, module)
        for name, module in modules.items()
        for package, _, attribute in [name.rpartition(".")]
        if package not in modules and getattr(sys.modules.get(package), attribute, None) is module
    ]
    for package, attribute, _ in attributes:
        delattr(package, attribute)
    for name in modules:
        del sys.modules[name]
    sys.meta_path.insert(0, _Finder(modules, attributes))


class _Finder:
    """Finds the modules where they always were, and has them loaded by `_Loader`."""

    def __init__(
        self, modules: dict[str, ModuleType], attributes: Collection[tuple[ModuleType, str, ModuleType]]
    ) -> None:
        self._modules = modules
        self._attributes = attributes
        self._is_giving_back = False

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name in self._modules else None
        if spec is not None:
            spec.loader = _Loader(self)  # type: ignore[assignment]
        return spec

    def module(self, name: str) -> ModuleType:
        return self._modules[name]

    def give_back_once(self) -> None:
        """As it was. Who waits for the import of one of them hears of it."""
        if self._is_giving_back:
            return
        self._is_giving_back = True
        awaited = {finder.name for finder in sys.meta_path if isinstance(finder, ImportNotice)}
        sys.modules.update({name: module for name, module in self._modules.items() if name not in awaited})
        for name in awaited & self._modules.keys():
            import_module(name)
        sys.meta_path.remove(self)
        for package, attribute, module in self._attributes:
            setattr(package, attribute, module)


class _Loader:
    """Gives back one module, and with it all."""

    def __init__(self, finder: _Finder) -> None:
        self._finder = finder

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = self._finder.module(spec.name)
        self._facts = module.__spec__, module.__loader__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__, module.__loader__ = self._facts
        self._finder.give_back_once()
