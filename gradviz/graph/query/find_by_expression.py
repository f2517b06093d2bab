"""Searches a graph with a regular expression, however the graph is folded.

The search covers operations by their names in pictures, variables and parameters, modules by path and class, and source
lines.

- A dotted name is found by its last part: ``attn`` finds the module ``h.0.attn``, but not everything inside it.
- Case matters if the expression has capitals; only then torch's names are searched, as every second letter would match
  in ``Backward``. In small letters they are among the names of operations: ``BmmBackward0`` is ``bmm``.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from gradviz.errors import BadInput, NothingFound, near_matches
from gradviz.graph.model import Graph, ModuleScope, Node
from gradviz.graph.node_findings import CutEdge
from gradviz.graph.query.operation_names import autograd_name, constant_names, operation_names
from gradviz.graph.query.own_line import line_words, line_words_of, own_lines
from gradviz.graph.query.root_names import refused_name, root_names
from gradviz.graph.traversal import scopes_around


@dataclass(frozen=True, slots=True)
class Found:
    """Ids and indices of everything that matches."""

    nodes: frozenset[int]
    constants: frozenset[int]
    scopes: frozenset[int]
    roots: frozenset[int]
    cut_edges: frozenset[int] = frozenset()
    """Of `Graph.cut_edges`: by the call that cuts, its line, or a tensor that gets no gradient."""
    refused: frozenset[int] = frozenset()
    """Of `Graph.refused`."""

    def __len__(self) -> int:
        kinds = (self.nodes, self.constants, self.scopes, self.roots, self.cut_edges, self.refused)
        return sum(map(len, kinds))


def search(graph: Graph, expression: str) -> Found:
    """Everything in `graph` that matches; raises `NothingFound` with near words, or `BadInput` for a bad expression."""
    pattern = compiled_for_search(expression)
    counts_case = not pattern.flags & re.IGNORECASE

    @cache  # Large graphs repeat the same few words.
    def fits(word: str) -> bool:
        last_part = word.rfind(".") + 1
        return any(match.end() > last_part for match in pattern.finditer(word))

    lines = own_lines(graph)
    sites = {index for index, own in enumerate(lines) if pattern.search(line_words(graph.call_sites[own]))}
    constants, scopes = _in_use(graph)
    found = Found(
        nodes=frozenset(
            node.id for node in graph.nodes if node.call_site in sites or any(map(fits, _words(node, counts_case)))
        ),
        constants=frozenset(index for index in constants if any(map(fits, constant_names(graph.constants[index])))),
        scopes=frozenset(index for index in scopes if any(map(fits, _words_of_scope(graph.scopes[index])))),
        roots=frozenset(index for index, name in enumerate(root_names(graph)) if fits(name)),
        cut_edges=frozenset(
            index
            for index, edge in enumerate(graph.cut_edges)
            if pattern.search(_line_of_cut(edge)) or any(map(fits, (edge.cut, *edge.tensors)))
        ),
        refused=frozenset(index for index, root in enumerate(graph.refused) if fits(refused_name(root))),
    )
    if not len(found):
        raise _nothing_found(graph, expression, scopes)
    return found


def _in_use(graph: Graph) -> tuple[set[int], set[int]]:
    """Constants that an operation takes, and module calls in which something was made: tables may hold more."""
    constants = {constant for node in graph.nodes for constant in node.constants}
    scopes: set[int] = set()
    for scope in {node.scope for node in graph.nodes}:
        while scope is not None and scope not in scopes:
            scopes.add(scope)
            scope = graph.scopes[scope].parent
    return constants, scopes


def nodes_to_show(graph: Graph, found: Found) -> set[int]:
    """Nodes that make every match visible: for data the operations that take it, for a module its first node."""
    shown = {*found.nodes, *(node for cut_edge in found.cut_edges for node in graph.cut_edges[cut_edge].nodes)}
    missing = set(found.scopes)
    for node in graph.nodes:
        if not found.constants.isdisjoint(node.constants):
            shown.add(node.id)
        seen = missing.intersection(scopes_around(graph.scopes, node.scope)) if missing else ()
        if seen:
            shown.add(node.id)
            missing.difference_update(seen)
    return shown


def _nothing_found(graph: Graph, expression: str, scopes: Iterable[int]) -> NothingFound:
    words = dict.fromkeys([*root_names(graph), *map(refused_name, graph.refused)])
    words |= dict.fromkeys(name for node in graph.nodes for name in node.names)
    words |= dict.fromkeys(name for constant in graph.constants for name in constant_names(constant))
    words |= dict.fromkeys(word for scope in sorted(scopes) for word in _words_of_scope(graph.scopes[scope]))
    words |= dict.fromkeys(word for node in graph.nodes for word in _words(node))
    words |= dict.fromkeys(edge.cut for edge in graph.cut_edges)
    return NothingFound(f"nothing in this graph matches {expression!r}", hint=_remedy(expression, words))


def _remedy(expression: str, words: Iterable[str]) -> str:
    as_text = re.escape(expression)
    if as_text != expression and any(expression in word for word in words):
        return f"brackets, dots and the like have a meaning in expressions: for this exact text write {as_text}"
    last_parts = [part for word in words if not (part := word.rpartition(".")[2]).isdecimal()]
    ignoring_case = compiled(expression, re.IGNORECASE)
    other_case = next((part for part in last_parts if ignoring_case.search(part)), None)
    if other_case is not None:
        return f"capitals make the search case-sensitive: in small letters it matches {other_case!r}"
    return near_matches(expression, last_parts)


def _line_of_cut(edge: CutEdge) -> str:
    return line_words_of(edge.file, edge.line) if edge.file else ""


def _words(node: Node, with_torchs_name: bool = True) -> Iterable[str]:
    own = () if node.is_leaf else operation_names(node)
    torchs = (autograd_name(node),) if with_torchs_name else ()
    return (*own, *torchs, *node.names) if node.held else (*own, *torchs)


def _words_of_scope(scope: ModuleScope) -> tuple[str, str]:
    return scope.path, scope.class_name


# Compiles the user's regular expressions, or refuses them in one line.


def compiled(expression: str, flags: int = 0) -> re.Pattern[str]:
    """The compiled expression; raises `BadInput` for an empty one, and with Python's reason for a bad one."""
    if not expression:
        raise BadInput("an empty expression matches everything", hint="write a word or a regular expression")
    try:
        with warnings.catch_warnings():
            # How later versions of Python will read the expression does not concern the user now.
            warnings.simplefilter("ignore", FutureWarning)
            return re.compile(expression, flags)
    except re.error as error:
        raise BadInput(f"{expression!r} is not a regular expression: {error}") from error


def compiled_for_search(expression: str) -> re.Pattern[str]:
    """The same, ignoring case if the expression has no capitals."""
    pattern = compiled(expression)
    # The capital in \S or \W asks for no letter.
    letters = re.sub(r"\\.", "", expression)
    return pattern if letters != letters.lower() else compiled(expression, re.IGNORECASE)
