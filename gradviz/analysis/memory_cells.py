"""The storages of a graph as nested cells: modules inside modules, and in each what is kept on its own lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gradviz.analysis.memory import GraphMemory, StorageUse
from gradviz.graph.model import Graph
from gradviz.graph.operation_words import stem_of
from gradviz.graph.traversal import scopes_around


@dataclass
class Cell:
    """A module, or within it what one slot of one operation keeps at one line."""

    name: str
    """Path of the module; torch's name of the node and its slot."""
    title: str
    """The same, as short as it can be inside the cells around it."""
    kind: Literal["module", "input", "intermediate"]
    bytes: int = 0
    """With all cells inside."""
    file: str | None = None
    line: int | None = None
    storages: int = 0
    inside: list[Cell] = field(default_factory=list)

    def sorted_inside(self) -> list[Cell]:
        """The largest first; of equal ones in the order of the computation."""
        return sorted(self.inside, key=lambda cell: -cell.bytes)


def cells_of(graph: Graph, memory: GraphMemory) -> Cell:
    """One cell around everything that is counted."""
    whole = Cell("", "", "module")
    modules: dict[tuple[str, ...], Cell] = {(): whole}
    slots: dict[tuple[object, ...], Cell] = {}
    for use in memory.counted():
        path = _modules_around(graph, use)
        for depth in range(len(path) + 1):
            if path[:depth] not in modules:
                title = path[depth - 1].removeprefix(f"{path[depth - 2]}." if depth > 1 else "")
                modules[path[:depth]] = Cell(path[depth - 1], title, "module")
                modules[path[: depth - 1]].inside.append(modules[path[:depth]])
            modules[path[:depth]].bytes += use.bytes
            modules[path[:depth]].storages += 1
        holder = use.held_by[0]
        key = (path, holder.operation, holder.slot, holder.file, holder.line, use.kind)
        if key not in slots:
            kind: Literal["input", "intermediate"] = "input" if use.kind == "input" else "intermediate"
            name, title = (f"{each}.{holder.slot}" for each in (holder.operation, stem_of(holder.operation)))
            slots[key] = Cell(name, title, kind, file=holder.file, line=holder.line)
            modules[path].inside.append(slots[key])
        slots[key].bytes += use.bytes
        slots[key].storages += 1
    return whole


def _modules_around(graph: Graph, use: StorageUse) -> tuple[str, ...]:
    """Paths of the modules in which a storage is kept first, from the outside in."""
    around = scopes_around(graph.scopes, graph.nodes[use.held_by[0].node].scope)
    return tuple(reversed([graph.scopes[scope].path for scope in around]))
