"""Marks, in graphs of backward calls that raised, the node that did."""

from __future__ import annotations

from gradviz.graph.model import Graph
from gradviz.recording import failed_node
from gradviz.recording.backward_watch import BackwardRequest
from gradviz.recording.capture_builder import CaptureBuilder, Recorded
from gradviz.recording.roots import slots_in

_NOWHERE: frozenset[int] = frozenset()


class FailedBackwards:
    """Those of one recording."""

    def __init__(self, builder: CaptureBuilder) -> None:
        self._builder = builder
        self.has_failed = False
        """Whether there was one."""

    def freed_before(self, recorded: Recorded | None) -> frozenset[int]:
        """Places of the nodes that earlier calls freed; to be asked before the call runs."""
        try:
            return failed_node.freed_places(recorded.walk) if recorded is not None else _NOWHERE
        except Exception as defect:  # whatever it is, it must not reach the program
            self._builder.disclose_defect("what earlier calls freed could not be found out", defect)
            return _NOWHERE

    def note(
        self,
        recorded: Recorded | None,
        request: BackwardRequest,
        error: Exception,
        freed_before: frozenset[int] = _NOWHERE,
    ) -> None:
        """The call for which this was recorded ended in `error`."""
        self.has_failed = True
        if recorded is None:
            return
        graphs = self._builder.graphs
        try:
            place = failed_node.find(
                recorded.walk,
                error,
                inputs=slots_in(recorded.walk, request.inputs),
                freed_before=freed_before,
                retains_graph=request.retain_graph or request.create_graph,
                ran=_places_that_ran(graphs[recorded.place]),
            )
        except Exception as defect:  # the program's own error is the one to be seen
            self._builder.disclose_defect("the node that failed could not be found", defect)
            return
        if place is not None:
            graphs[recorded.place] = failed_node.marked(graphs[recorded.place], place)


def _places_that_ran(graph: Graph) -> frozenset[int] | None:
    """Nodes that backward ran to their end; None where nobody watched."""
    if all(root.gradient is None for root in graph.roots):
        return None
    return frozenset(node.id for node in graph.nodes if node.run is not None)
