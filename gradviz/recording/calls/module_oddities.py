"""Notes switches that torch does not know, set on modules and parameters, and modules that a list has several times."""

from __future__ import annotations

import ast
import linecache
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import torch

from gradviz.recording.forward.module_tree import parameters_inside
from gradviz.recording.run.parsed_files import nodes_of
from gradviz.recording.torch_access.modules import own_modules, own_parameters

_SWITCH = "requires_grad"
_ALIKE = 0.8
OF_OTHER_LIBRARIES = frozenset({"trainable", "is_trainable", "learnable"})
"""Switches that other libraries have, and that programs define for themselves: without effect if nothing reads them."""
_MAX_NOTED = 2_000
_CONTAINERS = (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict)


@dataclass(frozen=True)
class SetAttribute:
    """A switch without effect; see `gradviz.graph.modules_and_schedules.IdleAttribute`."""

    name: str
    value: bool
    owner: str
    is_of_module: bool
    parameters: tuple[Any, ...]
    """What is known of them."""


@dataclass(frozen=True)
class Repeated:
    """One module that a container has several times; see `gradviz.graph.modules_and_schedules.RepeatedModule`."""

    path: str
    class_name: str
    repeated: str
    count: int
    size: int
    stack: int
    parameters: tuple[Any, ...]
    is_of_names: bool
    """Whether they are attributes of a module that is no container."""


def idle_switches(owner: Any) -> Iterator[tuple[str, bool]]:
    """Attributes of a module or parameter with a name like ``requires_grad`` that only Python knows, with their values.

    A class that has an attribute with this name means something by it, unless it is torch's own method.
    """
    for name, value in list(vars(owner).items()):
        is_switch = type(name) is str and type(value) in (bool, int) and _is_like_the_switch(name)
        if is_switch and (name == f"{_SWITCH}_" or not hasattr(type(owner), name)):
            yield name, bool(value)


def _is_like_the_switch(name: str) -> bool:
    if name in OF_OTHER_LIBRARIES:
        return True
    if not name.startswith("re"):
        return False
    return name == _SWITCH or SequenceMatcher(None, name.lower(), _SWITCH).ratio() >= _ALIKE


def repeated_modules(container: torch.nn.Module) -> Iterator[tuple[torch.nn.Module, int, int]]:
    """Modules with parameters that a module has at several indexes, or under names: how often, and of how many."""
    children = [child for child in own_modules(container).values() if child is not None]
    counts = Counter(map(id, children))
    for child in {id(child): child for child in children if counts[id(child)] > 1}.values():
        if parameters_inside(child):
            yield child, counts[id(child)], len(children)


class Oddities:
    """What was found until now, each once."""

    def __init__(self) -> None:
        self.attributes: dict[tuple[str, str], SetAttribute] = {}
        """By owner and name."""
        self.repeated: dict[tuple[str, int], Repeated] = {}
        """By path of the container, and the index of the module among its repeated ones."""

    def note_module(self, module: torch.nn.Module, path: str, stack: int, known: Callable[[Any], Any]) -> None:
        """Look at a module and its own parameters.

        Args:
            stack: the line that made it.
            known: returns what is known of a parameter.
        """
        if len(self.attributes) + len(self.repeated) >= _MAX_NOTED:
            return
        for name, value in idle_switches(module):
            below = tuple(known(parameter) for parameter in parameters_inside(module))
            self._add(SetAttribute(name, value, path, is_of_module=True, parameters=below))
        for own, parameter in own_parameters(module).items():
            for name, value in idle_switches(parameter) if parameter is not None else ():
                self._add(SetAttribute(name, value, f"{path}.{own}", False, (known(parameter),)))
        for index, (child, count, size) in enumerate(repeated_modules(module)):
            tensors = tuple(known(parameter) for parameter in parameters_inside(child))
            is_of_names = not isinstance(module, _CONTAINERS)
            kinds = type(module).__name__, type(child).__name__
            self.repeated[path, index] = Repeated(path, *kinds, count, size, stack, tensors, is_of_names)

    def _add(self, found: SetAttribute) -> None:
        if found.parameters:
            self.attributes[found.owner, found.name] = found


class AttributeLines:
    """The lines of some files that set attributes of objects other than ``self``, and whether any reads them."""

    def __init__(self, files: Iterable[str]) -> None:
        self._files = tuple(files)

    def that_set(self, name: str) -> tuple[tuple[str, int], ...]:
        """Files and lines that assign to an attribute of this name, or set it with ``setattr()``."""
        return tuple((file, line) for file in self._files for line in sorted(set(_lines_that_set(file, name))))

    def may_be_read(self, name: str) -> bool:
        """Whether a file reads an attribute of this name, or cannot be read itself."""
        for file in self._files:
            nodes = _nodes_of(file, name)
            if nodes is None or any(_reads(node, name) for node in nodes):
                return True
        return False


def _nodes_of(file: str, name: str) -> tuple[ast.AST, ...] | None:
    """The nodes of a file that has a name in it; None if it cannot be parsed."""
    return nodes_of(file) if any(name in line for line in linecache.getlines(file)) else ()


def _lines_that_set(file: str, name: str) -> Iterator[int]:
    passes_name_on = False
    keywords: list[int] = []
    for node in _nodes_of(file, name) or ():
        if isinstance(node, ast.Assign):
            yield from (node.lineno for target in node.targets if _is_foreign_attribute(target, name))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
            given = [each.value for each in node.args if isinstance(each, ast.Constant)]
            passes_name_on |= len(node.args) > 1 and isinstance(node.args[1], ast.Name)
            if given[:1] == [name]:
                yield node.lineno
        elif isinstance(node, ast.Call):
            keywords += [each.value.lineno for each in node.keywords if each.arg == name]
    yield from keywords if passes_name_on else ()


def _reads(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr"):
        return any(isinstance(each, ast.Constant) and each.value == name for each in node.args)
    return isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Load)


def _is_foreign_attribute(target: ast.expr, name: str) -> bool:
    is_own = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    return isinstance(target, ast.Attribute) and target.attr == name and not is_own
