"""Measures the gradients of one backward call, from before it to after it, and adds them to its graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from msgspec.structs import replace

from gradviz.collector import collector_paused
from gradviz.graph.gradients import BranchShare, NodeRun, TensorFigures
from gradviz.graph.model import Edge, Graph, Node
from gradviz.recording.backward.backward_watch import BackwardRequest
from gradviz.recording.backward.gradients.gradient_meter import GradientMeter
from gradviz.recording.backward.gradients.gradient_sums import (
    CHANGED_BY_HOOK,
    Slot,
    can_be_norm_of_sum,
    shares_of,
    shares_of_two,
)
from gradviz.recording.backward.gradients.gradient_watch import UNDEFINED, GradientWatch, RunTimes, measuring
from gradviz.recording.backward.gradients.leaf_gradients import LeafGradients
from gradviz.recording.run.recording_failures import Defects
from gradviz.recording.walk.graph_walker import Walk
from gradviz.recording.walk.leaves import leaf_variables
from gradviz.recording.walk.roots import slots_in

_UNDEFINED_FACTS = TensorFigures(is_undefined=True)
_NO_REDUCERS: Mapping[int, str] = {}


class GradientRecorder:
    """The measurements of one call: `start`, the call itself, `stop`, and then `added_to` its graph."""

    def __init__(
        self,
        walk: Walk,
        graph: Graph,
        request: BackwardRequest,
        meter: GradientMeter,
        reducers: Mapping[int, str] = _NO_REDUCERS,
    ) -> None:
        self._meter = meter
        self._reducers = reducers
        self._walk = walk
        self._graph = graph
        self._request = request
        self._root_slots = slots_in(walk, request.roots)
        self._summed = _summed_slots(walk, self._root_slots)
        hooked = ((node.id, output_nr) for node in graph.nodes if node.hooks for output_nr in range(len(node.outputs)))
        views = frozenset(node.id for node in graph.nodes if node.kind == "view")
        self._watch = GradientWatch(walk, meter, self._summed, hooked, views)
        self._leaves: LeafGradients | None = None
        self._started_from: list[int | None] = []
        self._leaf_values: dict[int, int | None] = {}
        self.clock_defects = Defects()

    @property
    def unknown_shares(self) -> Counter[str]:
        """How many sums of several gradients have no shares, by reason."""
        return self._watch.sums.unknown

    @property
    def defects(self) -> Defects:
        """Failures of gradviz while the program ran."""
        return self._watch.defects

    @property
    def times(self) -> RunTimes:
        """When the nodes ran."""
        flow = self._watch.flow
        order = {index: number for number, index in enumerate(flow.runs)}
        return RunTimes(flow.began, order, flow.ends, flow.over)

    @property
    def used_accelerators(self) -> bool:
        """Whether any gradient was not in the processor's memory."""
        return self._meter.used_accelerators

    @property
    def has_parts(self) -> bool:
        """Whether other ranks have parts of what was measured."""
        return self._meter.has_parts

    def start(self) -> None:
        """Read what exists before the call, and put hooks on all nodes."""
        with measuring():
            self._leaf_values = {
                index: self._meter.take_norm(variable)
                for index, variable in leaf_variables(self._walk)
                if not self._graph.nodes[index].values
            }
        if self._request.function == "backward":
            self._leaves = LeafGradients(self._walk, self._meter, self._reducers)
        self._started_from = [
            None if slot is None or gradient is None else self._watch.expect(slot, gradient)
            for slot, gradient in zip(self._root_slots, self._request.gradients, strict=False)
        ]
        self._watch.start(self._request.gradients)

    def stop(self, result: Any = None) -> None:
        """Remove the hooks, and read what the call left; `result` is what it returned, if it did."""
        self._watch.stop()
        if self._leaves is not None:
            self._leaves.after(self._watch.flow)
        elif result is not None:
            self._measure_result(result)
        if self._request.inputs:
            self._forget_what_was_not_wanted()

    def cancel(self) -> None:
        """Remove the hooks, in any state."""
        self._watch.stop()

    def _measure_result(self, result: Any) -> None:
        with measuring():
            for slot, gradient in zip(slots_in(self._walk, self._request.inputs), result, strict=False):
                if slot is not None:
                    self._watch.flow.arrived[slot] = UNDEFINED if gradient is None else self._meter.take(gradient)

    def _forget_what_was_not_wanted(self) -> None:
        """Compiled code and custom functions compute the gradients of all leaves; torch drops those of others."""
        wanted = set(slots_in(self._walk, self._request.inputs))
        for index, _ in leaf_variables(self._walk):
            if (index, 0) not in wanted:
                self._watch.flow.arrived.pop((index, 0), None)

    def added_to(self, graph: Graph) -> Graph:
        """The graph with all figures. Waits for accelerators."""
        with collector_paused(expected=len(graph.nodes)):
            with measuring():
                facts, products = self._meter.facts_and(self._watch.sums.products())
            self._watch.sums.in_memory(products)
            facts[UNDEFINED] = _UNDEFINED_FACTS
            return _Addition(self, facts, self._seconds_on_gpu()).to(graph)

    def _seconds_on_gpu(self) -> Mapping[int, float]:
        try:
            return self._watch.seconds_on_gpu()
        except Exception as defect:  # the figures do not depend on it
            self.clock_defects.note(defect)
            return {}


def _summed_slots(walk: Walk, roots: Iterable[Slot | None]) -> dict[Slot, int]:
    """How many gradients are summed where several are; the one that backward starts from counts."""
    # Counted as edges, without a new tuple for each: all of it runs in C.
    senders = Counter(chain.from_iterable(walk.edges))
    senders.update(Edge(*slot) for slot in roots if slot is not None)
    del senders[None]
    return {(edge.target, edge.input_nr): count for edge, count in senders.items() if edge is not None and count > 1}


class _Addition:
    """Adds figures to a graph."""

    def __init__(
        self,
        recorder: GradientRecorder,
        facts: Mapping[int, TensorFigures],
        seconds_on_gpu: Mapping[int, float],
    ) -> None:
        self._facts = facts
        self._seconds_on_gpu = seconds_on_gpu
        self._flow = recorder._watch.flow
        self._order = {index: order for order, index in enumerate(self._flow.runs)}
        self._started_from = dict(zip(recorder._root_slots, recorder._started_from, strict=False))
        self._leaf_values = recorder._leaf_values
        self._leaves = recorder._leaves.results(facts) if recorder._leaves is not None else {}
        self._shares = dict(self._all_shares(recorder))
        self._nodes_with_shares = {index for index, _ in self._shares}
        self._nodes_with_hooks = {index for index, _ in self._flow.before_hooks}

    def to(self, graph: Graph) -> Graph:
        """The graph with the figures."""
        roots = [
            replace(root, gradient=self._known(self._started_from.get((root.node, root.output_nr))))
            for root in graph.roots
        ]
        return replace(graph, nodes=tuple([self._node(node) for node in graph.nodes]), roots=tuple(roots))

    def _known(self, number: int | None) -> TensorFigures | None:
        return None if number is None else self._facts.get(number)

    def _node(self, node: Node) -> Node:
        index, flow, figures = node.id, self._flow, self._facts.get
        outputs = range(len(node.outputs) or 1)
        arrived = [flow.arrived.get((index, output_nr)) for output_nr in outputs]
        # Only what there is: one operation of a million has most of these.
        changes: dict[str, Any] = {}
        if index in self._leaf_values and (value := self._known(self._leaf_values[index])) is not None:
            changes["values"] = (value,)
        if index in self._leaves:
            changes["leaf_gradient"] = self._leaves[index]
        run = self._run(index)
        if run is None and arrived.count(None) == len(arrived):
            # Nothing arrived here; for a leaf that is noted, too.
            return replace(node, **changes) if changes else node
        sent = flow.sent.get(index, ())
        if index in self._nodes_with_shares:
            changes["shares"] = tuple([self._shares.get((index, edge_nr)) for edge_nr in range(len(sent))])
        if index in self._nodes_with_hooks:
            before_hooks = [self._known(flow.before_hooks.get((index, output_nr))) for output_nr in outputs]
            changes["before_hooks"] = tuple(before_hooks)
        # Numbers are never None, which stands for what did not arrive.
        received: Iterable[Any] = map(figures, arrived)  # type: ignore[arg-type]
        given: Iterable[Any] = map(figures, sent)
        if None in node.edges:
            given = (each if edge is not None else None for edge, each in zip(node.edges, given, strict=False))
        return replace(node, gradients=tuple(given), arrived=tuple(received), run=run, **changes)

    def _run(self, index: int) -> NodeRun | None:
        order = self._order.get(index)
        if order is None:
            return None
        thread, seconds = self._flow.runs[index]
        times = 1 + self._flow.repeats[index]
        on_gpu = self._seconds_on_gpu.get(index)
        return NodeRun(order, seconds if on_gpu is None else on_gpu, thread, times, on_gpu is not None)

    def _all_shares(self, recorder: GradientRecorder) -> Iterator[tuple[Slot, BranchShare]]:
        """The share of every edge whose gradient was summed with others, if it is known."""
        sums = recorder._watch.sums
        for slot, branches in sums.branches.items():
            # If a backward inside this backward ran the node again, not all branches went into what arrived.
            if slot in self._flow.arrived and slot[0] not in self._flow.repeats:
                yield from shares_of(branches, self._norm_of_sent)
        pairs = {slot for slot, count in recorder._summed.items() if count == 2 and slot not in sums.counts}
        for slot, pair in self._pairs_at(pairs, recorder._walk).items():
            whole = self._norm(self._flow.arrived.get(slot))
            norms = [norm for _, number in pair if (norm := self._norm(number)) is not None]
            if whole is None or not len(pair) == len(norms) == 2 or slot[0] in self._flow.repeats:
                continue
            if not can_be_norm_of_sum(norms, whole):
                sums.unknown[CHANGED_BY_HOOK] += 1
            else:
                shares = zip(pair, shares_of_two(norms, whole), strict=True)
                yield from ((sender, share) for (sender, _), share in shares if sender is not None)

    def _pairs_at(self, slots: set[Slot], walk: Walk) -> dict[Slot, list[tuple[Slot | None, int | None]]]:
        """Sender and number of the gradients that went into each of the sums."""
        pairs: dict[Slot, list[tuple[Slot | None, int | None]]] = {
            slot: [(None, number)] for slot, number in self._started_from.items() if slot in slots
        }
        for index, sent in self._flow.sent.items() if slots else ():
            for edge_nr, (edge, number) in enumerate(zip(walk.edges[index], sent, strict=False)):
                if edge is not None and (edge.target, edge.input_nr) in slots:
                    pairs.setdefault((edge.target, edge.input_nr), []).append(((index, edge_nr), number))
        return pairs

    def _norm_of_sent(self, sender: Slot) -> float | None:
        index, edge_nr = sender
        return self._norm(self._flow.sent[index][edge_nr])

    def _norm(self, number: int | None) -> float | None:
        """The norm of a gradient without NaN and Inf."""
        facts = self._known(number)
        if facts is None or facts.nans or facts.infs or facts.placements:
            return None
        return 0.0 if facts.is_undefined else facts.norm


def devices_of_started_work(graph: Graph) -> list[str]:
    """Accelerators with nodes of which only the time is known in which the processor started their work."""
    found = {
        figures.device
        for node in graph.nodes
        if node.run is not None and not node.run.is_gpu_time
        for figures in (*node.arrived, *node.gradients)
        if figures is not None and not figures.is_undefined
    }
    return sorted(found - {"cpu", "meta"})
