"""GraphML, written by networkx: every node and edge with plain attributes, for networkx, Gephi, yEd and Cytoscape.

Edges follow the data. Inputs that need no gradient are not nodes: the attribute ``constants`` lists their names.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO

from gradviz.errors import MissingDependency
from gradviz.graph.query.networkx import networkx_graph
from gradviz.rendering.formats import Subject
from gradviz.safe_text import one_line, without_build_commands


@dataclass(frozen=True)
class GraphmlRenderer:
    """Writes the whole graph. Folding only affects pictures, so it changes nothing here."""

    def __post_init__(self) -> None:
        if find_spec("networkx") is None:
            raise MissingDependency("GraphML needs the package networkx", hint="pip install networkx")

    def render(self, subject: Subject) -> bytes:
        import networkx

        graph = networkx_graph(subject.graph)
        graph.graph["program"] = subject.capture.program.name
        _make_writable(graph.graph)
        remarks = [*subject.selection_notes, *subject.capture.disclosures]
        if remarks:
            graph.graph["notes"] = without_build_commands("\n".join(map(one_line, remarks)))
        for _, attributes in graph.nodes(data=True):
            _make_writable(attributes)
        for _, target, position, attributes in graph.edges(keys=True, data=True):
            # Ids that are unique in the file: some programs treat two edges with one id as a repetition.
            attributes["id"] = f"{target}.{position}"
            _make_writable(attributes)
        file = BytesIO()
        # `write_graphml` is not used: it writes other bytes if lxml is installed.
        networkx.write_graphml_xml(graph, file, edge_id_from_attribute="id")
        return file.getvalue()


def _make_writable(attributes: dict[str, object]) -> None:
    """Replaces what XML does not allow, and what a build that logs the file would read as a command."""
    for key, value in attributes.items():
        if isinstance(value, str):
            attributes[key] = without_build_commands(one_line(value))
