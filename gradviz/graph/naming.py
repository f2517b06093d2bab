"""Which nodes a name stands for: one answer for the command line, the terminal tree and Python.

What may be written, tried in this order; the first that fits anything is meant:

==================== ===================================================================================
``node:12``          the node with that number
``loss``             a root, a variable, a parameter or an input, by its whole name
``model.h.0``        a module call, by its whole path: everything computed in it
``fc.weight``        the end of a tensor's name, or ``x`` for ``x[0]`` and ``x[1]``
``h.0.attn``         the end of a module's path
``train.py:41``      a source line: everything computed while it ran
``SoftmaxBackward0`` torch's name for a node; ``Softmax`` will do
``softmax``          an operation, as pictures call it
``GPT2Attention``    the class of a module: everything computed in its calls
``step()``           a function of the program: everything computed while it ran
``detach``           a call that cuts off a gradient, its line, or what gets none: the nodes beside the cut
==================== ===================================================================================

In names and paths ``*`` stands for one part: ``h.*.attn``. A name that fits several means all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from gradviz.errors import NotInThisGraph, near_matches
from gradviz.graph.model import Graph
from gradviz.graph.name_ways import SOURCE_LINE, WAYS, Meanings, named_tensors
from gradviz.graph.operation_words import autograd_name, operation_names
from gradviz.graph.source_lines import line_words

MOST_MEANINGS_TOLD = 3


@dataclass(frozen=True, slots=True)
class Named:
    """What a name turned out to stand for."""

    name: str
    kind: str
    """What it names, as a reader would say: ``tensor``, ``module``, ``operation``."""
    nodes: tuple[int, ...]
    """Ids in creation order. For an input that needs no gradient, the operations that take it."""
    meanings: tuple[str, ...]
    """The whole names that fit, several where the name is ambiguous."""
    constants: tuple[int, ...] = ()
    """Indices of the inputs without gradient that have a fitting name."""

    @property
    def note(self) -> str | None:
        """One sentence where the name fits more than one thing; all of them are meant."""
        if len(self.meanings) > 1:
            told = ", ".join(self.meanings[:MOST_MEANINGS_TOLD])
            more = len(self.meanings) - MOST_MEANINGS_TOLD
            return f"{self.name!r} fits {told}{f' and {more:,} more' if more > 0 else ''}: all of them are meant"
        if self.kind == "cut":
            return f"{self.name!r} is a cut, which makes no node: what stands beside it is meant"
        if self.kind in ("operation", "grad_fn") and len(self.nodes) > 1:
            return f"{self.name!r} fits {len(self.nodes):,} operations: all of them are meant"
        return None


def resolve(graph: Graph, name: str) -> Named:
    """What `name` stands for in `graph`; raises `NotInThisGraph` with near matches where it fits nothing."""
    found = find_named(graph, name)
    if found is None:
        raise _unknown(graph, name)
    return found


def find_named(graph: Graph, name: str) -> Named | None:
    """What `name` stands for in `graph`; None where it fits nothing."""
    for kind, way in WAYS:
        meanings = {meaning: nodes for meaning, nodes in way(graph, name).items() if nodes}
        if meanings:
            nodes = sorted({node for found in meanings.values() for node in found})
            constants = _constants_named(graph, meanings) if kind == "tensor" else ()
            return Named(name, kind, tuple(nodes), tuple(meanings), constants)
    return None


def _constants_named(graph: Graph, meanings: Meanings) -> tuple[int, ...]:
    return tuple(
        place for place, constant in enumerate(graph.constants) if not meanings.keys().isdisjoint(constant.names)
    )


def _unknown(graph: Graph, name: str) -> NotInThisGraph:
    if not graph.nodes:
        return NotInThisGraph("this graph has no nodes to choose from", hint="all of it is shown without any choice")
    if name.startswith("node:"):
        return NotInThisGraph(f"there is no {name!r}", hint=f"nodes are numbered 0 to {len(graph.nodes) - 1}")
    return NotInThisGraph(f"nothing in this graph is named {name!r}", hint=near_matches(name, _choices(graph, name)))


def _last(path: str, parts: int) -> str:
    """The end of a dotted name: blocks without number have the same."""
    return ".".join(path.split(".")[-parts:])


def _choices(graph: Graph, name: str) -> list[str]:
    """What could have been meant, as long as what was written; lines only where a line was, as there are so many."""
    if SOURCE_LINE.fullmatch(name):
        return [line_words(site) for site in graph.call_sites]
    operations = [node for node in graph.nodes if not node.is_leaf]
    parts = name.count(".") + 1
    scopes = dict.fromkeys(node.scope for node in operations if node.scope is not None)
    return [
        *(_last(tensor, parts) for tensor, _ in named_tensors(graph)),
        *(end for scope in scopes if not (end := _last(graph.scopes[scope].path, parts)).isdecimal()),
        *(word for node in operations for word in operation_names(node)),
        *map(autograd_name, operations),
        *(edge.cut for edge in graph.ghost_edges),
    ]
