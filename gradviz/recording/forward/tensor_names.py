"""Finds the Python names of tensors and modules, as the user would write them.

Names come from the script's globals and from the frames on the stack: variables, attributes of ``self``, and modules,
whose parameters get full dotted names. Frames of libraries are left out: their names are not the user's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from types import FrameType, ModuleType
from typing import Any

import torch

from gradviz.recording.forward.module_tree import distinct_modules, modules_inside, outermost
from gradviz.recording.forward.namespaces import CO_OPTIMIZED, is_of_the_program
from gradviz.recording.forward.tensors_in_containers import (
    HOLDS_NOTHING,
    MAX_ELEMENTS,
    MAX_LOOKS,
    holds_only_numbers,
    is_container,
    named_tensors,
    stored_attributes,
)
from gradviz.recording.frame_variables import local_variables
from gradviz.recording.run.file_kinds import is_gradviz_code, is_library_file, is_torch_file
from gradviz.recording.run.user_traceback import BOUNDARY
from gradviz.recording.torch_access.distributed.parameter_shards import flat_and_originals
from gradviz.recording.torch_access.distributed.sharded_parameters import own_parameter
from gradviz.recording.torch_access.modules import compiled_from, own_buffers, own_modules, own_parameters


class NameTable:
    """Names of tensors (by identity, while they live) and of modules, collected from namespaces.

    Of a container, `max_looks` values are read.
    """

    def __init__(self, max_looks: int = MAX_LOOKS) -> None:
        self._max_looks = max_looks
        self.tensors: dict[int, tuple[torch.Tensor, list[str]]] = {}
        self.modules: dict[int, tuple[torch.nn.Module, list[str]]] = {}

    @classmethod
    def of(cls, namespaces: Iterable[Mapping[str, Any]]) -> NameTable:
        """Names of what these variables hold; names from the first namespace come first."""
        names = cls()
        for namespace in namespaces:
            names.add_namespace(namespace)
        return names

    def add_namespace(self, namespace: Mapping[str, Any], *, only_nameless: bool = False) -> None:
        """Collect from the variables of one frame or of a script; with `only_nameless`, only tensors without a name."""
        if only_nameless:
            namespace = {
                name: value
                for name, value in namespace.items()
                if issubclass(type(value), torch.Tensor) and id(value) not in self.tensors
            }
        for name, value in list(namespace.items()):
            if type(value) in HOLDS_NOTHING:
                continue
            # Names that are not identifiers were made by Python or by a tool such as pytest.
            if name == "_" or name.startswith("__") or not name.isidentifier():
                continue
            if issubclass(type(value), (ModuleType, type)):
                continue
            self._add_value(name, value)
            if not issubclass(type(value), (torch.nn.Module, torch.Tensor)) and is_of_the_program(type(value)):
                for attribute, inner in list(stored_attributes(value).items())[:MAX_ELEMENTS]:
                    self._add_value(f"{name}.{attribute}", inner)

    def _add_value(self, name: str, value: Any) -> None:
        # By type(): isinstance() may run code of the object.
        kind = type(value)
        if kind in HOLDS_NOTHING or holds_only_numbers(value):
            return
        if issubclass(kind, torch.Tensor):
            self._add(self.tensors, name, value)
            return
        if issubclass(kind, torch.nn.Module):
            self._add_module(name, value)
        elif kind in (list, tuple, dict):
            pairs = value.items() if kind is dict else enumerate(value)
            for key, element in islice(pairs, min(MAX_ELEMENTS, self._max_looks)):
                if issubclass(type(element), torch.nn.Module):
                    self._add_module(f"{name}[{key!r}]", element)
        if is_container(kind):
            for path, tensor in named_tensors(value, name, max_looks=self._max_looks):
                self._add(self.tensors, path, tensor)

    def _add_module(self, name: str, module: torch.nn.Module) -> None:
        """What `torch.compile` returned is for the program the module that it was made from."""
        self._add(self.modules, name, module)
        compiled = compiled_from(module)
        if compiled is not None:
            self._add(self.modules, name, compiled)

    @staticmethod
    def _add(table: dict[int, tuple[Any, list[str]]], name: str, value: Any) -> None:
        _append_once(table.setdefault(id(value), (value, []))[1], name)

    def add_models(self, models: Any) -> list[torch.nn.Module]:
        """Name modules ``model`` if no variable holds them. Takes a module, or a list or dict; returns the modules."""
        given = NameTable()
        given._add_value("model", models)
        for key, (module, names) in given.modules.items():
            self.modules.setdefault(key, (module, names))
        return [module for module, _ in given.modules.values()]

    def variables_of(self, tensor: torch.Tensor) -> tuple[str, ...]:
        """Names of the variables that hold exactly this tensor: ``loss`` before ``args[0]``."""
        entry = self.tensors.get(id(tensor))
        if entry is None or entry[0] is not tensor:
            return ()
        return tuple(sorted(entry[1], key=_variable_rank))

    def name_of(self, value: Any) -> str | None:
        """The first of these names, if there is one."""
        return next(iter(self.variables_of(value)), None)

    def module_name(self, module: torch.nn.Module) -> str:
        """The shortest variable that holds the module, else its class in lower case."""
        entry = self.modules.get(id(module))
        if entry is not None:
            return min(entry[1], key=_name_rank)
        return type(module).__name__.lower()


def names_on_stack(frame: FrameType | None, names: NameTable | None = None) -> NameTable:
    """Names from `frame` upwards: the user's own variables, and a library's for tensors without other names.

    A training loop inside a library calls backward on a ``loss`` that no variable of the script holds. If `names` is
    given, the new names are added after its own.
    """
    names = names or NameTable()
    global_namespaces: dict[int, dict[str, Any]] = {}
    library_frames: list[FrameType] = []
    while frame is not None and frame.f_code is not BOUNDARY:
        file = frame.f_code.co_filename
        is_function = bool(frame.f_code.co_flags & CO_OPTIMIZED)
        if is_gradviz_code(frame.f_code):
            pass
        elif is_library_file(file):
            if is_function and not is_torch_file(file):
                library_frames.append(frame)
        else:
            if is_function:
                names.add_namespace(local_variables(frame))
            global_namespaces[id(frame.f_globals)] = frame.f_globals
        frame = frame.f_back
    for namespace in global_namespaces.values():
        names.add_namespace(namespace)
    for library_frame in library_frames:
        names.add_namespace(local_variables(library_frame), only_nameless=True)
    return names


class ModuleNames:
    """Dotted names of parameters and buffers, and paths of modules, each by ``id()``.

    `called` are the modules that ran outside any other. A module that a variable holds is named after the variable; a
    module inside it is named from there; the others are named after their class. An element of a `ModuleList` is always
    named by its index in the list: a variable that holds one is usually a loop's, and would only name the last. A tied
    parameter has one name for each module that holds it. What `torch.compile` returned and the module that it was made
    from are named as one.
    """

    def __init__(self, called: Iterable[torch.nn.Module], names: NameTable) -> None:
        self.variables = names
        self.parameters: dict[int, list[str]] = {}
        self.buffers: dict[int, list[str]] = {}
        self.buffer_tensors: list[torch.Tensor] = []
        self.paths: dict[int, str] = {}
        self.flat: dict[int, str] = {}
        """The name of the flat parameter that a parameter is a part of, by its ``id()``."""
        called = [self._named_itself(module) for module in called]
        owners = outermost([self._named_itself(module) for module, _ in names.modules.values()])
        elements = _elements_of_lists(owners)
        by_variable = [module for module in called if id(module) in names.modules and id(module) not in elements]
        self._name_all((*by_variable, *owners))
        self.held = frozenset(self.paths)
        """Ids of modules that a variable leads to."""
        self._registered = frozenset(self.parameters)
        self._name_all(called)

    def names_of(self, tensor: torch.Tensor) -> tuple[str, ...]:
        """The dotted names of a parameter or buffer; for other tensors, the variables that hold them.

        A variable that holds a parameter of a module is usually that of a loop or a list, and would only be noise.
        """
        in_modules = self.parameters.get(id(own_parameter(tensor))) or self.buffers.get(id(tensor))
        return tuple(in_modules) if in_modules else self.variables.variables_of(tensor)

    def is_registered(self, tensor: torch.Tensor, path: str) -> bool:
        """Whether a module that a variable leads to, or the model in which the module with this path is, has a tensor
        as its parameter. What only ran, as a layer of a plain list does, may be a part of no model."""
        key = id(own_parameter(tensor))
        model = path.partition(".")[0]
        names = self.parameters.get(key, ())
        return key in self._registered or any(name.partition(".")[0] == model for name in names)

    def path_of(self, module: torch.nn.Module) -> str | None:
        """The dotted name of a module; what `torch.compile` returned has that of the module that it was made from."""
        compiled: torch.nn.Module | None = compiled_from(module)
        inner = None if compiled is None else self.paths.get(id(compiled))
        return inner or self.paths.get(id(module))

    def name_of_module(self, module: torch.nn.Module) -> str:
        """The same; without one, a variable that holds it, or its class."""
        return self.path_of(module) or self.variables.module_name(module)

    def _named_itself(self, module: torch.nn.Module) -> torch.nn.Module:
        compiled: torch.nn.Module | None = compiled_from(module)
        return module if compiled is None or id(compiled) not in self.variables.modules else compiled

    def _name_all(self, roots: Iterable[torch.nn.Module]) -> None:
        for root in roots:
            if id(root) not in self.paths:
                self._name_inside(root, self.variables.module_name(root))

    def _name_inside(self, root: torch.nn.Module, prefix: str) -> None:
        named_before = set(self.paths)
        for path, module in modules_inside(root, prefix):
            if id(module) in named_before:
                continue
            self.paths.setdefault(id(module), path)
            self._name_flat(module, path)
            for table, tensors in ((self.parameters, own_parameters(module)), (self.buffers, own_buffers(module))):
                for name, tensor in tensors.items():
                    if tensor is not None:
                        _append_once(table.setdefault(id(own_parameter(tensor)), []), f"{path}.{name}")
                        if table is self.buffers:
                            self.buffer_tensors.append(tensor)

    def _name_flat(self, module: torch.nn.Module, path: str) -> None:
        """Name the flat parameter of a `FullyShardedDataParallel`, which is no parameter of any module."""
        found = flat_and_originals(module)
        if found is not None:
            flat, originals = found
            name = f"{path}._flat_param"
            _append_once(self.parameters.setdefault(id(flat), []), name)
            self.flat.update((id(parameter), name) for parameter in originals)


def _elements_of_lists(owners: Iterable[torch.nn.Module]) -> set[int]:
    """Ids of the elements of module lists in `owners`."""
    lists = (module for module in distinct_modules(owners) if issubclass(type(module), torch.nn.ModuleList))
    return {id(element) for each in lists for element in own_modules(each).values()}


def _name_rank(name: str) -> tuple[bool, bool, int]:
    """Lower is better. In a notebook, values that were shown are also called ``_``, ``_5`` and ``_oh[5]``; a function
    around another one has its values in ``args[0]``."""
    return name.startswith(("_", "args[", "kwargs[")), name == "self" or name.startswith("self."), len(name)


def _variable_rank(name: str) -> tuple[bool, bool, bool]:
    """Lower is better: ``loss`` before ``model.w``, and that before ``self.w``."""
    return not name.isidentifier(), name.startswith("_"), name.startswith("self.")


def _append_once(names: list[str], name: str) -> None:
    if name not in names:
        names.append(name)
