"""The name of a root, even if no variable holds it: the same in pictures, in searches and for `--from`."""

from __future__ import annotations

from gradviz.graph.model import Graph, RefusedRoot


def root_names(graph: Graph) -> list[str]:
    """The name of each root; ``output`` for one without name, and ``output 1``, ``output 2`` for several."""
    unnamed = sum(not root.name for root in graph.roots)
    names: list[str] = []
    count = 0
    for root in graph.roots:
        count += not root.name
        names.append(root.name or (f"output {count}" if unnamed > 1 else "output"))
    return names


def refused_name(root: RefusedRoot) -> str:
    """The name of a root that torch refused."""
    return root.name or "output"


def why_it_did_not_begin(graph: Graph) -> str | None:
    """Why a backward call did nothing; None where torch did not refuse it."""
    if not graph.refused:
        return None
    function = "backward" if graph.backward is None else graph.backward.function
    names = [refused_name(root) for root in graph.refused[:3]]
    return f"{function}() did not begin: {' and '.join(names)} {'requires' if len(names) == 1 else 'require'} no grad"
