"""Attaches findings to the nodes that they belong to, so that renderers can mark these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from gradviz.analysis.finding import CutSeen, Finding, Location, Severity
from gradviz.capture.capture import Capture
from gradviz.graph.model import Graph
from gradviz.graph.node_findings import CutEdge, NodeFinding, Verdict
from gradviz.graph.query.own_line import line_words_of, own_lines
from gradviz.graph.traversal import ancestors


def with_findings(capture: Capture, findings: Iterable[Finding]) -> Capture:
    """The capture with findings on its graphs, and with cut edges for findings about a cut.

    A finding without nodes is attached to the nodes of its operation on its line, or on the line of its symptom. A
    finding without an operation either belongs to no node; each graph lists these separately.
    """
    found = list(findings)
    graphs = [_marked(number, graph, found) for number, graph in enumerate(capture.graphs)]
    placed = {_verdict(each) for graph in graphs for each in graph.all_findings}
    unplaced = tuple(Verdict(*verdict) for verdict in dict.fromkeys(map(_verdict, found)) if verdict not in placed)
    return replace(capture, graphs=tuple(replace(graph, unplaced_findings=unplaced) for graph in graphs))


def finding_notes(findings: Iterable[Finding]) -> tuple[str, ...]:
    """One sentence for each alarm; some belong to no node, such as a parameter that is in no graph."""
    return tuple(
        f"✗ {finding.code} {finding.cause}{_line(finding.location)}: {finding.message}"
        for finding in findings
        if finding.is_alarm
    )


def _line(location: Location | None) -> str:
    return "" if location is None else f" ({line_words_of(location.file, location.line)})"


def first_graph_with_alarm(capture: Capture) -> int:
    """The index of the first graph with an alarm on it; 0 if there is none."""
    graphs = enumerate(capture.graphs)
    return next((index for index, graph in graphs if any(each.is_alarm for each in graph.all_findings)), 0)


def _marked(number: int, graph: Graph, findings: Sequence[Finding]) -> Graph:
    lines = own_lines(graph)
    marks: list[NodeFinding] = []
    cut_edges: list[CutEdge] = []
    for finding in findings:
        if finding.cut is not None and (finding.cut.inputs or finding.cut.root is not None):
            cut_edges += _cut_edges(number, graph, finding, finding.cut)
            continue
        nodes = [at.node for at in finding.nodes if at.graph == number]
        if not finding.nodes and finding.op is not None:
            nodes = list(_of_operation(graph, lines, finding.op, finding.location, finding.symptom_location))
        marks += [_mark(finding, node) for node in dict.fromkeys(nodes) if node < len(graph.nodes)]
    return replace(graph, findings=tuple(marks), cut_edges=tuple(cut_edges))


def _mark(finding: Finding, node: int) -> NodeFinding:
    return NodeFinding(*_verdict(finding), node=node)


def _verdict(finding: Finding | Verdict) -> tuple[str, str, Severity, str, str, str]:
    return finding.code, finding.cause, finding.severity, finding.message, finding.why, finding.fix


def _cut_edges(number: int, graph: Graph, finding: Finding, cut: CutSeen) -> Iterator[CutEdge]:
    location = finding.location or Location("", 0)
    edge = CutEdge(Verdict(*_verdict(finding)), cut.call, finding.tensors, location.file, location.line)
    for dead in cut.inputs:
        if dead.at.graph == number:
            own = replace(edge, node=dead.at.node, constant=dead.constant, scope=dead.scope)
            yield replace(own, tensors=dead.tensors or finding.tensors)
    root = cut.root
    if root is not None and root.graph == number:
        behind = {name for node in ancestors(graph, root.sources) for name in graph.nodes[node].names}
        unseen = tuple(name for name in finding.tensors if name not in behind)
        at_root = replace(edge, refused=root.refused, sources=root.sources, path=root.path, scope=root.scope)
        yield replace(at_root, tensors=unseen)


def _of_operation(graph: Graph, lines: Sequence[int], name: str, *locations: Location | None) -> Iterator[int]:
    for location in locations:
        found = [
            node.id
            for node in graph.nodes
            if location is not None
            and node.name == name
            and node.call_site is not None
            and _is_at(graph, lines[node.call_site], location)
        ]
        if found:
            yield from found
            return


def _is_at(graph: Graph, site: int, location: Location) -> bool:
    return (graph.call_sites[site].file, graph.call_sites[site].line) == (location.file, location.line)
