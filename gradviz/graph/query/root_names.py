"""What a root is called, also where no variable holds it: the same in pictures, in searches and in `--from`."""

from __future__ import annotations

from gradviz.graph.model import Graph, RefusedRoot


def root_names(graph: Graph) -> list[str]:
    """The name of each root; ``output`` without one, and where several have none they are counted from 1."""
    unnamed = sum(not root.name for root in graph.roots)
    names: list[str] = []
    count = 0
    for root in graph.roots:
        count += not root.name
        names.append(root.name or (f"output {count}" if unnamed > 1 else "output"))
    return names


def refused_name(root: RefusedRoot) -> str:
    """What a root that torch refused is called."""
    return root.name or "output"


def why_it_did_not_begin(graph: Graph) -> str | None:
    """Why there is nothing that a backward call did; None where torch did not refuse it."""
    if not graph.refused:
        return None
    function = "backward" if graph.backward is None else graph.backward.function
    names = [refused_name(root) for root in graph.refused[:3]]
    return f"{function}() did not begin: {' and '.join(names)} {'requires' if len(names) == 1 else 'require'} no grad"
