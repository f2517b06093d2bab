"""Puts the operations of compiled regions in the place of the single nodes that torch has for them.

The operations are ordinary nodes with a mark of their region, so everything that works on nodes works on them. What was
measured at the single node is kept at those operations where it means the same: the gradient that arrived at the result
of the region, and the gradient that it sent along an edge, if only one operation sends it. Between the operations
nothing was measured, unless the region was run a second time: see `second_run`.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from gradviz.graph.gradients import BranchShare, NodeRun, TensorFigures, at_index
from gradviz.graph.model import BackwardCall, CallSite, Edge, Graph, HeldTensor, ModuleScope, Node, Region
from gradviz.graph.number_words import counted
from gradviz.graph.root_shares import RootShares
from gradviz.recording.compiled.inner_region import InnerRegion, Result
from gradviz.recording.compiled.nan_lines import BROKEN_BY
from gradviz.recording.compiled.region_constants import RegionConstant
from gradviz.recording.compiled.region_replay import RESHAPES
from gradviz.recording.compiled.saved_in_region import SavedByRegion, Told

NOT_MEASURED = "inside compiled code"
"""`TensorFigures.unmeasured` of the gradients between the operations of a region."""


@dataclass(frozen=True)
class FoundRegion:
    """A compiled node of a graph."""

    call: int
    """Number of the call of compiled code that made it: regions with the same number share their module calls."""
    inner: InnerRegion | None
    closed: str = ""
    """Why there is no `inner`."""
    is_measured: bool = False
    """Whether the operations have the figures of a second run."""
    why_unmeasured: str = ""
    """Why not, if a second run was asked for."""


@dataclass(frozen=True)
class UncompiledRegion:
    """Nodes of a graph that Dynamo traced and that were not compiled: ``backend="eager"``."""

    call: int
    """As in `FoundRegion`."""
    nodes: dict[int, int]
    """Which operation of `inner` each node is."""
    inner: InnerRegion


class FoundRegions(NamedTuple):
    """The regions of one graph."""

    compiled: Mapping[int, FoundRegion] = {}
    """By the id of their node."""
    uncompiled: Sequence[UncompiledRegion] = ()
    logged: Sequence[int] = ()
    """Indices in the log of the constants of the graph."""


def closed_regions(found: Iterable[FoundRegion]) -> list[str]:
    """A sentence for each reason why regions are closed."""
    reasons = Counter(each.closed for each in found if each.inner is None)
    return [
        f"the operations inside {counted(count, 'compiled function')}, each a single node: {reason}"
        for reason, count in reasons.items()
    ]


def without_broken(graph: Graph, found: FoundRegions) -> FoundRegions:
    """Those in which NaN or Inf began are closed, because the line of that is known for their node; a second run tells
    more."""
    reason = "NaN or Inf began inside, and the line shown is where"
    compiled = {
        index: FoundRegion(each.call, None, reason)
        if BROKEN_BY in graph.nodes[index].attributes and not each.is_measured
        else each
        for index, each in found.compiled.items()
    }
    return found._replace(compiled=compiled)


def unmeasured_between(graph: Graph) -> int:
    """How many operations of an opened graph are in open regions through which measured gradients went."""
    sizes = Counter(node.region for node in graph.nodes if node.run is not None and node.kind != "compiled")
    is_open = {
        number
        for number, region in enumerate(graph.regions)
        if region.node_name and not region.closed and not region.is_measured
    }
    return sum(size for number, size in sizes.items() if number in is_open and size > 1)


def not_measured_again(found: Iterable[FoundRegion]) -> list[str]:
    """A sentence for each reason for which a second run has no figures."""
    reasons = Counter(each.why_unmeasured for each in found if each.why_unmeasured)
    return [
        f"the gradients inside {counted(count, 'compiled function')} in a second run: {reason}"
        for reason, count in reasons.items()
    ]


def opened(graph: Graph, found: FoundRegions) -> Graph:
    """The graph with the regions open."""
    if not found.compiled and not found.uncompiled:
        return graph
    return _Opening(graph, found.compiled, found.uncompiled, found.logged).graph()


@dataclass
class _Opening:
    old: Graph
    found: Mapping[int, FoundRegion]
    uncompiled: Sequence[UncompiledRegion]
    logged: Sequence[int]
    nodes: list[Node] = field(default_factory=list)
    new_ids: dict[int, int] = field(default_factory=dict)
    """New ids of nodes that are not regions."""
    first: dict[int, int] = field(default_factory=dict)
    """For each open region, the new id of its first operation."""
    regions: list[Region] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._leave_out_unused()
        self.scopes = list(self.old.scopes)
        self.sites = list(self.old.call_sites)
        self.constants = list(self.old.constants)
        self._logged = {index: number for number, index in enumerate(self.logged)}
        self._frames: dict[tuple[int, str], int] = {}
        self._calls: Counter[str] = Counter()

    def _leave_out_unused(self) -> None:
        """Drop operations whose results nothing in the graph uses, such as those that a graph break only looks at."""
        used = {(root.node, root.output_nr) for root in self.old.roots}
        kept = dict(self.found)
        for node in reversed(self.old.nodes):
            found = self.found.get(node.id)
            if found is None or found.inner is None:
                used.update((edge.target, edge.input_nr) for edge in node.edges if edge is not None)
                continue
            inner = found.inner
            wanted = [result for number, result in enumerate(inner.results) if (node.id, number) in used]
            kept[node.id] = dataclasses.replace(found, inner=only_used(inner, wanted))
            used.update(
                (edge.target, edge.input_nr)
                for number in {result for result in wanted if isinstance(result, int)} | inner_inputs(kept[node.id])
                if (edge := at_index(node.edges, number)) is not None
            )
        self.found = kept

    def graph(self) -> Graph:
        self._number()
        traced = self._traced_nodes()
        for node in self.old.nodes:
            found = self.found.get(node.id)
            if found is None:
                self.nodes.append(self._outer(traced.get(node.id, node), self.new_ids[node.id]))
            elif found.inner is None:
                self.regions.append(_region_of(node, found))
                marked = replace(node, region=len(self.regions) - 1)
                self.nodes.append(self._outer(marked, self.new_ids[node.id]))
            else:
                self._open(node, found, found.inner)
        old = self.old
        return replace(
            old,
            nodes=tuple(_in_engine_order(self.nodes)),
            roots=tuple(replace(root, **self._slot(root.node, root.output_nr)) for root in old.roots),
            scopes=tuple(self.scopes),
            call_sites=tuple(self.sites),
            constants=tuple(self.constants),
            regions=tuple(self.regions),
            backward=self._backward(),
            root_shares=self._root_shares(),
        )

    def _number(self) -> None:
        count = 0
        for node in self.old.nodes:
            inner = self.found[node.id].inner if node.id in self.found else None
            if inner is None:
                self.new_ids[node.id] = count
                count += 1
            else:
                self.first[node.id] = count
                count += len(inner.nodes)

    def _target(self, edge: Edge | None) -> Edge | None:
        """An edge with new ids. A result that is an input as it was leads on to what made that input."""
        while edge is not None and edge.target in self.first:
            inner = self.found[edge.target].inner
            assert inner is not None
            result = at_index(inner.results, edge.input_nr)
            if isinstance(result, tuple):
                return Edge(self.first[edge.target] + result[0], result[1])
            edge = at_index(self.old.nodes[edge.target].edges, result) if isinstance(result, int) else None
        return None if edge is None else Edge(self.new_ids[edge.target], edge.input_nr)

    def _slot(self, node: int, output_nr: int) -> dict[str, int]:
        edge = self._target(Edge(node, output_nr))
        return {"node": 0, "output_nr": 0} if edge is None else {"node": edge.target, "output_nr": edge.input_nr}

    def _outer(self, node: Node, new: int) -> Node:
        saved = tuple(
            each if each.source is None else replace(each, **self._source(each.source, each.source_nr))
            for each in node.saved
        )
        return replace(node, id=new, edges=tuple(map(self._target, node.edges)), saved=saved)

    def _source(self, node: int, output_nr: int) -> dict[str, int | None]:
        edge = self._target(Edge(node, output_nr))
        return {"source": None, "source_nr": 0} if edge is None else {"source": edge.target, "source_nr": edge.input_nr}

    def _traced_nodes(self) -> dict[int, Node]:
        """Nodes of regions that were not compiled, with lines and modules, by their old ids."""
        found: dict[int, Node] = {}
        for region in self.uncompiled:
            first = self.old.nodes[next(iter(region.nodes))]
            made = region.inner
            self.regions.append(Region("", made.function, made.backend, first.call_site, graph_break=made.graph_break))
            tables = self._moved_tables(first, region.call, region.inner)
            for index, own in region.nodes.items():
                inner = region.inner.nodes[own]
                found[index] = replace(
                    self.old.nodes[index],
                    name=self.old.nodes[index].name if inner.name in RESHAPES else inner.name,
                    forward_call=inner.forward_call,
                    call_site=tables.site(inner),
                    scope=tables.scope(inner),
                    constants=tables.constants_of(inner),
                    number=inner.number,
                    kind=inner.kind if inner.kind in ("inplace", "checkpoint") else self.old.nodes[index].kind,
                    region=len(self.regions) - 1,
                )
        return found

    def _moved_tables(self, node: Node, call: int, inner: InnerRegion) -> _Moved:
        """Add the tables of a region to those of the graph; `node` is the region itself, or its first node."""
        sites = len(self.sites)
        self.sites += [_moved_site(site, sites, node.call_site) for site in inner.sites]
        outer_scope = self._frame_scope(node, call, inner)
        scopes: list[int] = []
        for scope in inner.scopes:
            parent = outer_scope if scope.parent is None else scopes[scope.parent]
            if scope.parent is None and parent is not None and self.scopes[parent].path == scope.path:
                scopes.append(parent)  # the module that was compiled, which Dynamo notes, too
                continue
            scopes.append(len(self.scopes))
            self.scopes.append(self._numbered(replace(scope, parent=parent)))
        used = sorted({index for own in inner.nodes for index in own.constants})
        constants = {index: self._constant(inner.constants[index]) for index in used}
        return _Moved(node.call_site, outer_scope, sites, scopes, constants)

    def _constant(self, found: RegionConstant) -> int:
        """The index of a constant in the graph, to which it is added unless another region or the graph has it."""
        known = self._logged.get(found.logged) if found.logged is not None else None
        if known is not None:
            return known
        self.constants.append(found.constant)
        if found.logged is not None:
            self._logged[found.logged] = len(self.constants) - 1
        return len(self.constants) - 1

    def _open(self, node: Node, found: FoundRegion, inner: InnerRegion) -> None:
        first = self.first[node.id]
        tables = self._moved_tables(node, found.call, inner)
        region = _region_of(node, found, tables)
        made_before = {
            (edge.target, edge.input_nr): number for number, edge in enumerate(node.edges) if edge is not None
        }
        by_region = SavedByRegion(
            inner.nodes, inner.expected, inner.told, self._inputs_by_name(node), made_before, self.old.storages
        )
        operations, is_guessed = by_region.placed(node.saved)
        self.regions.append(replace(region, is_saved_guessed=is_guessed))
        figures = _Boundary(node, inner)
        for own in operations:
            edges = tuple(
                None
                if edge is None
                else Edge(first + edge.target, edge.input_nr)
                if edge.target >= 0
                else self._target(at_index(node.edges, -1 - edge.target))
                for edge in own.edges
            )
            self.nodes.append(
                replace(
                    own,
                    id=first + own.id,
                    edges=edges,
                    sequence_nr=node.sequence_nr,
                    call_site=tables.site(own),
                    scope=tables.scope(own),
                    constants=tables.constants_of(own),
                    saved=tuple(
                        each if each.source is None else replace(each, source=first + each.source) for each in own.saved
                    ),
                    hooks=node.hooks if (own.id, 0) in inner.results else (),
                    held=figures.held(own),
                    gradients=_either(figures.sent(own), own.gradients),
                    shares=figures.shares(own),
                    arrived=_either(figures.arrived(own), own.arrived),
                    run=node.run,
                    region=len(self.regions) - 1,
                )
            )

    def _inputs_by_name(self, node: Node) -> dict[str, int]:
        """Inputs of a region that are parameters."""
        return {
            name: number
            for number, edge in enumerate(node.edges)
            if edge is not None
            for name in self.old.nodes[edge.target].names
        }

    def _frame_scope(self, node: Node, call: int, inner: InnerRegion) -> int | None:
        """The module or function that was compiled: the one around it, if it is the same, or a new one."""
        frame = inner.frame_scope
        if frame is None or (node.scope is not None and self.scopes[node.scope].path == frame.path):
            return node.scope
        key = (call, frame.path)
        if key not in self._frames:
            self._frames[key] = len(self.scopes)
            site = node.call_site if frame.kind == "function" else None
            self.scopes.append(self._numbered(replace(frame, parent=node.scope, call_site=site)))
        return self._frames[key]

    def _numbered(self, scope: ModuleScope) -> ModuleScope:
        call = self._calls[scope.path]
        self._calls[scope.path] += 1
        return replace(scope, call=call)

    def _backward(self) -> BackwardCall | None:
        call = self.old.backward
        if call is None or call.failed_node is None:
            return call
        return replace(call, failed_node=self.new_ids.get(call.failed_node, self.first.get(call.failed_node)))

    def _root_shares(self) -> RootShares | None:
        shares = self.old.root_shares
        if shares is None:
            return None
        losses = tuple(
            replace(loss, nodes=tuple(self._slot(number, 0)["node"] for number in loss.nodes)) for loss in shares.losses
        )
        return replace(
            shares,
            losses=losses,
            leaves=tuple(replace(each, leaf=self.new_ids[each.leaf]) for each in shares.leaves),
        )


def inner_inputs(found: FoundRegion) -> set[int]:
    """Inputs of a region to which its operations send gradients."""
    nodes = found.inner.nodes if found.inner is not None else ()
    return {-1 - edge.target for node in nodes for edge in node.edges if edge is not None and edge.target < 0}


def only_used(inner: InnerRegion, wanted: Iterable[Result]) -> InnerRegion:
    """The region with only those operations that the wanted results were computed from."""
    used = {result[0] for result in wanted if isinstance(result, tuple)}
    for node in reversed(inner.nodes):
        if node.id in used:
            used.update(edge.target for edge in node.edges if edge is not None and edge.target >= 0)
    new_ids = {old: new for new, old in enumerate(sorted(used))}
    nodes = [
        replace(
            inner.nodes[old],
            id=new,
            edges=tuple(
                edge if edge is None or edge.target < 0 else Edge(new_ids[edge.target], edge.input_nr)
                for edge in inner.nodes[old].edges
            ),
        )
        for old, new in new_ids.items()
    ]
    results: list[Result] = [
        ((new_ids[each[0]], each[1]) if each[0] in new_ids else None) if isinstance(each, tuple) else each
        for each in inner.results
    ]
    expected = [
        each._replace(node=new_ids[each.node], source=None if each.source is None else new_ids.get(each.source))
        for each in inner.expected
        if each.node in new_ids
    ]
    told = inner.told and [_renumbered(each, new_ids) for each in inner.told]
    return dataclasses.replace(inner, nodes=nodes, results=results, expected=expected, told=told)


def _renumbered(told: Told | None, new_ids: Mapping[int, int]) -> Told | None:
    """None if the operation is left out."""
    if told is None or told.node is None:
        return told
    return told._replace(node=new_ids[told.node]) if told.node in new_ids else None


def _region_of(node: Node, found: FoundRegion, tables: _Moved | None = None) -> Region:
    inner = found.inner
    if inner is None or tables is None:
        return Region(node.name, call_site=node.call_site, run=node.run, closed=found.closed)
    return Region(
        node.name,
        inner.function,
        inner.backend,
        node.call_site,
        node.run,
        found.is_measured,
        uncompiled_bytes=inner.uncompiled_bytes,
        recomputed=None
        if inner.recomputed is None
        else tuple(
            replace(each, call_site=None if each.call_site is None else tables.sites + each.call_site)
            for each in inner.recomputed
        ),
        backward_parts=tuple(inner.backward_parts),
        graph_break=inner.graph_break,
    )


def _moved_site(site: CallSite, offset: int, outermost: int | None) -> CallSite:
    return replace(site, caller=outermost if site.caller is None else offset + site.caller)


@dataclass(frozen=True)
class _Moved:
    """Where the tables of a region begin in those of the graph."""

    call_site: int | None
    outer_scope: int | None
    sites: int
    scopes: Sequence[int]
    """For each scope of the region, the one of the graph."""
    constants: Mapping[int, int]
    """The same for constants that its operations take."""

    def site(self, own: Node) -> int | None:
        return self.call_site if own.call_site is None else self.sites + own.call_site

    def scope(self, own: Node) -> int | None:
        return self.outer_scope if own.scope is None else self.scopes[own.scope]

    def constants_of(self, own: Node) -> tuple[int, ...]:
        return tuple(self.constants[index] for index in own.constants)


class _Boundary:
    """What was measured at the single node, for the operations at the edge of the region."""

    def __init__(self, node: Node, inner: InnerRegion) -> None:
        self._node = node
        self._uses = Counter(
            edge.target if edge.target < 0 else (edge.target, edge.input_nr)
            for own in inner.nodes
            for edge in own.edges
            if edge is not None
        )
        self._results = Counter(result for result in inner.results if isinstance(result, tuple))
        self._output_of = {result: number for number, result in enumerate(inner.results) if isinstance(result, tuple)}

    def held(self, own: Node) -> tuple[HeldTensor, ...]:
        found = []
        for tensor in self._node.held:
            for result, number in self._output_of.items():
                if number == tensor.output_nr and result[0] == own.id:
                    found.append(replace(tensor, output_nr=result[1]))
        return tuple(found)

    def _only_input(self, edge: Edge | None) -> int | None:
        """The input of the region that only this edge leads to."""
        return -1 - edge.target if edge is not None and edge.target < 0 and self._uses[edge.target] == 1 else None

    def sent(self, own: Node) -> tuple[TensorFigures | None, ...]:
        if self._node.run is None or not self._node.gradients:
            return ()
        return tuple(
            None
            if edge is None
            else _UNMEASURED
            if (number := self._only_input(edge)) is None
            else at_index(self._node.gradients, number)
            for edge in own.edges
        )

    def shares(self, own: Node) -> tuple[BranchShare | None, ...]:
        """Those of a second run are kept where both ends of the edge are inside."""
        found = []
        for position, edge in enumerate(own.edges):
            number = self._only_input(edge)
            is_inside = edge is not None and edge.target >= 0
            inside = at_index(own.shares, position) if is_inside else None
            found.append(inside if number is None else at_index(self._node.shares, number))
        return tuple(found) if any(found) else ()

    def arrived(self, own: Node) -> tuple[TensorFigures | None, ...]:
        if self._node.run is None or not self._node.arrived:
            return ()
        found: list[TensorFigures | None] = []
        for number in range(max(len(own.outputs), 1)):
            slot = own.id, number
            if self._results[slot] == 1 and not self._uses[slot]:
                found.append(at_index(self._node.arrived, self._output_of[slot]))
            elif self._results[slot] or self._uses[slot]:
                found.append(_UNMEASURED)
            else:
                found.append(None)
        return tuple(found)


_UNMEASURED = TensorFigures(unmeasured=NOT_MEASURED)


def _either(
    program: tuple[TensorFigures | None, ...], again: tuple[TensorFigures | None, ...]
) -> tuple[TensorFigures | None, ...]:
    """What was measured in the program, and where it was not, in the second run."""
    return tuple(
        at_index(again, number) or each if each is _UNMEASURED else each for number, each in enumerate(program)
    )


def _in_engine_order(nodes: Sequence[Node]) -> list[Node]:
    """The nodes with new numbers for the order in which they ran: the operations of a region one after the other.

    The engine runs all of a region at once. Its operations are numbered as autograd would run them without compilation,
    the latest first, and leaves right after the last operation that sends to them.
    """
    ran = [node for node in nodes if node.run is not None]
    inside = {node.id for node in ran if node.region is not None}
    if not inside:
        return list(nodes)
    missing: Counter[int] = Counter()
    for node in ran:
        for edge in node.edges:
            if edge is not None:
                missing[edge.target] += 1
    ready = [_priority(node) for node in ran if not missing[node.id]]
    heapq.heapify(ready)
    order: dict[int, int] = {}
    while ready:
        number = heapq.heappop(ready)[-1]
        order[number] = len(order)
        for edge in nodes[number].edges:
            if edge is not None:
                missing[edge.target] -= 1
                if not missing[edge.target] and nodes[edge.target].run is not None:
                    heapq.heappush(ready, _priority(nodes[edge.target]))
    result = list(nodes)
    for node in ran:
        if node.run is not None and node.id in order:
            result[node.id] = replace(node, run=_inner_run(node.run, order[node.id], node.id in inside))
    return result


def _priority(node: Node) -> tuple[int, int, int]:
    """Leaves are collected as soon as they can be; otherwise what was made last runs first."""
    return (0 if node.is_leaf else 1, -node.id, node.id)


def _inner_run(run: NodeRun, order: int, is_inside: bool) -> NodeRun:
    """The time is that of the whole region: it is kept only in `Graph.regions`."""
    return replace(run, order=order, seconds=0.0) if is_inside else replace(run, order=order)
