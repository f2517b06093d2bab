"""The findings about a graph, for the page: each finding once, with all the nodes that it belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gradviz.analysis.finding import SEVERITIES
from gradviz.graph.model import Graph
from gradviz.graph.node_findings import Verdict
from gradviz.rendering.page.document import PageFinding
from gradviz.rendering.page.items import cut


class PageFindings:
    """Numbers the findings of a graph, the most severe first."""

    def __init__(self, graph: Graph) -> None:
        found = sorted(_with_nodes(graph), key=lambda each: SEVERITIES.index(each[0].severity))
        self._nodes: dict[Verdict, dict[int, None]] = {}
        for verdict, nodes in found:
            self._nodes.setdefault(verdict, {}).update(dict.fromkeys(nodes))
        self._numbers = {finding: number for number, finding in enumerate(self._nodes)}

    def numbers_of(self, findings: Iterable[Verdict]) -> tuple[int, ...]:
        """The indices of some findings in `all`, the most severe first."""
        return tuple(sorted({self._numbers[_of_any_node(finding)] for finding in findings}))

    def all(self) -> tuple[PageFinding, ...]:
        """The findings for the page."""
        return tuple(
            PageFinding(
                finding.severity,
                finding.code,
                finding.cause,
                cut(finding.message),
                cut(finding.why),
                cut(finding.fix),
                tuple(nodes),
            )
            for finding, nodes in self._nodes.items()
        )


def _with_nodes(graph: Graph) -> Iterator[tuple[Verdict, Iterable[int]]]:
    yield from ((_of_any_node(finding), [finding.node]) for finding in graph.findings)
    yield from ((edge.finding, edge.nodes) for edge in graph.cut_edges)
    yield from ((finding, ()) for finding in graph.unplaced_findings)


def _of_any_node(found: Verdict) -> Verdict:
    """The finding without its nodes, so that the same finding about several nodes is equal."""
    return Verdict(found.code, found.cause, found.severity, found.message, found.why, found.fix)
