"""What the page says of memory that is kept for backward: by line and by module, every storage counted once."""

from __future__ import annotations

from gradviz.analysis.memory import memory_of
from gradviz.analysis.memory_groups import by_line, by_module
from gradviz.graph.model import Graph
from gradviz.rendering.page_document import PageLineBytes, PageMemory, PageModuleBytes
from gradviz.rendering.page_items import cut

MOST_MODULES = 1_000


def page_memory(graph: Graph) -> PageMemory | None:
    """None where the graph was recorded without its saved tensors."""
    if not graph.knows_saved_tensors:
        return None
    memory = memory_of(graph)
    lines = (
        PageLineBytes(cut(str(group.key[0])), int(group.key[1]), group.bytes)
        for group in by_line(memory)
        if len(group.key) == 2
    )
    modules = sorted(by_module(graph, memory), key=lambda module: -module.bytes)[:MOST_MODULES]
    return PageMemory(
        memory.saved_bytes,
        memory.parameter_bytes,
        len(memory.unknown),
        tuple(lines),
        tuple(PageModuleBytes(cut(module.path), cut(module.class_name), module.bytes) for module in modules),
    )
