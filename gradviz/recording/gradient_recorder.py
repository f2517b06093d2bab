"""Measures the gradients of one backward call, from before it to after it, and adds them to its graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from gradviz.graph.gradients import NodeRun, TensorFigures
from gradviz.graph.model import Graph, Node
from gradviz.recording.backward_watch import BackwardRequest
from gradviz.recording.gradient_meter import GradientMeter
from gradviz.recording.gradients import UNDEFINED, GradientWatch, Slot, measuring
from gradviz.recording.graph_walker import Walk, without_collector
from gradviz.recording.leaf_gradients import LeafGradients, leaf_variables
from gradviz.recording.roots import root_of

_UNDEFINED_FACTS = TensorFigures(is_undefined=True)


class GradientRecorder:
    """What is measured of one call: `start`, the call itself, `stop`, and then `added_to` its graph."""

    def __init__(self, walk: Walk, graph: Graph, request: BackwardRequest, meter: GradientMeter) -> None:
        self._meter = meter
        self._walk = walk
        self._request = request
        self._root_slots = [_slot_of(walk, root) for root in request.roots]
        self._senders = Counter(
            (edge.target, edge.input_nr) for edges in walk.edges for edge in edges if edge is not None
        )
        self._senders.update(slot for slot in self._root_slots if slot is not None)
        self._watch = GradientWatch(walk, meter, self._always_measured(graph))
        self._leaves: LeafGradients | None = None
        self._started_from: list[int | None] = []
        self._leaf_values: dict[int, int | None] = {}

    @property
    def defects(self) -> Counter[str]:
        """Failures of ours while the program ran, with how often they came."""
        return self._watch.defects

    def start(self) -> None:
        """Look at what is there before the call, and put hooks on all nodes."""
        with measuring():
            self._leaf_values = {
                place: self._meter.take_norm(variable) for place, variable in leaf_variables(self._walk)
            }
        if self._request.function == "backward":
            self._leaves = LeafGradients(self._walk, self._meter)
        self._started_from = [
            None if slot is None or gradient is None else self._watch.expect(slot, gradient)
            for slot, gradient in zip(self._root_slots, self._request.gradients, strict=False)
        ]
        self._watch.start()

    def stop(self, result: Any = None) -> None:
        """Take the hooks off, and look at what the call left; `result` is what it returned, if it did."""
        self._watch.stop()
        if self._leaves is not None:
            self._leaves.after(self._watch.flow)
        elif result is not None:
            self._measure_result(result)

    def cancel(self) -> None:
        """Take the hooks off, whatever state they are in."""
        self._watch.stop()

    def _measure_result(self, result: Any) -> None:
        with measuring():
            for value, gradient in zip(self._request.inputs, result, strict=False):
                slot = _slot_of(self._walk, value)
                if slot is not None:
                    self._watch.flow.arrived[slot] = UNDEFINED if gradient is None else self._meter.take(gradient)

    def added_to(self, graph: Graph) -> Graph:
        """The graph with all figures. Waits for accelerators."""
        with measuring():
            facts = self._meter.facts()
        facts[UNDEFINED] = _UNDEFINED_FACTS
        return _Addition(self, graph, facts).to(graph)

    def _always_measured(self, graph: Graph) -> Iterator[Slot]:
        """Where several gradients are summed, and where a hook may write into the tensor that it gets."""
        yield from (slot for slot, count in self._senders.items() if count > 1)
        yield from (
            (node.id, output_nr) for node in graph.nodes if node.hooks for output_nr in range(len(node.outputs))
        )


def _slot_of(walk: Walk, value: Any) -> Slot | None:
    root = root_of(value, None)
    place = walk.position.get(root.grad_fn) if root is not None else None
    return None if root is None or place is None else (place, root.output_nr)


class _Addition:
    """Figures on their way into a graph."""

    def __init__(self, recorder: GradientRecorder, graph: Graph, facts: Mapping[int, TensorFigures]) -> None:
        self._facts = facts
        self._flow = recorder._watch.flow
        self._order = {place: order for order, place in enumerate(self._flow.runs)}
        self._started_from = dict(zip(recorder._root_slots, recorder._started_from, strict=False))
        self._leaf_values = recorder._leaf_values
        self._leaves = recorder._leaves.results(facts) if recorder._leaves is not None else {}
        # What arrives where a hook is may be another sum than that of what was sent.
        joins = {slot for slot, count in recorder._senders.items() if count == 2 and not graph.nodes[slot[0]].hooks}
        self._overlaps = dict(self._overlaps_at(recorder._walk, joins))

    def to(self, graph: Graph) -> Graph:
        """The graph with them."""
        roots = [
            replace(root, gradient=self._known(self._started_from.get((root.node, root.output_nr))))
            for root in graph.roots
        ]
        with without_collector():
            return replace(graph, nodes=tuple([self._node(node) for node in graph.nodes]), roots=tuple(roots))

    def _known(self, number: int | None) -> TensorFigures | None:
        return None if number is None else self._facts.get(number)

    def _node(self, node: Node) -> Node:
        place = node.id
        arrived = [self._flow.arrived.get((place, output_nr)) for output_nr in range(max(1, len(node.outputs)))]
        run = self._run(place)
        value = self._known(self._leaf_values.get(place))
        values = (value,) if value is not None else ()
        if run is None and arrived.count(None) == len(arrived):
            # Nothing came here; of a leaf that, too, is told.
            leaf = self._leaves.get(place)
            return replace(node, values=values, leaf_gradient=leaf) if leaf or values else node
        sent = self._flow.sent.get(place, ())
        edges = zip(node.edges, sent, strict=False)
        overlaps = tuple([self._overlaps.get((place, slot)) for slot in range(len(sent))])
        return replace(
            node,
            gradients=tuple([None if edge is None else self._known(number) for edge, number in edges]),
            overlaps=overlaps if any(overlap is not None for overlap in overlaps) else (),
            arrived=tuple([self._known(number) for number in arrived]),
            values=values,
            run=run,
            leaf_gradient=self._leaves.get(place),
        )

    def _run(self, place: int) -> NodeRun | None:
        order = self._order.get(place)
        if order is None:
            return None
        thread, seconds = self._flow.runs[place]
        return NodeRun(order, seconds, thread, 1 + self._flow.repeats[place])

    def _overlaps_at(self, walk: Walk, joins: set[Slot]) -> Iterator[tuple[Slot, float]]:
        """For each edge into a sum of two: its gradient's inner product with the sum.

        It follows from the norms of the two and of the sum, so that no gradient need be kept until both are there.
        """
        branches: dict[Slot, list[tuple[Slot | None, int | None]]] = {
            slot: [(None, number)] for slot, number in self._started_from.items() if slot in joins
        }
        for place, sent in self._flow.sent.items():
            for edge_nr, (edge, number) in enumerate(zip(walk.edges[place], sent, strict=False)):
                if edge is not None and (edge.target, edge.input_nr) in joins:
                    branches.setdefault((edge.target, edge.input_nr), []).append(((place, edge_nr), number))
        for slot, pair in branches.items():
            whole = self._norm(self._flow.arrived.get(slot))
            own, other = (self._norm(number) for _, number in pair) if len(pair) == 2 else (None, None)
            if whole is None or own is None or other is None:
                continue
            for (edge_of, _), difference in zip(pair, (own**2 - other**2, other**2 - own**2), strict=True):
                if edge_of is not None:
                    yield edge_of, (whole**2 + difference) / 2

    def _norm(self, number: int | None) -> float | None:
        """The norm of a gradient without NaN and Inf."""
        facts = self._known(number)
        if facts is None or facts.nans or facts.infs:
            return None
        return 0.0 if facts.is_undefined else facts.norm
