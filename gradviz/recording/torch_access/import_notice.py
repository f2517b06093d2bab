"""Notices when the program imports a module, without importing it first.

Importing torch before the script does would change the script: torch reads ``OMP_NUM_THREADS`` at that moment.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def _nothing() -> None:
    """Nobody waits for the module."""


class ImportNotice:
    """Calls `then` as soon as the module `name` has been imported, or at once where it already is.

    The import itself runs in the context that `during` makes, if it is the program that imports the module.
    """

    def __init__(
        self,
        name: str,
        then: Callable[[], None] = _nothing,
        during: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.name = name
        """Of the module."""
        self._then = then
        self._during = during
        self._is_asking = False
        """Whether the other finders are asked for the module now."""

    def start(self) -> None:
        """Begin to watch imports."""
        if self.name in sys.modules:
            self._then()
        else:
            sys.meta_path.insert(0, self)

    def stop(self) -> None:
        """Leave ``sys.meta_path`` as it was."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find no module itself; make the loader of the awaited module call `then` when it has finished."""
        if name != self.name or self._is_asking:
            return None
        self._is_asking = True
        try:
            spec = find_spec(name)
        finally:
            self._is_asking = False
        if spec is not None and spec.loader is not None:
            # A program may ask for the spec without importing the module.
            spec.loader = _TellingLoader(spec.loader, self._loaded, self._during)  # type: ignore[assignment]
        return spec

    def _loaded(self) -> None:
        if self in sys.meta_path:
            self.stop()
            self._then()


class _TellingLoader:
    """A module's own loader, which calls `then` after loading."""

    def __init__(
        self, loader: Any, then: Callable[[], None], during: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._loader = loader
        self._then = then
        self._during = during

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        # The module must not notice: torch reads its own ``__loader__`` and ``__spec__``.
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        with self._during():
            self._loader.exec_module(module)
        if module.__spec__ is not None:
            # The module is complete now. Until Python has noted that, another thread that imports it waits for this
            # one: for ever, if `then` waits for such a thread.
            module.__spec__._initializing = False  # type: ignore[attr-defined]
        self._then()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
