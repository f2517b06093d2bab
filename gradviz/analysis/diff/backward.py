"""Where two backward passes begin to differ: a node that sends other gradients although it got the same."""

from __future__ import annotations

from gradviz.analysis.diff.alignment import Alignment
from gradviz.analysis.diff.closeness import Apart, Tolerance, figures_apart, worst
from gradviz.analysis.diff.difference import Origin, Where
from gradviz.analysis.diff.origin import Forward
from gradviz.analysis.diff.runs import Run
from gradviz.analysis.diff.sequences import common_pairs
from gradviz.analysis.diff.wording import where
from gradviz.graph.model import Graph, Node
from gradviz.graph.query.operation_names import autograd_name


def nodes_that_belong_together(a: Run, b: Run, alignment: Alignment) -> dict[int, int]:
    """Pairs of autograd nodes, by id: those of operations that belong together, then leaves by who takes them."""
    if a.graph is None or b.graph is None:
        return {}
    pairs: dict[int, int] = {}
    for index, other in alignment.to_b.items():
        ids_a, ids_b = a.operations[index].nodes, b.operations[other].nodes
        names = [a.graph.nodes[i].name for i in ids_a], [b.graph.nodes[i].name for i in ids_b]
        pairs.update((ids_a[i], ids_b[j]) for i, j in common_pairs(*names))
    return {**_leaves(a.graph, b.graph, pairs), **pairs}


def _leaves(a: Graph, b: Graph, pairs: dict[int, int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for one, other in pairs.items():
        edges = zip(a.nodes[one].edges, b.nodes[other].edges, strict=False)
        for edge, counterpart in edges:
            if edge is not None and counterpart is not None:
                leaf, same = a.nodes[edge.target], b.nodes[counterpart.target]
                if leaf.is_leaf and same.is_leaf and leaf.id not in found:
                    found[leaf.id] = same.id
    return found


def backward_origin(
    a: Run, b: Run, pairs: dict[int, int], forward: Forward, tolerance: Tolerance
) -> tuple[Origin | None, bool]:
    """The first such node in the order in which backward ran, and whether that is beyond the tolerance."""
    rounding: Origin | None = None
    if a.graph is None or b.graph is None:
        return None, False
    ran = [node for node in a.graph.nodes if node.run is not None and node.id in pairs]
    for node in sorted(ran, key=lambda node: node.run.order if node.run is not None else 0):
        other = b.graph.nodes[pairs[node.id]]
        arrived, sent = _arrived(node, other, tolerance), _sent(node, other, tolerance)
        if arrived.differs or arrived.level == "unknown" or not sent.differs:
            continue
        origin = _origin(a, b, node, other, sent, forward)
        if sent.level == "different":
            return origin, True
        rounding = rounding or origin
    return rounding, False


def _arrived(node: Node, other: Node, tolerance: Tolerance) -> Apart:
    pairs = zip(node.arrived, other.arrived, strict=False)
    return worst([figures_apart(x, y, tolerance) for x, y in pairs if x is not None or y is not None])


def _sent(node: Node, other: Node, tolerance: Tolerance) -> Apart:
    if node.is_leaf:
        return Apart("same")
    pairs = zip(node.gradients, other.gradients, strict=False)
    return worst([figures_apart(x, y, tolerance) for x, y in pairs if x is not None or y is not None])


def _origin(a: Run, b: Run, node: Node, other: Node, sent: Apart, forward: Forward) -> Origin:
    index = a.operation_of_node.get(node.id)
    result = forward.results.get(index) if index is not None else None
    name = autograd_name(node)
    reason = None
    if result is not None and result.differs:
        reason = "its forward differs already"
    elif index is not None and _takes_what_differs(a, index, forward):
        reason = "what it saved in forward differs already"
    what = f"{name} sends other gradients though it got the same"
    return Origin("backward", what, _where(a, node), _where(b, other), sent.distance, reason)


def _takes_what_differs(run: Run, index: int, forward: Forward) -> bool:
    for operand in run.operations[index].operands:
        result = forward.results.get(operand.source) if operand.source is not None else None
        if result is not None and result.differs:
            return True
    return False


def _where(run: Run, node: Node) -> Where:
    from msgspec.structs import replace

    index = run.operation_of_node.get(node.id)
    if index is None:
        return Where(autograd_name(node), 0, node=node.id)
    return replace(where(run, run.operations[index]), operation=autograd_name(node), node=node.id)
