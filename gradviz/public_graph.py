"""The graph class of the Python API: the data of `gradviz.graph.model.Graph`, with methods that query it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradviz.errors import BadInput
from gradviz.graph import model
from gradviz.graph.model import Node
from gradviz.graph.query.find_by_name import find_named
from gradviz.graph.traversal import ancestor_nodes, descendant_nodes

if TYPE_CHECKING:
    import networkx


class Graph(model.Graph, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """All nodes that the roots reach through ``next_functions``.

    >>> import gradviz, torch
    >>> w = torch.ones(2, requires_grad=True)
    >>> graph = gradviz.inspect((w * w).sum()).graph
    >>> (total,) = graph.find("sum")
    >>> [node.name for node in graph.ancestors(total)]
    ['torch::autograd::AccumulateGrad', 'MulBackward0']
    >>> [node.name for node in graph.descendants(graph.find("w")[0])]
    ['MulBackward0', 'SumBackward0']
    """

    def ancestors(self, node: Node | int) -> tuple[Node, ...]:
        """All nodes that a node, or the node with that id, was computed from, in creation order, without it.

        Raises `BadInput` for a node that is not in this graph.
        """
        return ancestor_nodes(self, self._own_node(node))

    def descendants(self, node: Node | int) -> tuple[Node, ...]:
        """All nodes that were computed from a node, or the node with that id, in creation order, without it.

        Raises `BadInput` for a node that is not in this graph.
        """
        return descendant_nodes(self, self._own_node(node))

    def find(self, name: str) -> tuple[Node, ...]:
        """The nodes with this name, in creation order; empty if there are none.

        A name is a root, a variable or parameter (or the end of its name), a module's path, ``SoftmaxBackward0`` or
        ``Softmax``, an operation such as ``log_softmax``, a line ``train.py:41``, or ``node:12``: see
        `gradviz.graph.query.find_by_name`.
        """
        found = find_named(self, name)
        return () if found is None else tuple(self.nodes[node] for node in found.nodes)

    def to_networkx(self) -> networkx.MultiDiGraph[int]:
        """This graph for networkx, with node ids as keys; raises `MissingDependency` if networkx is not installed.

        Edges follow the data: ``networkx.ancestors`` returns what a node was computed from. The key of an edge is its
        position among the inputs of the node it leads to. Attributes are text and numbers; unknown ones are left out:
        ``label``, ``grad_fn``, ``kind``, ``shape``, ``dtype``, ``module``, ``file``, ``line``, ``gradient_norm`` and
        others. Inputs that need no gradient are no nodes; ``constants`` lists their names.
        """
        from gradviz.graph.query.networkx import networkx_graph

        return networkx_graph(self)

    def _own_node(self, node: Node | int) -> Node:
        if not isinstance(node, (int, Node)):
            kind = type(node).__name__
            raise BadInput(f"a {kind} is neither a node nor the id of a node", hint="graph.find(name) returns nodes")
        number = node if isinstance(node, int) else node.id
        if not 0 <= number < len(self.nodes):
            raise BadInput(f"there is no node {number}", hint=f"this graph has {len(self.nodes):,}, counted from 0")
        own = self.nodes[number]
        if not isinstance(node, int) and node != own:
            raise BadInput(f"node {number} ({node.name}) belongs to another graph", hint=f"here it is {own.name}")
        return own


def public_graph(graph: model.Graph) -> Graph:
    """The same data with the methods of `Graph`; its tables are shared, not copied."""
    return Graph(**{name: getattr(graph, name) for name in graph.__struct_fields__})
