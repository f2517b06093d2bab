"""Which lines, modules, operations or dtypes keep the memory: the same storages, added up in several ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gradviz.analysis.memory import GraphMemory, Holder, StorageUse
from gradviz.graph.model import Graph


@dataclass
class Group:
    """What is counted under one key."""

    key: tuple[str | int, ...]
    """File and line; module path; name of an operation; dtype."""
    bytes: int = 0
    storages: int = 0
    shared_bytes: int = 0
    """Kept here as well, but counted where it is kept first."""
    largest: StorageUse | None = None
    operations: dict[str, None] = field(default_factory=dict)
    """Names of the nodes that keep it."""


Key = Callable[[StorageUse, Holder], tuple[str | int, ...]]


def by_line(memory: GraphMemory) -> list[Group]:
    """By file and line; ``()`` for nodes whose line nobody saw."""
    return _grouped(memory, lambda _, holder: (holder.file, holder.line) if holder.file and holder.line else ())


def by_operation(memory: GraphMemory) -> list[Group]:
    """By torch's name of the node."""
    return _grouped(memory, lambda _, holder: (holder.operation,))


def by_dtype(memory: GraphMemory) -> list[Group]:
    """By dtype of the first tensor that is saved from a storage."""
    return _grouped(memory, lambda use, _: (use.dtype,))


def _grouped(memory: GraphMemory, key_of: Key) -> list[Group]:
    """The largest first; of equals, the one that was computed first."""
    groups: dict[tuple[str | int, ...], Group] = {}
    for use in sorted((use for use in memory.storages if use.counts), key=lambda use: use.held_by[0].node):
        first, *others = dict.fromkeys(key_of(use, holder) for holder in use.held_by)
        group = groups.setdefault(first, Group(first))
        group.bytes += use.bytes
        group.storages += 1
        if group.largest is None or use.bytes > group.largest.bytes:
            group.largest = use
        group.operations[use.held_by[0].operation] = None
        for other in others:
            groups.setdefault(other, Group(other)).shared_bytes += use.bytes
    return sorted(groups.values(), key=lambda group: -group.bytes)


@dataclass
class ModuleMemory:
    """What is kept in all calls of one module."""

    path: str
    class_name: str
    depth: int
    calls: int = 0
    own_bytes: int = 0
    bytes: int = 0
    """With the modules inside it."""


def by_module(graph: Graph, memory: GraphMemory) -> list[ModuleMemory]:
    """Modules from the outside in, on each level the largest first; ``""`` is what lies outside any module."""
    modules: dict[str, ModuleMemory] = {}
    parents: dict[str, str | None] = {}
    for scope in graph.scopes:
        parent = graph.scopes[scope.parent].path if scope.parent is not None else None
        if scope.path not in modules:
            depth = modules[parent].depth + 1 if parent is not None else 0
            modules[scope.path] = ModuleMemory(scope.path, scope.class_name, depth)
            parents[scope.path] = parent
        modules[scope.path].calls += 1
    for use in memory.storages:
        if use.counts:
            path = use.held_by[0].module or ""
            modules.setdefault(path, ModuleMemory(path, "", 0)).own_bytes += use.bytes
    children: dict[str | None, list[str]] = {}
    for path in reversed(list(modules)):
        module, parent = modules[path], parents.get(path)
        module.bytes += module.own_bytes
        if parent is not None:
            modules[parent].bytes += module.bytes
        children.setdefault(parent, []).append(path)
    return [modules[path] for path in _outermost_first(children, modules)]


def _outermost_first(children: dict[str | None, list[str]], modules: dict[str, ModuleMemory]) -> list[str]:
    def by_size(parent: str | None) -> list[str]:
        # Each list was filled from the last module to the first; the sort keeps that order among equals.
        return sorted(children.get(parent, ()), key=lambda path: modules[path].bytes)

    order: list[str] = []
    waiting = by_size(None)
    while waiting:
        path = waiting.pop()
        order.append(path)
        waiting.extend(by_size(path))
    return order
