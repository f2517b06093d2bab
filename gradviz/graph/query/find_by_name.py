"""Finds the nodes that a name means, for the command line, the terminal tree and Python.

A name can be, tried in this order; the first form that matches anything is meant:

==================== ===================================================================================
``node:12``          the node with that number
``loss``             a root, a variable, a parameter or an input, by its full name
``model.h.0``        a module call, by its full path: everything computed in it
``fc.weight``        the end of a tensor's name, or ``x`` for ``x[0]`` and ``x[1]``
``h.0.attn``         the end of a module's path
``train.py:41``      a source line: everything computed while it ran
``SoftmaxBackward0`` torch's name for a node; ``Softmax`` is enough
``softmax``          an operation, as pictures name it
``GPT2Attention``    the class of a module: everything computed in its calls
``step()``           a function of the program: everything computed while it ran
``detach``           a call that cuts off a gradient, its line, or a tensor that gets none: the nodes beside the cut
==================== ===================================================================================

In names and paths ``*`` matches one part: ``h.*.attn``. A name that matches several things means all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from gradviz.errors import NotInThisGraph, near_matches
from gradviz.graph.model import CallSite, Graph, Node
from gradviz.graph.query.operation_names import autograd_name, operation_names
from gradviz.graph.query.own_line import line_words, line_words_of
from gradviz.graph.query.root_names import refused_name, root_names

MAX_MEANINGS_LISTED = 3


@dataclass(frozen=True, slots=True)
class Named:
    """What a name means in a graph."""

    name: str
    kind: str
    """What it names: ``tensor``, ``module``, ``operation``."""
    nodes: tuple[int, ...]
    """Ids in creation order. For an input that needs no gradient, the operations that take it."""
    meanings: tuple[str, ...]
    """The full names that match; several where the name is ambiguous."""
    constants: tuple[int, ...] = ()
    """Indices of the inputs without gradient whose name matches."""

    @property
    def note(self) -> str | None:
        """One sentence where the name matches more than one thing; all of them are meant."""
        if len(self.meanings) > 1:
            listed = ", ".join(self.meanings[:MAX_MEANINGS_LISTED])
            more = len(self.meanings) - MAX_MEANINGS_LISTED
            return f"{self.name!r} fits {listed}{f' and {more:,} more' if more > 0 else ''}: all of them are used"
        if self.kind == "cut":
            return f"{self.name!r} is a cut, which makes no node: the nodes beside it are used"
        if self.kind in ("operation", "grad_fn") and len(self.nodes) > 1:
            return f"{self.name!r} fits {len(self.nodes):,} operations: all of them are used"
        return None


def resolve(graph: Graph, name: str) -> Named:
    """What `name` means in `graph`; raises `NotInThisGraph` with near matches where it matches nothing."""
    found = find_named(graph, name)
    if found is None:
        raise _unknown(graph, name)
    return found


def find_named(graph: Graph, name: str) -> Named | None:
    """What `name` means in `graph`; None where it matches nothing."""
    for kind, matcher in MATCHERS:
        meanings = {meaning: nodes for meaning, nodes in matcher(graph, name).items() if nodes}
        if meanings:
            nodes = sorted({node for found in meanings.values() for node in found})
            constants = _constants_named(graph, meanings) if kind == "tensor" else ()
            return Named(name, kind, tuple(nodes), tuple(meanings), constants)
    return None


def _constants_named(graph: Graph, meanings: Meanings) -> tuple[int, ...]:
    return tuple(
        index for index, constant in enumerate(graph.constants) if not meanings.keys().isdisjoint(constant.names)
    )


def _unknown(graph: Graph, name: str) -> NotInThisGraph:
    if not graph.nodes:
        return NotInThisGraph("this graph has no nodes to choose from", hint="leave out the name to see all of it")
    if name.startswith("node:"):
        return NotInThisGraph(f"there is no {name!r}", hint=f"nodes are numbered 0 to {len(graph.nodes) - 1}")
    return NotInThisGraph(f"nothing in this graph is named {name!r}", hint=near_matches(name, _choices(graph, name)))


def _last(path: str, parts: int) -> str:
    """The last parts of a dotted name: blocks that differ only in their number have the same."""
    return ".".join(path.split(".")[-parts:])


def _choices(graph: Graph, name: str) -> list[str]:
    """Possible names, with as many parts as `name`; source lines only if `name` is one, as there are many."""
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
        *(edge.cut for edge in graph.cut_edges),
    ]


# The ways in which a name can match, one function each; `find_named` tries them in order.

Meanings = dict[str, list[int]]
"""Full names that match, each with its nodes."""
_FitsName = Callable[[str], object]

_NUMBERED = re.compile(r"node:(\d+)")
SOURCE_LINE = re.compile(r"(.+):(\d+)")


def _by_number(graph: Graph, name: str) -> Meanings:
    number = _NUMBERED.fullmatch(name)
    return {name: [int(number[1])]} if number and int(number[1]) < len(graph.nodes) else {}


def _by_tensor(graph: Graph, name: str) -> Meanings:
    return _fitting(named_tensors(graph), whole_path(name))


def _by_end_of_tensor(graph: Graph, name: str) -> Meanings:
    return _fitting(named_tensors(graph), end_of_path(name, r"(\[.*\])?"))


def _by_path(graph: Graph, name: str) -> Meanings:
    return _in_scopes(graph, [scope.path for scope in graph.scopes], whole_path(name))


def _by_end_of_path(graph: Graph, name: str) -> Meanings:
    return _in_scopes(graph, [scope.path for scope in graph.scopes], end_of_path(name))


def _by_class(graph: Graph, name: str) -> Meanings:
    return _in_scopes(graph, [scope.class_name for scope in graph.scopes], name.__eq__)


def _by_grad_fn(graph: Graph, name: str) -> Meanings:
    fits = re.compile(rf"(.*::)?{re.escape(name)}(Backward\d*|\d+)?").fullmatch
    return _fitting(((node.name, node.id) for node in graph.nodes), fits)


def _by_operation(graph: Graph, name: str) -> Meanings:
    return {name: [node.id for node in graph.nodes if not node.is_leaf and name in operation_names(node)]}


def _by_line(graph: Graph, name: str) -> Meanings:
    line = SOURCE_LINE.fullmatch(name)
    if line is None:
        return {}
    file, number = slashed(line[1]), int(line[2])
    return _while_running(graph, name, lambda site: site.line == number and _is_file(site.file, file))


def _by_cut(graph: Graph, name: str) -> Meanings:
    """The nodes beside a cut: by its call, its line, or a tensor that gets no gradient."""
    fits_path, line = end_of_path(name), SOURCE_LINE.fullmatch(name)
    found: Meanings = {}
    for edge in graph.cut_edges:
        is_line = line is not None and edge.line == int(line[2]) and _is_file(edge.file, slashed(line[1]))
        if is_line or name in (edge.cut, edge.cut.partition(" ")[0]) or any(map(fits_path, edge.tensors)):
            found.setdefault(f"{edge.cut} at {line_words_of(edge.file, edge.line)}", []).extend(edge.nodes)
    return found


def _by_function(graph: Graph, name: str) -> Meanings:
    function = f".{name.removesuffix('()')}"
    return _while_running(graph, name, lambda site: not site.is_library and f".{site.function}".endswith(function))


MATCHERS: tuple[tuple[str, Callable[[Graph, str], Meanings]], ...] = (
    ("node", _by_number),
    ("tensor", _by_tensor),
    ("module", _by_path),
    ("tensor", _by_end_of_tensor),
    ("module", _by_end_of_path),
    ("line", _by_line),
    ("grad_fn", _by_grad_fn),
    ("operation", _by_operation),
    ("class", _by_class),
    ("function", _by_function),
    ("cut", _by_cut),
)


CONTAINER_KINDS: frozenset[str] = frozenset({"module", "class", "function", "line"})
"""The kinds above that mean everything computed inside something."""


def tensor_names(graph: Graph, node: Node) -> Iterator[str]:
    """Names of a node's results, and of the inputs without gradient that it takes."""
    yield from node.names
    for index in node.constants:
        yield from graph.constants[index].names


def named_tensors(graph: Graph) -> Iterator[tuple[str, int]]:
    for root, name in zip(graph.roots, root_names(graph), strict=True):
        yield name, root.node
    for edge in graph.cut_edges:
        if edge.refused is not None:
            yield from ((refused_name(graph.refused[edge.refused]), node) for node in edge.sources)
    for node in graph.nodes:
        for name in tensor_names(graph, node):
            yield name, node.id


def _fitting(named: Iterable[tuple[str, int]], fits: _FitsName) -> Meanings:
    found: Meanings = {}
    fits = cache(fits)
    for name, node in named:
        if fits(name):
            found.setdefault(name, []).append(node)
    return found


def _in_scopes(graph: Graph, names: list[str], fits: _FitsName) -> Meanings:
    """Everything made in the module calls whose name matches, or in calls inside those."""
    fitting = {name for name in set(names) if fits(name)}
    if not fitting:
        return {}
    inside: list[str | None] = []
    for scope, name in zip(graph.scopes, names, strict=True):
        around = None if scope.parent is None else inside[scope.parent]
        inside.append(name if name in fitting else around)
    return _fitting(
        ((inside[node.scope] or "", node.id) for node in graph.nodes if node.scope is not None), fitting.__contains__
    )


def _while_running(graph: Graph, name: str, is_meant: Callable[[CallSite], bool]) -> Meanings:
    """Everything made by a matching call site, or by functions that it called."""
    meant: list[bool] = []
    for site in graph.call_sites:
        meant.append((site.caller is not None and meant[site.caller]) or is_meant(site))
    return {name: [node.id for node in graph.nodes if node.call_site is not None and meant[node.call_site]]}


def _is_file(path: str, end: str) -> bool:
    return f"/{slashed(path)}".endswith(f"/{end}")


def slashed(path: str) -> str:
    return path.replace("\\", "/")


def whole_path(name: str) -> _FitsName:
    """Whether a dotted name equals `name`, in which ``*`` matches one part."""
    return re.compile(_pattern(name)).fullmatch


def end_of_path(name: str, after: str = "") -> _FitsName:
    """Whether a dotted name ends in `name`, in which ``*`` matches one part."""
    return re.compile(rf"(.*\.)?{_pattern(name)}{after}", re.DOTALL).fullmatch


def _pattern(name: str) -> str:
    return re.escape(name).replace(r"\*", "[^.]*")
