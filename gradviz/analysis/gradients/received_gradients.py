"""Which leaves got a gradient at any time of the run, according to calls, graphs and the end of the program."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property

from gradviz.capture.capture import Capture
from gradviz.graph.call_log import CallLog
from gradviz.graph.gradients import TensorFigures
from gradviz.graph.model import Graph


class ReceivedGradients:
    """A set of tensors, by their numbers in the log: ``number in received``.

    What the steps of an optimizer have moved had a gradient, though perhaps one that backward of a custom function
    assigned unseen.
    """

    def __init__(self, capture: Capture, log: CallLog) -> None:
        self._capture = capture
        self._log = log

    def __contains__(self, number: int) -> bool:
        tensor = self._log.tensors[number]
        if not self._only_filled.isdisjoint(tensor.names):
            return False
        if tensor.is_moved or (tensor.end is not None and tensor.end.has_grad):
            return True
        return number in self._seen_by_calls or any(name in self._names_in_graphs for name in tensor.names)

    def figures(self, number: int) -> Sequence[tuple[int, TensorFigures]]:
        """What the recorded graphs with this leaf brought to it, each with the number of its backward; empty if it is
        unknown."""
        names = self._log.tensors[number].names
        return next((self._figures[name] for name in names if self._counts[name] < 2 and name in self._figures), ())

    @cached_property
    def _figures(self) -> dict[str, list[tuple[int, TensorFigures]]]:
        found: dict[str, list[tuple[int, TensorFigures]]] = defaultdict(list)
        for graph in self._capture.graphs:
            number = 0 if graph.backward is None else graph.backward.number
            for leaf in graph.leaves:
                for arrived in leaf.arrived[:1]:
                    if arrived is not None and not arrived.is_undefined:
                        for name in leaf.names:
                            found[name].append((number, arrived))
        return dict(found)

    @cached_property
    def _seen_by_calls(self) -> frozenset[int]:
        """Leaves whose ``.grad`` some call used, or for which ``autograd.grad`` returned a gradient."""
        given = {
            use.tensor
            for call in self._log.calls
            if call.kind == "backward" and call.outputs
            for use in call.asked
            if any(out.place.removeprefix("return") == use.place.removeprefix("input") for out in call.outputs)
        }
        return frozenset(given | {tensor.gradient_of for tensor in self._log.tensors if tensor.gradient_of is not None})

    @cached_property
    def _names_in_graphs(self) -> frozenset[str]:
        """Names of leaves to which a recorded graph brought a gradient.

        A name of several tensors proves nothing: modules that no variable holds are named by their class.
        """
        return frozenset(name for name in names_reached(self._capture.graphs) if self._counts[name] < 2)

    @cached_property
    def _only_filled(self) -> frozenset[str]:
        """Names of leaves whose gradient is zeros that compiled code makes: it sends those where no operation of it
        leads, and uncompiled code sends nothing.
        """
        filled: set[str] = set()
        reached: set[str] = set()
        has_regions = any(graph.regions for graph in self._capture.graphs)
        for graph in self._capture.graphs if has_regions else ():
            targets = {edge.target for node in graph.nodes for edge in node.edges if edge is not None}
            for leaf in graph.leaves:
                is_filled = (
                    graph.regions
                    and leaf.id not in targets
                    and any(each is not None and each.norm == 0 for each in leaf.arrived)
                )
                (filled if is_filled else reached).update(leaf.names)
        return frozenset(name for name in filled - reached if self._counts[name] < 2)

    @cached_property
    def _counts(self) -> Counter[str]:
        return Counter(name for tensor in self._log.tensors for name in tensor.names)


def names_reached(graphs: Iterable[Graph]) -> frozenset[str]:
    """Names of the leaves to which these graphs brought a gradient."""
    return frozenset(
        name
        for graph in graphs
        for leaf in graph.leaves
        if any(arrived is not None and not arrived.is_undefined for arrived in leaf.arrived)
        for name in leaf.names
    )
