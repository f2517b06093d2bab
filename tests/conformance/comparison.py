"""Compares a recorded graph with what torch said of the same computation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

from gradviz.graph.model import Graph, Node
from gradviz.graph.saved_tensors import SavedTensor
from tests.conformance.figures import wrong_figures
from tests.conformance.known_graph import KnownGraph, KnownNode
from tests.conformance.runs import Run

_REPEATED_IN_SHAPES = ("sym_", "scalar_type", "options", "_sizes", "_numel")
"""Attributes that gradviz leaves out on purpose: they say again what shape and dtype the inputs have."""


def differences(graph: Graph, known: KnownGraph, run: Run) -> Iterator[str]:
    """What is wrong with the graph, a line each; none if it is right."""
    if len(graph.roots) != len(known.roots):
        yield f"{len(graph.roots)} roots instead of {len(known.roots)}"
        return
    same = _Correspondence(graph, known)
    yield from same.problems
    if same.problems:
        return
    for number, place in same.place_of.items():
        node, truth = graph.nodes[place], known.nodes[number]
        name = f"node {place} ({node.name})"
        yield from (f"{name}: {problem}" for problem in _wrong_saved(node, truth, graph))
        yield from (f"{name}: {problem}" for problem in _wrong_attributes(node, truth))
        yield from (f"{name}: {problem}" for problem in _wrong_flow(node, truth))
        yield from (f"{name}: {problem}" for problem in _wrong_leaf(node, truth, run))
    yield from _wrong_storages(graph, known, same.place_of)
    if run.error is not None:
        yield from _wrong_failure(graph, known, same.place_of)


class _Correspondence:
    """Which recorded node is which node of the naive walk: followed from the roots along equal edges."""

    def __init__(self, graph: Graph, known: KnownGraph) -> None:
        self.place_of: dict[int, int] = {}
        self.problems: list[str] = []
        self._number_of: dict[int, int] = {}
        self._waiting: list[tuple[int, int]] = []
        for root, (number, output_nr) in zip(graph.roots, known.roots, strict=True):
            if root.output_nr != output_nr:
                self.problems.append(f"a root is output {root.output_nr}, not {output_nr}")
            self._pair(number, root.node)
        while self._waiting:
            number, place = self._waiting.pop()
            self._compare(known.nodes[number], graph.nodes[place])
        if len(self.place_of) != len(graph.nodes) or len(self.place_of) != len(known.nodes):
            counts = f"{len(graph.nodes)} nodes recorded, {len(known.nodes)} walked, {len(self.place_of)} in both"
            self.problems.append(counts)

    def _pair(self, number: int, place: int) -> None:
        if self.place_of.get(number, place) != place or self._number_of.get(place, number) != number:
            self.problems.append(f"recorded node {place} stands for two nodes, or two for one")
        elif number not in self.place_of:
            self.place_of[number] = place
            self._number_of[place] = number
            self._waiting.append((number, place))

    def _compare(self, truth: KnownNode, node: Node) -> None:
        edges = [None if edge is None else edge.input_nr for edge in node.edges]
        expected = [None if edge is None else edge[1] for edge in truth.edges]
        if (truth.name, expected) != (node.name, edges):
            self.problems.append(f"{node.name} with inputs {edges} instead of {truth.name} with {expected}")
            return
        for known_edge, edge in zip(truth.edges, node.edges, strict=True):
            if known_edge is not None and edge is not None:
                self._pair(known_edge[0], edge.target)


def _wrong_saved(node: Node, truth: KnownNode, graph: Graph) -> Iterator[str]:
    recorded = [saved for saved in node.saved if saved.kept_in == "slot"]
    # Of sparse, nested and other tensors the parts are listed: ``self.values``.
    plain = [saved for saved in recorded if saved.slot.partition(".")[0] not in truth.odd_slots]
    odd = {saved.slot.partition(".")[0] for saved in recorded if saved not in plain}
    found = Counter(_facts_of(saved, graph) for saved in plain)
    expected = Counter(
        (slot.name, (slot.shape, slot.dtype), slot.bytes, slot.storage_bytes, "held") for slot in truth.slots
    )
    if found != expected:
        missing, surplus = sorted((expected - found).elements()), sorted((found - expected).elements())
        yield f"saved {missing}, and the recording has {surplus}"
    if odd != truth.odd_slots:
        yield f"saved {sorted(truth.odd_slots)}, and the recording has {sorted(odd)}"


def _facts_of(saved: SavedTensor, graph: Graph) -> tuple[Any, ...]:
    tensor = (saved.tensor.shape, saved.tensor.dtype) if saved.tensor is not None else ((), "?")
    storage = graph.storages[saved.storage].bytes if saved.storage is not None else -1
    return saved.slot, tensor, saved.bytes, storage, saved.state


def _wrong_storages(graph: Graph, known: KnownGraph, place_of: dict[int, int]) -> Iterator[str]:
    """Slots share a storage in the recording exactly where they share memory."""
    pairs = set()
    for number, place in place_of.items():
        recorded = {saved.slot: saved.storage for saved in graph.nodes[place].saved if saved.kept_in == "slot"}
        pairs |= {(slot.storage, recorded.get(slot.name)) for slot in known.nodes[number].slots}
    if len(pairs) != len({one for one, _ in pairs}) or len(pairs) != len({other for _, other in pairs}):
        yield f"storages are told apart wrongly: {sorted(pairs, key=str)}"


def _wrong_failure(graph: Graph, known: KnownGraph, place_of: dict[int, int]) -> Iterator[str]:
    """The node that raised is the one that was begun and did not end."""
    begun = [place_of[number] for number, node in enumerate(known.nodes) if node.received and node.sent is None]
    told = graph.backward.failed_node if graph.backward is not None else None
    if begun and told not in begun:
        yield f"backward failed in node {begun}, not in {told}"


def _wrong_attributes(node: Node, truth: KnownNode) -> Iterator[str]:
    for name, value in truth.attributes.items():
        if not any(part in f"_saved_{name}" for part in _REPEATED_IN_SHAPES):
            if name not in node.attributes:
                yield f"attribute {name} is missing"
            elif not _is_same_value(node.attributes[name], value):
                yield f"attribute {name} is {value!r}, not {node.attributes[name]!r}"
    unknown = set(node.attributes) - set(truth.attributes)
    if unknown:
        yield f"attributes {sorted(unknown)} are none of the node's"


def _is_same_value(recorded: Any, value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        same_length = isinstance(recorded, list) and len(recorded) == len(value)
        return same_length and all(map(_is_same_value, recorded, value))
    if isinstance(value, float):
        value = value if math.isfinite(value) else str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        # torch hands signed 64-bit numbers out as unsigned ones.
        return isinstance(recorded, int) and (recorded - value) % 2**64 == 0
    if isinstance(value, (float, bool, str)) or value is None:
        return bool(recorded == value)
    return isinstance(recorded, str) and recorded != ""


def _wrong_flow(node: Node, truth: KnownNode) -> Iterator[str]:
    if (node.run is not None) != (truth.sent is not None):
        yield f"{'ran' if truth.sent is not None else 'did not run'}, which the recording denies"
        return
    if truth.sent is None:
        return
    for output_nr, gradient in enumerate(truth.received or ()):
        figures = node.arrived[output_nr] if output_nr < len(node.arrived) else None
        yield from (f"what arrived at output {output_nr} {problem}" for problem in wrong_figures(gradient, figures))
    for edge_nr, gradient in enumerate(truth.sent):
        if node.edges[edge_nr] is not None:
            figures = node.gradients[edge_nr] if edge_nr < len(node.gradients) else None
            yield from (f"what was sent along edge {edge_nr} {problem}" for problem in wrong_figures(gradient, figures))


def _wrong_leaf(node: Node, truth: KnownNode, run: Run) -> Iterator[str]:
    """The gradient at a leaf is that of the plain run."""
    if not node.is_leaf or truth.leaf is None or run.error is not None:
        return
    gradient = run.gradients[truth.leaf]
    told = node.leaf_gradient
    if told is None or (told.outcome == "fresh") != (gradient is not None):
        yield f"its gradient is said to be {told.outcome if told is not None else None}"
    elif gradient is not None:
        yield from (f"the leaf's gradient {problem}" for problem in wrong_figures(gradient, told.after))
        yield from (f"what arrived at the leaf {problem}" for problem in wrong_figures(gradient, node.arrived[0]))
