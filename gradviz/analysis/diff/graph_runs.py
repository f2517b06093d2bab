"""Reads a run from the graph of a backward alone, where no calls were logged."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.diff.runs import Operand, Operation, Run
from gradviz.capture.capture import Capture
from gradviz.graph.gradients import at_index
from gradviz.graph.model import Attribute, Graph, Node
from gradviz.graph.query.operation_names import node_word


def run_of_graph(capture: Capture, graph: Graph | None) -> Run:
    """The run of one graph: its operations are the nodes, whether calls were logged or not."""
    if graph is None:
        return Run(capture, None, [], (), (), False)
    operations: list[Operation] = []
    index_of: dict[int, int] = {}
    for node in graph.nodes:
        if not node.is_leaf:
            index_of[node.id] = len(operations)
            operations.append(_of_node(node, graph, index_of, len(operations)))
    return Run(capture, graph, operations, graph.scopes, graph.call_sites, False, index_of)


def _of_node(node: Node, graph: Graph, index_of: dict[int, int], index: int) -> Operation:
    arguments: dict[str, Attribute] = dict(node.attributes)
    return Operation(
        index,
        node.name,
        node_word(node, shares_its_call=True),
        arguments,
        tuple(_operands_of_node(node, graph, index_of)),
        tuple(Operand(f"return[{nr}]", facts, at_index(node.values, nr)) for nr, facts in enumerate(node.outputs)),
        node.call_site,
        node.scope,
        (node.id,),
        kind=node.kind,
        hooks=node.hooks,
    )


def _operands_of_node(node: Node, graph: Graph, index_of: dict[int, int]) -> Iterator[Operand]:
    for position, edge in enumerate(node.edges):
        if edge is None:
            continue
        source = graph.nodes[edge.target]
        yield Operand(
            str(position),
            source.output(edge.input_nr),
            at_index(source.values, edge.input_nr),
            index_of.get(source.id),
            (source.names[0] if source.names else source.kind) if source.is_leaf else None,
            source.kind == "parameter",
        )
    for number in node.constants:
        constant = graph.constants[number]
        name = constant.names[0] if constant.names else constant.kind
        yield Operand(f"constant {name}", constant.tensor, constant.value, None, name, constant.kind == "parameter")
