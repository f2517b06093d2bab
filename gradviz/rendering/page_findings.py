"""What a check found about a graph, for the page: each finding once, with all the nodes that it is about."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from gradviz.analysis.finding import SEVERITIES
from gradviz.graph.model import Graph
from gradviz.graph.node_findings import NodeFinding
from gradviz.rendering.page_document import PageFinding
from gradviz.rendering.page_items import cut


class PageFindings:
    """Numbers the findings of a graph, the gravest first."""

    def __init__(self, graph: Graph) -> None:
        found = sorted(graph.all_findings, key=lambda finding: SEVERITIES.index(finding.severity))
        self._nodes: dict[NodeFinding, dict[int, None]] = {}
        for finding in found:
            self._nodes.setdefault(_of_any_node(finding), {})[finding.node] = None
        self._numbers = {finding: number for number, finding in enumerate(self._nodes)}

    def numbers_of(self, findings: Iterable[NodeFinding]) -> tuple[int, ...]:
        """The places of some of them in `all`, the gravest first."""
        return tuple(sorted({self._numbers[_of_any_node(finding)] for finding in findings}))

    def all(self) -> tuple[PageFinding, ...]:
        """For the page."""
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


def _of_any_node(finding: NodeFinding) -> NodeFinding:
    """The same for what was found about several nodes."""
    return replace(finding, node=-1)
