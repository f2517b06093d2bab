"""Records a function or a script in this process, and finds nodes and lines in the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent
from typing import Any

from gradviz.capture.capture import Capture
from gradviz.graph.invariants import check_graph
from gradviz.graph.model import CallSite, Graph, Node
from gradviz.recording import script_runner
from gradviz.recording.recorder import Recorder
from gradviz.recording.run.program import find_script
from gradviz.recording.run.recording_plan import RecordingPlan

EVERY_BACKWARD = RecordingPlan(backward=None, keep_going=True)
EVERY_CALL = replace(EVERY_BACKWARD, calls=True, for_pictures=False)
"""What ``gradviz check`` records. It reads no totals of memory, which takes the longer the more a process has freed."""


@dataclass(frozen=True)
class Recording:
    """What was recorded while a function ran, and what it returned."""

    capture: Capture
    value: Any = None
    error: BaseException | None = None

    @property
    def graph(self) -> Graph:
        """The only graph."""
        (graph,) = self.capture.graphs
        return graph


@contextmanager
def recorder(plan: RecordingPlan = EVERY_BACKWARD) -> Iterator[Recorder]:
    """A running recorder, which is stopped in any case."""
    started = Recorder(plan)
    started.start()
    try:
        yield started
    finally:
        started.stop()


def record(function: Callable[[], Any], plan: RecordingPlan = EVERY_BACKWARD) -> Recording:
    """Record while `function` runs; every graph is checked, and a recorder that failed inside fails the test."""
    with recorder(plan) as running:
        value = function()
    return Recording(checked(running.capture("<python>", (), "finished", None)), value)


def record_failing(function: Callable[[], Any], error_type: type[BaseException]) -> Recording:
    """The same for a function that raises `error_type`."""
    with recorder() as running:
        try:
            function()
        except error_type as error:
            caught = error
        else:
            raise AssertionError(f"{error_type.__name__} was not raised")
    return Recording(checked(running.capture("<python>", (), "finished", None)), error=caught)


def recorded_script(folder: Path, source: str, plan: RecordingPlan = EVERY_BACKWARD) -> Capture:
    """The capture of a script with this source, run as ``gradviz`` runs it."""
    script = folder / "train.py"
    script.write_text(dedent(source), encoding="utf-8")
    return checked(script_runner.run(find_script(str(script)), (), plan).capture)


def checked(capture: Capture) -> Capture:
    """The capture, after what must hold for each."""
    failures = [sentence for sentence in capture.disclosures if "defect of gradviz" in sentence]
    assert not failures, failures
    for graph in capture.graphs:
        check_graph(graph)
        for node in graph.nodes:
            assert all(edge.target < node.id for edge in node.edges if edge is not None), "not in creation order"
    return capture


def node_named(graph: Graph, name: str) -> Node:
    """The only node of this name."""
    found = nodes_named(graph, name)
    assert len(found) == 1, f"{len(found)} nodes are called {name}, of {names_of_nodes(graph)}"
    return found[0]


def nodes_named(graph: Graph, name: str) -> list[Node]:
    """All nodes of this name, in creation order."""
    return [node for node in graph.nodes if node.name == name]


def names_of_nodes(graph: Graph) -> list[str]:
    """Names of all nodes, in creation order."""
    return [node.name for node in graph.nodes]


def leaf_named(graph: Graph, name: str) -> Node:
    """The leaf with this name."""
    (leaf,) = [node for node in graph.nodes if node.is_leaf and name in node.names]
    return leaf


def line_of(capture: Capture, graph: Graph, node: Node) -> str:
    """The text of the line that made a node."""
    site = call_site(graph, node)
    return capture.sources[site.file][site.line].strip()


def call_site(graph: Graph, node: Node) -> CallSite:
    """The line that made a node."""
    assert node.call_site is not None, f"{node.name} has no line"
    return graph.call_sites[node.call_site]


def stack_of(graph: Graph, node: Node) -> list[CallSite]:
    """The line that made a node and those above it, innermost first."""
    stack = [call_site(graph, node)]
    while (caller := stack[-1].caller) is not None:
        stack.append(graph.call_sites[caller])
    return stack


def scope_of(graph: Graph, node: Node) -> str | None:
    """Dotted path of the module call in which a node was made."""
    return None if node.scope is None else graph.scopes[node.scope].path


def constants_of(graph: Graph, node: Node) -> list[tuple[str, tuple[str, ...]]]:
    """Kind and names of the inputs of a node that need no gradient."""
    return [(graph.constants[place].kind, graph.constants[place].names) for place in node.constants]
