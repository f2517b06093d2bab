"""One graph of two runs, for pictures: the second run's graph, and the nodes that only the first one has.

A node that only the first run has (an *added* node) takes its data from the counterparts of what it took it from, and
gives it to those of its users. Where operations were reordered, a link of the first run could close a cycle: such a
link is left out and counted. Each step is one pass over the nodes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import replace as dataclass_replace

from msgspec.structs import replace

from gradviz.analysis.diff.comparison import Compared
from gradviz.analysis.diff.runs import Run
from gradviz.capture.capture import Capture
from gradviz.errors import NothingRecorded
from gradviz.graph.model import CallSite, Edge, Graph, ModuleScope, Node
from gradviz.graph.number_words import counted
from gradviz.graph.traversal import consumers, topological_order
from gradviz.view.fold.plumbing import PLUMBING_NAMES
from gradviz.view.marks import Mark, Marks

MAX_SHOWN = 200
"""Boxes are opened around at most this many nodes that differ: more would not be readable."""


@dataclass(frozen=True)
class Counterparts:
    """Which nodes of the two runs a node of their merged graph stands for."""

    compared: Compared
    in_a: Mapping[int, int]
    """For nodes of the merged graph, the node of the first run."""
    in_b: Mapping[int, int]


@dataclass(frozen=True)
class MergedGraph:
    """The graph of both runs, what differs in it, and what is to be said about it."""

    capture: Capture
    graph: Graph
    marks: Marks
    notes: tuple[str, ...]
    counterparts: Counterparts


def merged_graph(compared: Compared) -> MergedGraph:
    """Merge the graphs of two compared runs; raises `NothingRecorded` if one of them has none."""
    for run, side in ((compared.a, compared.difference.a), (compared.b, compared.difference.b)):
        if run.graph is None:
            raise NothingRecorded(f"{side} has no autograd graph, so there is no picture of the difference")
    return _Merger(compared).merged()


class _Merger:
    def __init__(self, compared: Compared) -> None:
        assert compared.a.graph is not None and compared.b.graph is not None
        self._compared = compared
        self._a, self._b = compared.a.graph, compared.b.graph
        self._pairs = _all_pairs(compared, self._a, self._b)
        self._in_compiled_code = _inside_compiled_code(compared)
        self._added = self._added_nodes()
        self._users_in_b = consumers(self._b)
        self._cycles = 0

    def merged(self) -> MergedGraph:
        after = self._positions()
        order = sorted(
            [((position, 0, b), ("b", b)) for position, b in enumerate(topological_order(self._b))]
            + [((after[a], 1, a), ("a", a)) for a in self._added]
        )
        number = {key: new for new, (_, key) in enumerate(order)}
        self._of_a = {
            **{a: number["b", b] for a, b in self._pairs.items()},
            **{a: number["a", a] for a in self._added},
        }
        self._of_b = {b: number["b", b] for b in range(len(self._b.nodes))}
        sources = _Sources(self._compared)
        scopes, scope_of = self._scopes(len(self._b.call_sites))
        extra = self._edges_to_added(after)
        nodes = []
        for _, (side, old) in order:
            if side == "b":
                nodes.append(self._of_second(self._b.nodes[old], extra.get(old, [])))
            else:
                nodes.append(self._of_first(self._a.nodes[old], scope_of))
        graph = replace(
            self._b,
            nodes=tuple(nodes),
            roots=(
                *(replace(root, node=self._of_b[root.node]) for root in self._b.roots),
                *(replace(root, node=self._of_a[root.node]) for root in self._a.roots if root.node in self._added),
            ),
            scopes=scopes,
            call_sites=(*self._b.call_sites, *sources.call_sites(self._a, len(self._b.call_sites))),
            constants=self._b.constants + self._a.constants,
            storages=self._b.storages + self._a.storages,
            custom_functions=self._b.custom_functions + self._a.custom_functions,
            regions=self._b.regions,
            backward=None if self._b.backward is None else replace(self._b.backward, failed_node=None),
            root_shares=None,
            findings=(),
            cut_edges=(),
            unplaced_findings=(),
        )
        marks = self._marks(graph)
        in_a, in_b = ({new: old for old, new in of.items()} for of in (self._of_a, self._of_b))
        counterparts = Counterparts(self._compared, in_a, in_b)
        return MergedGraph(sources.capture(), graph, marks, tuple(self._notes(marks)), counterparts)

    # -- Which nodes there are, and in which order ---------------------------------------------------------------------

    def _added_nodes(self) -> dict[int, None]:
        """Operations of the first run without a counterpart, and the leaves without one that something drawn takes."""
        found = {
            node.id
            for node in self._a.nodes
            if not node.is_leaf and node.id not in self._pairs and node.id not in self._in_compiled_code[0]
        }
        leaves = {
            edge.target
            for node in self._a.nodes
            if node.id in found or node.id in self._pairs
            for edge in node.edges
            if edge is not None and self._a.nodes[edge.target].is_leaf and edge.target not in self._pairs
        }
        return dict.fromkeys(sorted(found | leaves))

    def _positions(self) -> dict[int, int]:
        """For each added node, the position in the second graph after which it stands.

        That is behind all it takes and, if possible, before all that takes it and behind what ran before it.
        """
        place = {b: position for position, b in enumerate(topological_order(self._b))}
        self._place = {a: place[b] for a, b in self._pairs.items()}
        order = topological_order(self._a)
        highest: dict[int, int] = {}
        before: dict[int, int] = {}
        last = -1
        for a in order:
            if a in self._added:
                takes = [edge.target for edge in self._a.nodes[a].edges if edge is not None]
                highest[a] = max((self._place.get(each, highest.get(each, -1)) for each in takes), default=-1)
                before[a] = last
            elif a in self._place and not self._a.nodes[a].is_leaf:
                last = self._place[a]
        end = len(self._b.nodes)
        lowest = dict.fromkeys(self._added, end)
        for a in reversed(order):
            own = self._place.get(a, lowest.get(a))
            if own is None:
                continue
            for edge in self._a.nodes[a].edges:
                if edge is not None and edge.target in lowest:
                    lowest[edge.target] = min(lowest[edge.target], own)
        return {a: max(highest[a], min(before[a], lowest[a] - 1)) for a in self._added}

    def _edges_to_added(self, after: dict[int, int]) -> dict[int, list[Edge]]:
        """Edges of the second graph's nodes to added ones, by the number of the node in its own graph."""
        found: defaultdict[int, list[Edge]] = defaultdict(list)
        for a, b in self._pairs.items():
            for edge in self._a.nodes[a].edges:
                if edge is None or edge.target not in self._added:
                    continue
                if self._place[a] > after[edge.target]:
                    found[self._behind_views(b)].append(Edge(self._of_a[edge.target], edge.input_nr))
                else:
                    self._cycles += 1
        return found

    def _behind_views(self, b: int) -> int:
        """The operation that takes what views and copies make of the data: with two inputs, these would be drawn."""
        users = self._users_in_b
        while _only_reshapes(self._b.nodes[b]) and len(users[b]) == 1:
            b = users[b][0]
        return b

    # -- The nodes with the numbers of the merged graph ----------------------------------------------------------------

    def _of_second(self, node: Node, extra: list[Edge]) -> Node:
        edges = tuple(None if edge is None else Edge(self._of_b[edge.target], edge.input_nr) for edge in node.edges)
        more = (None,) * len(extra)
        return replace(
            node,
            id=self._of_b[node.id],
            edges=(*edges, *extra),
            gradients=(*node.gradients, *more) if node.gradients else (),
            shares=(*node.shares, *more) if node.shares else (),
            saved=tuple(
                replace(each, source=None if each.source is None else self._of_b[each.source]) for each in node.saved
            ),
        )

    def _of_first(self, node: Node, scope_of: dict[int, int]) -> Node:
        edges = tuple(
            None if edge is None or edge.target not in self._of_a else Edge(self._of_a[edge.target], edge.input_nr)
            for edge in node.edges
        )
        storages = len(self._b.storages)
        return replace(
            node,
            id=self._of_a[node.id],
            edges=edges,
            call_site=None if node.call_site is None else node.call_site + len(self._b.call_sites),
            scope=None if node.scope is None else scope_of[node.scope],
            constants=tuple(each + len(self._b.constants) for each in node.constants),
            region=None,
            saved=tuple(
                replace(
                    each,
                    storage=None if each.storage is None else each.storage + storages,
                    source=None if each.source is None else self._of_a.get(each.source),
                )
                for each in node.saved
            ),
        )

    def _scopes(self, call_site_offset: int) -> tuple[tuple[ModuleScope, ...], dict[int, int]]:
        """The module calls of both, and the number of each call of the first run."""
        votes: defaultdict[int, Counter[int]] = defaultdict(Counter)
        for a, b in self._pairs.items():
            one, other = _chain(self._a, a), _chain(self._b, b)
            if len(one) == len(other):
                for x, y in zip(one, other, strict=True):
                    votes[x][y] += 1
            elif one and other and _class(self._a, one[-1]) == _class(self._b, other[-1]):
                votes[one[-1]][other[-1]] += 1
        found = {scope: each.most_common(1)[0][0] for scope, each in votes.items()}
        scopes = list(self._b.scopes)
        for index, scope in enumerate(self._a.scopes):
            if index not in found:
                found[index] = len(scopes)
                site = None if scope.call_site is None else scope.call_site + call_site_offset
                parent = None if scope.parent is None else found[scope.parent]
                scopes.append(replace(scope, parent=parent, call_site=site))
        return tuple(scopes), found

    # -- What differs --------------------------------------------------------------------------------------------------

    def _marks(self, graph: Graph) -> Marks:
        compared = self._compared
        marks = {self._of_a[a]: Mark("only_a") for a in self._added if not self._is_detail(compared.a, a)}
        counterparts = {*self._pairs.values(), *self._in_compiled_code[1]}
        marks |= {
            new: Mark("only_b")
            for b, new in self._of_b.items()
            if b not in counterparts and not self._is_detail(compared.b, b)
        }
        for a, b in self._pairs.items():
            one, other = self._a.nodes[a].outputs, self._b.nodes[b].outputs
            if self._a.nodes[a].is_leaf and one != other:
                marks[self._of_b[b]] = Mark("changed", "other shape, dtype or device")
        for change in compared.difference.changes:
            if change.is_cosmetic:
                continue
            for run, place in ((compared.a, change.a), (compared.b, change.b)):
                for node in () if place is None else self._nodes_of(run, place.index):
                    old = marks.get(node, Mark("changed"))
                    if change.what not in old.sentence:
                        marks[node] = Mark(old.state, " · ".join(filter(None, (old.sentence, change.what))))
        self._first_node = self._find_first(graph, marks)
        if self._first_node is not None and compared.difference.first is not None:
            old = marks.get(self._first_node, Mark("changed"))
            marks[self._first_node] = Mark(old.state, compared.difference.first.what, is_first=True)
        for run in (compared.a, compared.b):
            self._mark_details(run, graph, marks)
        shown = sorted(marks, key=lambda node: (not marks[node].is_first, node))[:MAX_SHOWN]
        return Marks(dict(sorted(marks.items())), frozenset(shown))

    def _mark_details(self, run: Run, graph: Graph, marks: dict[int, Mark]) -> None:
        for operation in run.operations:
            own = [node for node in self._nodes_of(run, operation.index) if node in marks]
            if len(own) > 1 and any(not _only_reshapes(graph.nodes[node]) for node in own):
                for node in own:
                    if _only_reshapes(graph.nodes[node]):
                        marks[node] = dataclass_replace(marks[node], is_detail=True)

    def _is_detail(self, run: Run, node: int) -> bool:
        """Whether it is a view or copy that an operation made which both runs have: torch's way to compute it."""
        alignment = self._compared.alignment
        matched = alignment.to_b if run is self._compared.a else alignment.to_a
        graph = self._a if run is self._compared.a else self._b
        return _only_reshapes(graph.nodes[node]) and run.operation_of_node.get(node) in matched

    def _nodes_of(self, run: Run, index: int) -> list[int]:
        """The nodes that an operation made, in the merged graph."""
        number = self._of_a if run is self._compared.a else self._of_b
        nodes = run.operations[index].nodes if index < len(run.operations) else ()
        return [number[node] for node in nodes if node in number]

    def _find_first(self, graph: Graph, marks: dict[int, Mark]) -> int | None:
        """The node of the first difference; of an operation without a node, the first one that its result reaches."""
        first = self._compared.difference.first
        for run, place in () if first is None else ((self._compared.b, first.b), (self._compared.a, first.a)):
            if place is None or place.index >= len(run.operations):
                continue
            reached = {place.index}
            for operation in run.operations[place.index :]:
                if operation.index == place.index or any(each.source in reached for each in operation.operands):
                    reached.add(operation.index)
                    if own := self._nodes_of(run, operation.index):
                        return _computing_node(graph, own, marks)
        return None if first is None else self._first_with_other_result(graph, marks)

    def _first_with_other_result(self, graph: Graph, marks: dict[int, Mark]) -> int | None:
        for index, result in sorted(self._compared.results.items()):
            if result.differs and (own := self._nodes_of(self._compared.a, index)):
                return _computing_node(graph, own, marks)
        return None

    def _notes(self, marks: Marks) -> Iterator[str]:
        difference = self._compared.difference
        if difference.first is not None and self._first_node is None:
            yield "the first difference is at no autograd node and reaches none, so it is not marked here"
        if difference.differing:
            yield (
                f"{counted(difference.differing, 'result')} differ in value; an operation counts as changed only where "
                "it was called otherwise, not where it takes other values"
            )
        cosmetic = sum(change.is_cosmetic for change in difference.changes)
        if cosmetic:
            yield f"{counted(cosmetic, 'change')} of names and order: not marked (gradviz diff lists them)"
        if any(self._in_compiled_code):
            yield "operations that are compiled code in one of the runs are drawn as B ran them"
        if self._cycles:
            links = counted(self._cycles, "link")
            yield f"{links} of A left out: operations run in another order in B, so the picture would have a cycle"
        if len(marks.of_nodes) > MAX_SHOWN:
            yield f"boxes are opened around the first {MAX_SHOWN} of {len(marks.of_nodes):,} nodes that differ"


# -- Pairs beyond those of operations ----------------------------------------------------------------------------------


def _all_pairs(compared: Compared, a: Graph, b: Graph) -> dict[int, int]:
    """The pairs of nodes; also those of nodes that belong to no operation, and of leaves of one name."""
    pairs = {**_leaves_of_operations(compared, a, b), **compared.nodes}
    taken = set(pairs.values())
    known = {"a": compared.a.operation_of_node, "b": compared.b.operation_of_node}
    waiting = list(pairs.items())

    def add(one: int, other: int) -> None:
        if one in pairs or other in taken or a.nodes[one].name != b.nodes[other].name:
            return
        pairs[one] = other
        taken.add(other)
        waiting.append((one, other))

    named = {name: node.id for node in b.nodes if node.is_leaf for name in node.names}
    for node in a.nodes:
        if node.is_leaf:
            for name in node.names:
                if name in named:
                    add(node.id, named[name])
    for root, other_root in zip(a.roots, b.roots, strict=False):
        if root.node not in known["a"] and other_root.node not in known["b"]:
            add(root.node, other_root.node)
    while waiting:
        one, other = waiting.pop()
        for edge, counterpart in zip(a.nodes[one].edges, b.nodes[other].edges, strict=False):
            if edge is None or counterpart is None:
                continue
            if edge.target not in known["a"] and counterpart.target not in known["b"]:
                add(edge.target, counterpart.target)
    for leaf, same in _alike_leaves(a, pairs.keys(), b, taken):
        add(leaf, same)
    return pairs


def _alike_leaves(a: Graph, known: Collection[int], b: Graph, taken: Collection[int]) -> list[tuple[int, int]]:
    """Pairs of leaves that are the only ones left of their kind and shape."""

    def by_facts(graph: Graph, apart_from: Collection[int]) -> dict[object, list[int]]:
        found: defaultdict[object, list[int]] = defaultdict(list)
        for leaf in graph.leaves:
            if leaf.id not in apart_from:
                found[leaf.kind, leaf.outputs].append(leaf.id)
        return found

    ones, others = by_facts(a, known), by_facts(b, taken)
    return [
        (leaves[0], others[facts][0])
        for facts, leaves in ones.items()
        if len(leaves) == 1 and len(others.get(facts, ())) == 1
    ]


def _leaves_of_operations(compared: Compared, a: Graph, b: Graph) -> dict[int, int]:
    """Leaves of one shape that operations take which belong together: also through views and copies."""
    pairs: dict[int, int] = {}
    for index, other in compared.alignment.to_b.items():
        taken = _leaves_taken(a, compared.a.operations[index].nodes)
        counterparts = _leaves_taken(b, compared.b.operations[other].nodes)
        for facts, leaves in taken.items():
            if len(leaves) == len(counterparts.get(facts, ())):
                for leaf, same in zip(leaves, counterparts[facts], strict=True):
                    pairs.setdefault(leaf, same)
    return pairs


def _leaves_taken(graph: Graph, nodes: Iterable[int]) -> dict[object, list[int]]:
    """By shape and dtype: casts run in another order."""
    found: defaultdict[object, list[int]] = defaultdict(list)
    taken = (edge.target for node in nodes for edge in graph.nodes[node].edges if edge is not None)
    for target in dict.fromkeys(taken):
        if graph.nodes[target].is_leaf:
            found[graph.nodes[target].outputs].append(target)
    return found


def _computing_node(graph: Graph, nodes: list[int], marks: Collection[int]) -> int:
    """The last node of an operation that is no view, if possible a marked one."""
    computing = [node for node in nodes if not _only_reshapes(graph.nodes[node])] or nodes
    return next((node for node in reversed(computing) if node in marks), computing[-1])


def _only_reshapes(node: Node) -> bool:
    return node.name in PLUMBING_NAMES or node.kind == "view"


def _inside_compiled_code(compared: Compared) -> tuple[set[int], set[int]]:
    """Nodes of each run that are compiled code in one of them and have no counterpart of their own."""
    alignment = compared.alignment
    found: tuple[set[int], set[int]] = (set(), set())
    for index, inside in alignment.compiled_a.items():
        found[0].update(node for i in (index, *inside) for node in compared.a.operations[i].nodes)
    for index, inside in alignment.compiled_b.items():
        found[1].update(node for i in (index, *inside) for node in compared.b.operations[i].nodes)
    for run, others, nodes in (
        (compared.b, alignment.compiled_a, found[1]),
        (compared.a, alignment.compiled_b, found[0]),
    ):
        if others and run.graph is not None:
            nodes.update(node.id for node in run.graph.nodes if node.region is not None or node.kind == "compiled")
            users = consumers(run.graph)
            nodes.update(leaf.id for leaf in run.graph.leaves if nodes.issuperset(users[leaf.id]))
    return found


def _chain(graph: Graph, node: int) -> list[int]:
    """The module calls around a node, the outermost first."""
    chain: list[int] = []
    scope = graph.nodes[node].scope
    while scope is not None:
        chain.append(scope)
        scope = graph.scopes[scope].parent
    return chain[::-1]


def _class(graph: Graph, scope: int) -> str:
    return graph.scopes[scope].class_name


# -- Source lines of both ----------------------------------------------------------------------------------------------


class _Sources:
    """A file that has other lines in the two runs is two files here: ``train.py (A)``."""

    def __init__(self, compared: Compared) -> None:
        self._compared = compared
        a, b = compared.a.capture.sources, compared.b.capture.sources
        self._differing = {
            file
            for file, lines in a.items()
            if file in b and any(b[file].get(line, text) != text for line, text in lines.items())
        }

    def name(self, file: str) -> str:
        return f"{file} (A)" if file in self._differing else file

    def call_sites(self, graph: Graph, offset: int) -> Iterator[CallSite]:
        for site in graph.call_sites:
            caller = None if site.caller is None else site.caller + offset
            yield replace(site, file=self.name(site.file), caller=caller)

    def capture(self) -> Capture:
        """The capture of the second run with the name and the lines of both."""
        a, b = self._compared.a.capture, self._compared.b.capture
        sources = {file: dict(lines) for file, lines in b.sources.items()}
        for file, lines in a.sources.items():
            sources[self.name(file)] = {**lines, **sources.get(self.name(file), {})}
        difference = self._compared.difference
        program = replace(b.program, name=f"A: {difference.a}, B: {difference.b}", arguments=())
        return replace(
            b, program=program, sources=sources, graphs=(), calls=None, error=None, disclosures=difference.disclosures
        )
