"""The ways in which a name can fit something in a graph, one function each; `naming` tries them in order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache

from gradviz.graph.model import CallSite, Graph, Node
from gradviz.graph.operation_words import operation_names
from gradviz.graph.root_names import refused_name, root_names
from gradviz.graph.source_lines import line_words_of

Meanings = dict[str, list[int]]
"""Whole names that fit, each with its nodes."""
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
    """What took the result of a cut, or gave it what it cut off: by its call, its line, or what gets no gradient."""
    fits_path, line = end_of_path(name), SOURCE_LINE.fullmatch(name)
    found: Meanings = {}
    for edge in graph.ghost_edges:
        is_line = line is not None and edge.line == int(line[2]) and _is_file(edge.file, slashed(line[1]))
        if is_line or name in (edge.cut, edge.cut.partition(" ")[0]) or any(map(fits_path, edge.tensors)):
            found.setdefault(f"{edge.cut} at {line_words_of(edge.file, edge.line)}", []).extend(edge.nodes)
    return found


def _by_function(graph: Graph, name: str) -> Meanings:
    function = f".{name.removesuffix('()')}"
    return _while_running(graph, name, lambda site: not site.is_library and f".{site.function}".endswith(function))


WAYS: tuple[tuple[str, Callable[[Graph, str], Meanings]], ...] = (
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


KINDS_OF_PLACES: frozenset[str] = frozenset({"module", "class", "function", "line"})
"""Of the kinds above those that stand for all that was computed in some place."""


def tensor_names(graph: Graph, node: Node) -> Iterator[str]:
    """Names of what a node gives, and of the inputs without gradient that it takes."""
    yield from node.names
    for index in node.constants:
        yield from graph.constants[index].names


def named_tensors(graph: Graph) -> Iterator[tuple[str, int]]:
    for root, name in zip(graph.roots, root_names(graph), strict=True):
        yield name, root.node
    for edge in graph.ghost_edges:
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
    """Everything made in the module calls that have a fitting name, or in calls inside those."""
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
    """Everything made by a call site that is meant, or by what it called."""
    meant: list[bool] = []
    for site in graph.call_sites:
        meant.append((site.caller is not None and meant[site.caller]) or is_meant(site))
    return {name: [node.id for node in graph.nodes if node.call_site is not None and meant[node.call_site]]}


def _is_file(path: str, end: str) -> bool:
    return f"/{slashed(path)}".endswith(f"/{end}")


def slashed(path: str) -> str:
    return path.replace("\\", "/")


def whole_path(name: str) -> _FitsName:
    """Whether a dotted name is `name`, in which ``*`` stands for one part."""
    return re.compile(_pattern(name)).fullmatch


def end_of_path(name: str, after: str = "") -> _FitsName:
    """Whether a dotted name ends in `name`, in which ``*`` stands for one part."""
    return re.compile(rf"(.*\.)?{_pattern(name)}{after}", re.DOTALL).fullmatch


def _pattern(name: str) -> str:
    return re.escape(name).replace(r"\*", "[^.]*")
