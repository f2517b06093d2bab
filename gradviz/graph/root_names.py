"""What a root is called, also where no variable holds it: the same in pictures, in searches and in `--from`."""

from __future__ import annotations

from gradviz.graph.model import Graph


def root_names(graph: Graph) -> list[str]:
    """The name of each root; ``output`` without one, and where several have none they are counted from 1."""
    unnamed = sum(not root.name for root in graph.roots)
    names: list[str] = []
    count = 0
    for root in graph.roots:
        count += not root.name
        names.append(root.name or (f"output {count}" if unnamed > 1 else "output"))
    return names
