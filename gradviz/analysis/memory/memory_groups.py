"""Which lines, modules, operations or dtypes keep the memory: the same storages, grouped in several ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gradviz.analysis.memory.kept_memory import GraphMemory, Holder, StorageUse
from gradviz.graph.model import Graph


@dataclass
class Group:
    """The storages with one key."""

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
    """The memory by file and line; ``()`` for nodes without a known line."""
    return _grouped(memory, lambda _, holder: (holder.file, holder.line) if holder.file and holder.line else ())


def by_operation(memory: GraphMemory) -> list[Group]:
    """The memory by torch's name of the node."""
    return _grouped(memory, lambda _, holder: (holder.operation,))


def by_dtype(memory: GraphMemory) -> list[Group]:
    """The memory by the dtype of the first tensor saved from a storage."""
    return _grouped(memory, lambda use, _: (use.dtype,))


def _grouped(memory: GraphMemory, key_of: Key) -> list[Group]:
    """The largest first; ties in the order of the computation."""
    groups: dict[tuple[str | int, ...], Group] = {}
    for use in memory.counted():
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
    """What all calls of one module keep, or of several modules that differ in a number only."""

    paths: dict[str, None]
    class_name: str
    depth: int
    calls: int = 0
    own_bytes: int = 0
    bytes: int = 0
    """Including the modules inside of it."""

    @property
    def path(self) -> str:
        """Dotted path, ``model.h.*`` for several; ``""`` for what is outside of all modules."""
        first, *others = self.paths
        return f"{first.rpartition('.')[0]}.*" if others and first.rpartition(".")[2].isdigit() else first


def by_module(graph: Graph, memory: GraphMemory, *, merge_numbered: bool = False) -> list[ModuleMemory]:
    """Modules from the outside in, on each level the largest first.

    With `merge_numbered`, modules of one class whose paths differ in numbers only are merged.
    """
    modules: dict[tuple[str, ...], ModuleMemory] = {}
    keys: list[tuple[str, ...]] = []
    for scope in graph.scopes:
        outer = keys[scope.parent] if scope.parent is not None else ()
        # The class is part of the key, because neighbours in a Sequential differ in a number as well.
        is_merged = merge_numbered and scope.path.rpartition(".")[2].isdigit()
        key = (*outer, f"*{scope.class_name}" if is_merged else scope.path.rpartition(".")[2] + f" {scope.class_name}")
        keys.append(key)
        module = modules.setdefault(key, ModuleMemory({}, scope.class_name, len(outer)))
        module.paths[scope.path] = None
        module.calls += 1
    for use in memory.storages:
        if use.counts:
            scope_index = graph.nodes[use.held_by[0].node].scope
            key = keys[scope_index] if scope_index is not None else ()
            modules.setdefault(key, ModuleMemory({"": None}, "", 0)).own_bytes += use.bytes
    children: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for key in sorted(modules, key=len, reverse=True):
        modules[key].bytes += modules[key].own_bytes
        if len(key) > 1:
            modules[key[:-1]].bytes += modules[key].bytes
        children.setdefault(key[:-1], []).append(key)
    return [modules[key] for key in _outermost_first(children, modules)]


def _outermost_first(
    children: dict[tuple[str, ...], list[tuple[str, ...]]], modules: dict[tuple[str, ...], ModuleMemory]
) -> list[tuple[str, ...]]:
    def smallest_first(key: tuple[str, ...]) -> list[tuple[str, ...]]:
        # From the last to the first, so that ties keep their order.
        inner = [each for each in reversed(children.get(key, [])) if each]
        return sorted(inner, key=lambda each: modules[each].bytes)

    order: list[tuple[str, ...]] = []
    waiting = [*([()] if () in modules else []), *smallest_first(())]
    while waiting:
        key = waiting.pop()
        order.append(key)
        waiting += smallest_first(key) if key else []
    return order
