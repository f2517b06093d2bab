"""What compiled code keeps for backward, and what it computes again instead."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gradviz.graph.gradients import at_index
from gradviz.graph.model import Graph
from gradviz.graph.query.own_line import own_lines
from gradviz.graph.saved_tensors import SavedTensor


@dataclass
class CompiledMemory:
    """All regions of one compiled function together."""

    function: str
    backend: str
    calls: int = 0
    kept_bytes: int | None = 0
    """Of results of its operations; inputs are kept in any case. None where torch does not show what is kept."""
    uncompiled_bytes: int = 0
    """What autograd would keep of them without compilation."""
    recomputed: dict[tuple[str, int], Counter[str]] = field(default_factory=dict)
    """By file and line: how often each operation is computed again."""
    is_known: bool = True
    """Whether torch tells what is computed again."""
    is_guessed: bool = False
    """Whether only sizes say which lines and modules keep what it keeps."""

    @property
    def operations(self) -> int:
        """How many operations are computed again."""
        return sum(counts.total() for counts in self.recomputed.values())


def compiled_memory(graph: Graph) -> list[CompiledMemory]:
    """One for each compiled function whose regions are open, and that torch has not run in backward before."""
    found: dict[tuple[str, str], CompiledMemory] = {}
    kept = _kept_by_region(graph)
    hidden = {node.region for node in graph.nodes if any(saved.state == "unknown" for saved in node.saved)}
    lines = own_lines(graph)
    for index, region in enumerate(graph.regions):
        if region.closed or region.uncompiled_bytes is None:
            continue
        of = found.setdefault((region.function, region.backend), CompiledMemory(region.function, region.backend))
        of.calls += 1
        if index in hidden:
            of.kept_bytes = None
        elif of.kept_bytes is not None:
            of.kept_bytes += kept[index]
        of.uncompiled_bytes += region.uncompiled_bytes
        of.is_known = of.is_known and region.recomputed is not None
        of.is_guessed = of.is_guessed or region.is_saved_guessed
        for each in region.recomputed or ():
            site = graph.call_sites[lines[each.call_site]] if each.call_site is not None else None
            at = (site.file, site.line) if site is not None else ("", 0)
            of.recomputed.setdefault(at, Counter())[each.operation] += each.count
    return list(found.values())


def _kept_by_region(graph: Graph) -> Counter[int]:
    region_of: dict[int, int] = {}  # by storage: two nodes can save the same one
    for node in graph.nodes:
        if node.region is None:
            continue
        for saved in node.saved:
            storage = saved.storage
            if storage is None or graph.storages[storage].kind != "intermediate":
                continue
            if _region_that_made(graph, saved) == node.region:
                region_of[storage] = node.region
    kept: Counter[int] = Counter()
    for storage, region in region_of.items():
        kept[region] += graph.storages[storage].bytes
    return kept


def _region_that_made(graph: Graph, saved: SavedTensor) -> int | None:
    """The region in which the memory of a saved tensor was made; None if it was made outside, as far as known."""
    source = saved.source
    while source is not None and graph.nodes[source].kind == "view":
        edge = at_index(graph.nodes[source].edges, 0)
        if edge is None:
            break
        source = edge.target
    return None if source is None else graph.nodes[source].region
