"""The memory kept for backward, by line and by module; every storage is counted once."""

from __future__ import annotations

from gradviz.analysis.memory.kept_memory import memory_of
from gradviz.analysis.memory.memory_cells import Cell, cells_by_line, cells_of
from gradviz.graph.model import Graph
from gradviz.rendering.page.document import PageCell, PageMemory
from gradviz.rendering.page.items import cut

MAX_CELLS = 5_000
"""The largest ones: a map has no space for more."""
MAX_NODES = 50
"""In one cell."""


def page_memory(graph: Graph) -> PageMemory | None:
    """The memory map of a graph; None if it was recorded without its saved tensors."""
    if not graph.knows_saved_tensors:
        return None
    memory = memory_of(graph)
    return PageMemory(
        memory.saved_bytes,
        memory.parameter_bytes,
        memory.recomputed_bytes,
        len(memory.unknown),
        _page_cells(cells_of(graph, memory)),
        _page_cells(cells_by_line(memory)),
    )


def _page_cells(whole: Cell) -> tuple[PageCell, ...]:
    """Level by level, so that small cells deep inside are left out first."""
    found: list[PageCell] = []
    waiting: list[tuple[Cell, int | None]] = [(whole, None)]
    for cell, around in waiting:
        if len(found) == MAX_CELLS:
            break
        waiting.extend((inner, len(found)) for inner in cell.sorted_inside())
        found.append(
            PageCell(
                around,
                cell.bytes,
                cut(cell.title),
                cut(cell.name),
                cell.kind,
                cell.storages,
                cut(cell.file or ""),
                cell.line or 0,
                tuple(cell.nodes[:MAX_NODES]),
            )
        )
    return tuple(found)
