"""Where two backward passes begin to differ: a node that sends or gets other gradients for no earlier reason."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec.structs import replace

from gradviz.analysis.diff.alignment import Alignment
from gradviz.analysis.diff.closeness import Apart, Tolerance, figures_apart, worst
from gradviz.analysis.diff.difference import Origin, Where
from gradviz.analysis.diff.graph_pairs import GraphPair
from gradviz.analysis.diff.origin import Forward
from gradviz.analysis.diff.runs import Run
from gradviz.analysis.diff.sequences import common_pairs
from gradviz.analysis.diff.wording import where
from gradviz.graph.gradients import at_index
from gradviz.graph.model import Graph, Node
from gradviz.graph.query.operation_names import autograd_name

FORWARD_DIFFERS = "its forward differs already"


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
    """Where the gradients of one backward call begin to differ, and whether that is beyond the tolerance.

    That is the first node, in the order in which backward ran, that sends other gradients although it got the same, or
    that gets another one although its users sent the same.
    """
    rounding: Origin | None = None
    if a.graph is None or b.graph is None:
        return None, False
    users = _users(a.graph)
    ran = [node for node in a.graph.nodes if node.run is not None and node.id in pairs]
    for node in sorted(ran, key=lambda node: node.run.order if node.run is not None else 0):
        other = b.graph.nodes[pairs[node.id]]
        arrived, sent = _arrived(node, other, tolerance), _sent(node, other, tolerance)
        if arrived.differs and _got_the_same(a.graph, b.graph, users[node.id], pairs, tolerance):
            origin = _changed_on_its_way(a, b, node, other, arrived, has_users=bool(users[node.id]))
        elif not arrived.differs and arrived.level != "unknown" and sent.differs:
            origin = _origin(a, b, node, other, sent, forward)
        else:
            continue
        if "different" in (arrived.level, sent.level):
            return origin, True
        rounding = rounding or origin
    return rounding, False


def _users(graph: Graph) -> defaultdict[int, list[tuple[int, int]]]:
    """For each node, those that send gradients to it, with the indices of their edges."""
    found: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for node in graph.nodes:
        for index, edge in enumerate(node.edges):
            if edge is not None:
                found[edge.target].append((node.id, index))
    return found


def _got_the_same(
    a: Graph, b: Graph, users: list[tuple[int, int]], pairs: dict[int, int], tolerance: Tolerance
) -> bool:
    for user, index in users:
        other = pairs.get(user)
        if other is None:
            return False
        sent = at_index(a.nodes[user].gradients, index), at_index(b.nodes[other].gradients, index)
        if figures_apart(*sent, tolerance).level != "same" and sent != (None, None):
            return False
    return True


def _changed_on_its_way(a: Run, b: Run, node: Node, other: Node, arrived: Apart, *, has_users: bool) -> Origin:
    name = autograd_name(node)
    reason = None
    if not has_users:
        what = f"backward begins with another gradient at {name}"
    else:
        what = f"{name} gets another gradient though its users sent the same"
        hooks = [", ".join(each.hooks) or "none" for each in (node, other)]
        if hooks != ["none", "none"]:
            reason = f"hooks on it: {hooks[0]} in A, {hooks[1]} in B"
        elif arrived.level == "rounding":
            reason = "summed in another order"
    return Origin("backward", what, _where(a, node), _where(b, other), arrived.distance, reason)


def first_difference_in_backward(
    a: Run,
    b: Run,
    pairs: Sequence[GraphPair],
    alignment: Alignment,
    forward: Forward,
    tolerance: Tolerance,
    *,
    is_one_of_several: bool,
) -> tuple[Origin | None, bool, GraphPair | None]:
    """The same for the first of several backward calls that differs, and which it is. Turns the runs to its graphs.

    If only rounding differs, that is the first backward call in which it does.
    """
    found: Origin | None = None
    found_in: GraphPair | None = None
    for pair in pairs:
        _turn(a, b, pair)
        nodes = nodes_that_belong_together(a, b, alignment)
        origin, is_beyond = backward_origin(a, b, nodes, forward, tolerance)
        if origin is not None and is_one_of_several and pair.words:
            origin = replace(origin, what=f"{pair.words}: {origin.what}")
        if is_beyond:
            return origin, True, pair
        if found is None and origin is not None:
            found, found_in = origin, pair
    if pairs:
        _turn(a, b, found_in or pairs[0])
    return found, False, found_in


def _turn(a: Run, b: Run, pair: GraphPair) -> None:
    for run, graph in ((a, pair.a), (b, pair.b)):
        if run.graph is not graph:
            run.turn_to(graph)


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
        reason = FORWARD_DIFFERS
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
    index = run.operation_of_node.get(node.id)
    if index is None:
        return Where(autograd_name(node), None, node=node.id)
    return replace(where(run, run.operations[index]), operation=autograd_name(node), node=node.id)
