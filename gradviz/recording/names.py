"""Which Python names hold a tensor or a module, as the reader would write them.

Names come from the script's globals and from the frames that are on the stack: variables, attributes of ``self``,
and from modules, whose parameters get full dotted names. Library frames are left out: their names are not the reader's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FrameType, ModuleType
from typing import Any

import torch

from gradviz.recording.file_kinds import is_gradviz_file, is_library_file
from gradviz.recording.structures import MAX_ELEMENTS, named_tensors

_CO_OPTIMIZED = 0x1


class NameTable:
    """Names of tensors (by identity, while they live) and of modules, collected from namespaces."""

    def __init__(self) -> None:
        self.tensors: dict[int, tuple[torch.Tensor, list[str]]] = {}
        self.modules: dict[int, tuple[torch.nn.Module, list[str]]] = {}

    def add_namespace(self, namespace: Mapping[str, Any]) -> None:
        """Collect from the variables of one frame or of a script."""
        for name, value in list(namespace.items()):
            if name.startswith("__") or isinstance(value, (ModuleType, type)):
                continue
            self._add_value(name, value)
            if name == "self" and not isinstance(value, torch.nn.Module):
                for attribute, inner in list(getattr(value, "__dict__", {}).items())[:MAX_ELEMENTS]:
                    self._add_value(f"self.{attribute}", inner)

    def _add_value(self, name: str, value: Any) -> None:
        if isinstance(value, torch.nn.Module):
            self._add(self.modules, name, value)
        elif isinstance(value, (list, tuple, dict)):
            keys = list(value)[:MAX_ELEMENTS] if isinstance(value, dict) else range(min(len(value), MAX_ELEMENTS))
            for key in keys:
                if isinstance(value[key], torch.nn.Module):
                    self._add(self.modules, f"{name}[{key!r}]", value[key])
        for path, tensor in named_tensors(value, name, depth=2):
            self._add(self.tensors, path, tensor)

    @staticmethod
    def _add(table: dict[int, tuple[Any, list[str]]], name: str, value: Any) -> None:
        names = table.setdefault(id(value), (value, []))[1]
        if name not in names:
            names.append(name)

    def variables_of(self, tensor: torch.Tensor) -> tuple[str, ...]:
        """Names of the variables that hold exactly this tensor."""
        entry = self.tensors.get(id(tensor))
        return tuple(entry[1]) if entry is not None and entry[0] is tensor else ()

    def module_name(self, module: torch.nn.Module) -> str:
        """The shortest variable that holds the module, else its class in lower case."""
        entry = self.modules.get(id(module))
        if entry is not None:
            return min(entry[1], key=lambda name: (name == "self" or name.startswith("self."), len(name)))
        return type(module).__name__.lower()


def namespaces_of_stack(frame: FrameType | None) -> Iterator[dict[str, Any]]:
    """Variables of the reader's own frames from `frame` upwards, innermost first; globals last."""
    global_namespaces: dict[int, dict[str, Any]] = {}
    while frame is not None and frame.f_code.co_name != "run_users_code":
        if _is_readers_own(frame.f_code):
            if frame.f_globals is not frame.f_locals if frame.f_code.co_name == "<module>" else True:
                yield local_variables(frame)
            global_namespaces[id(frame.f_globals)] = frame.f_globals
        frame = frame.f_back
    yield from global_namespaces.values()


def _is_readers_own(code: CodeType) -> bool:
    return not is_library_file(code.co_filename) and not is_gradviz_file(code.co_filename)


def local_variables(frame: FrameType) -> dict[str, Any]:
    """A copy of a frame's variables that leaves nothing alive behind.

    Up to Python 3.12 reading ``f_locals`` of a function makes a snapshot that the frame keeps, and with it every
    tensor in it, until the function returns. It is emptied again, unless the program itself holds it (``locals()``).
    """
    snapshot = frame.f_locals
    copy = dict(snapshot)
    is_snapshot = sys.version_info < (3, 13) and frame.f_code.co_flags & _CO_OPTIMIZED
    if is_snapshot and not _has_other_holders(snapshot, frame):
        snapshot.clear()
    return copy


def _has_other_holders(snapshot: dict[str, Any], frame: FrameType) -> bool:
    # References: the frame's own, `snapshot` in the caller, our argument, and the one of the call itself.
    return sys.getrefcount(snapshot) > 4


class ModuleNames:
    """Dotted names of parameters and buffers and paths of modules, each by ``id()``.

    `called` are the modules that ran outside any other. One that a variable holds is named after it; one that lies in
    a module which a variable holds is named from there; the rest by their class. A parameter that is tied has the name
    of every place that holds it.
    """

    def __init__(self, called: Iterable[torch.nn.Module], names: NameTable) -> None:
        self.parameters: dict[int, list[str]] = {}
        self.buffers: dict[int, list[str]] = {}
        self.paths: dict[int, str] = {}
        called = list(called)
        held = [module for module, _ in names.modules.values()]
        for root in (*(module for module in called if id(module) in names.modules), *_outermost(held), *called):
            if id(root) not in self.paths:
                self._name_inside(root, names.module_name(root))

    def _name_inside(self, root: torch.nn.Module, prefix: str) -> None:
        named_before = set(self.paths)
        for path, module in root.named_modules(prefix=prefix, remove_duplicate=False):
            if id(module) in named_before:
                continue
            self.paths.setdefault(id(module), path)
            for table, tensors in ((self.parameters, module._parameters), (self.buffers, module._buffers)):
                for name, tensor in tensors.items():
                    if tensor is not None:
                        _append_once(table.setdefault(id(tensor), []), f"{path}.{name}")


def _outermost(modules: list[torch.nn.Module]) -> list[torch.nn.Module]:
    """Modules that lie inside no other of them, in order."""
    inside = {id(inner) for module in modules for inner in module.modules() if inner is not module}
    return [module for module in modules if id(module) not in inside]


def _append_once(names: list[str], name: str) -> None:
    if name not in names:
        names.append(name)
