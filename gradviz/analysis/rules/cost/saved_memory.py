"""GV901: only on request, with ``--max-saved 2GiB``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.memory.kept_memory import GraphMemory, kept_bytes, memory_of
from gradviz.analysis.memory.memory_groups import Group, by_line
from gradviz.analysis.rule import Rule
from gradviz.graph.number_words import byte_words


class SavedMemory(Rule):
    """A graph keeps more memory for its backward than the limit allows.

    What it finds
    -------------
    The backward call whose graph keeps the most, if that is more than the limit of ``--max-saved``. Each storage counts
    once; parameters and buffers do not count. It runs only if a limit is given.

    Why it matters
    --------------
    What the forward saves for backward is most of the memory of a training step. A limit in a test finds the commit
    that makes it larger, before an accelerator runs out of memory.

    Example
    -------
    layers = [torch.nn.Linear(64, 64) for _ in range(20)]
    h = torch.randn(1000, 64)
    for layer in layers:
        h = torch.relu(layer(h))
    h.sum().backward()

    Instead
    -------
    from torch.utils.checkpoint import checkpoint_sequential

    layers = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()) for _ in range(20)])
    h = checkpoint_sequential(layers, 4, torch.randn(1000, 64), use_reentrant=False)
    h.sum().backward()
    """

    code = "GV901"
    name = "saved_memory"
    severity = "error"
    needs = ("saved tensors",)
    requested_by = "--max-saved"
    limit: ClassVar[int] = 0
    """Bytes."""

    def check(self, case: Case) -> Iterator[Finding]:
        sizes = [kept_bytes(graph, range(len(graph.nodes))) for graph in case.graphs]
        if sizes and max(sizes) > self.limit:
            number = sizes.index(max(sizes))
            yield self._finding(case, number, memory_of(case.graphs[number]))

    def _finding(self, case: Case, number: int, memory: GraphMemory) -> Finding:
        most = next((group for group in by_line(memory) if group.key), None)
        where = f"; {byte_words(most.bytes)} of it by this line" if most is not None else ""
        backward = case.graphs[number].backward
        called = "a graph" if backward is None else f"the graph of backward {backward.number}"
        return self.finding(
            f"{called} keeps {byte_words(memory.saved_bytes)} for its backward: "
            f"{byte_words(memory.saved_bytes - self.limit)} more than {byte_words(self.limit)}{where}",
            why="what the forward saves stays in memory until backward has used it",
            fix="run gradviz memory SCRIPT: it shows which lines keep it, and what checkpointing would save",
            location=_location(most),
            symptom_location=case.location_of_backward(number),
            evidence={"saved_bytes": memory.saved_bytes, "limit_bytes": self.limit},
        )


def _location(group: Group | None) -> Location | None:
    if group is None:
        return None
    file, line = group.key
    return Location(str(file), int(line))


def saved_memory_above(limit: int) -> type[Rule]:
    """The rule with a limit in bytes."""
    return type(
        SavedMemory.__name__, (SavedMemory,), {"limit": limit, "__doc__": SavedMemory.__doc__, "__module__": __name__}
    )
