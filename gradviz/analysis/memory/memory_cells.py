"""The storages of a graph as nested cells: modules in modules, or lines in files, with the memory that each keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from gradviz.analysis.memory.kept_memory import GraphMemory, Holder, StorageUse
from gradviz.graph.model import Graph
from gradviz.graph.query.operation_names import stem_of
from gradviz.graph.query.own_line import file_name, line_words_of
from gradviz.safe_text import one_line


@dataclass
class Cell:
    """A module, a file or a line; or, inside of it, what one slot of one operation on one line keeps."""

    name: str
    """Path of the module or the file; torch's name of the node and its slot."""
    title: str
    """The same, as short as possible inside of the cells around it."""
    kind: Literal["box", "input", "intermediate"]
    bytes: int = 0
    """Including all cells inside."""
    file: str | None = None
    line: int | None = None
    storages: int = 0
    nodes: list[int] = field(default_factory=list)
    """For a slot, the nodes that keep something first, in the order of the computation."""
    inside: list[Cell] = field(default_factory=list)

    def sorted_inside(self) -> list[Cell]:
        """The largest first; ties in the order of the computation."""
        return sorted(self.inside, key=lambda cell: -cell.bytes)


class _Around(NamedTuple):
    """A cell around others: `name` is unique, `title` is unique among the cells beside it."""

    name: str
    title: str
    file: str | None = None
    line: int | None = None


_Path = tuple[_Around, ...]


def cells_of(graph: Graph, memory: GraphMemory) -> Cell:
    """One cell around all counted memory, divided into modules."""
    return _cells(memory, lambda holder: _modules_around(graph, holder))


def cells_by_line(memory: GraphMemory) -> Cell:
    """One cell around all counted memory, divided into lines of files."""
    return _cells(memory, _lines_around)


def _cells(memory: GraphMemory, around: Callable[[Holder], _Path]) -> Cell:
    whole = Cell("", "", "box")
    boxes: dict[_Path, Cell] = {(): whole}
    slots: dict[tuple[object, ...], Cell] = {}
    for use in memory.counted():
        holder = use.held_by[0]
        path = around(holder)
        for depth in range(len(path) + 1):
            if path[:depth] not in boxes:
                name, title, file, line = path[depth - 1]
                boxes[path[:depth]] = Cell(name, title, "box", file=file, line=line)
                boxes[path[: depth - 1]].inside.append(boxes[path[:depth]])
            boxes[path[:depth]].bytes += use.bytes
            boxes[path[:depth]].storages += 1
        key = (path, holder.operation, holder.slot, holder.file, holder.line, use.kind)
        if key not in slots:
            slots[key] = _slot(use, holder)
            boxes[path].inside.append(slots[key])
        slots[key].bytes += use.bytes
        slots[key].storages += 1
        slots[key].nodes.append(holder.node)
    return whole


def _slot(use: StorageUse, holder: Holder) -> Cell:
    name, title = (f"{each}.{holder.slot}" for each in (holder.operation, stem_of(holder.operation)))
    return Cell(name, title, "input" if use.kind == "input" else "intermediate", file=holder.file, line=holder.line)


def _modules_around(graph: Graph, holder: Holder) -> _Path:
    """The modules around a holder, the outermost first."""
    paths: list[str] = []
    scope = graph.nodes[holder.node].scope
    while scope is not None:
        paths.append(graph.scopes[scope].path)
        scope = graph.scopes[scope].parent
    outer = ["", *reversed(paths)]
    return tuple(_Around(path, path.removeprefix(f"{outer[depth]}.")) for depth, path in enumerate(outer[1:]))


def _lines_around(holder: Holder) -> _Path:
    if not holder.file or not holder.line:
        return ()
    line = _Around(line_words_of(holder.file, holder.line), f"line {holder.line}", holder.file, holder.line)
    return _Around(holder.file, one_line(file_name(holder.file))), line
