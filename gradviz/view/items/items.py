"""Makes the items and links of a view once it is decided which boxes are open.

First every operation gets the item that stands for it (`boxes`), then the leaves and constants are put beside the
items that use them (`feeding`), then everything is joined and numbered in the order in which it is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

from gradviz.graph.model import Edge, Graph
from gradviz.view.fold.arrangement import Arrangements
from gradviz.view.fold.opening import Opening
from gradviz.view.fold.plumbing import Connections
from gradviz.view.items.boxes import BoxPlacement, Draft, place_boxes
from gradviz.view.items.cut_items import constants_of_cuts, draft_cuts
from gradviz.view.items.leaf_items import Feeding, constants_by_position
from gradviz.view.items.loop_carried import Carrying
from gradviz.view.model import Item, Link


@dataclass(frozen=True, slots=True)
class Placed:
    """The parts of a view, and the reasons for which operations were grouped."""

    items: tuple[Item, ...]
    links: tuple[Link, ...]
    group_reasons: frozenset[str]


def place(
    graph: Graph, connections: Connections, arrangements: Arrangements, opening: Opening, *, show_constants: bool
) -> Placed:
    """Draft, join and number everything that is drawn of `graph`."""
    placement = place_boxes(graph, arrangements, opening)
    feeding = Feeding(graph, connections, placement, show_constants=show_constants)
    carrying = Carrying(graph, connections, placement, feeding)
    joints = _join(graph, connections, placement, feeding, carrying)
    for ends, arriving in carrying.place().items():
        joints[ends] = _Joint(arriving.target, arriving.input_nr)
    _add_roots(graph, connections, placement, feeding, joints)
    feeding.place_unused_leaves()
    joints.update((ends, _Joint(None, 0)) for ends in draft_cuts(graph, connections, placement))
    _list_nodes(graph, connections, placement)
    return _number(placement, joints)


@dataclass(slots=True)
class _Joint:
    node: int | None
    output_nr: int
    edge_count: int = 1


_Joints = dict[tuple[int, int], _Joint]


def _join(
    graph: Graph, connections: Connections, placement: BoxPlacement, feeding: Feeding, carrying: Carrying
) -> _Joints:
    """Links between items. Those from one repetition to another would run in a circle and are carried."""
    joints: _Joints = {}
    nodes, item_of, is_later = graph.nodes, placement.item_of, placement.is_later
    cut = constants_of_cuts(graph)
    for node in placement.nesting.sequence:
        target = item_of[node]
        for position, edge in enumerate(connections.inputs[node]):
            if edge is None:
                continue
            arriving = nodes[node].edges[position]
            if nodes[edge.target].is_leaf:
                source = feeding.leaf(node, position, edge.target)
            else:
                source = item_of[edge.target]
                step = placement.step_between(edge.target, node)
                if step is not None:
                    carrying.note(step, node, position, source, arriving)
                if step is not None or source == target:
                    continue
            if source is not None and arriving is not None:
                _add(joints, source, target, arriving, is_repeated=bool(is_later[node]))
        for position, constant in constants_by_position(nodes[node]).items():
            fed = feeding.constant(node, position, constant) if (node, constant) not in cut else None
            if fed is not None:
                joints.setdefault((fed, target), _Joint(None, 0))
    return joints


def _add(joints: _Joints, source: int, target: int, edge: Edge, *, is_repeated: bool) -> None:
    known = joints.get((source, target))
    if known is None:
        joints[source, target] = _Joint(edge.target, edge.input_nr)
    elif not is_repeated:
        known.edge_count += 1


def _add_roots(
    graph: Graph, connections: Connections, placement: BoxPlacement, feeding: Feeding, joints: _Joints
) -> None:
    for index, root in enumerate(graph.roots):
        draft = placement.new(Draft("root", root=index))
        producer = connections.producer(root.node)
        is_leaf = graph.nodes[producer.target].is_leaf
        source = feeding.leaf_of_root(producer.target, draft) if is_leaf else placement.item_of[producer.target]
        joints[source, draft] = _Joint(root.node, root.output_nr)
    for index in range(len(graph.refused)):
        placement.new(Draft("refused", refused=index))


def _list_nodes(graph: Graph, connections: Connections, placement: BoxPlacement) -> None:
    """Every node goes to the item that stands for it; a repeated open box lists what all its repetitions hold."""
    drafts, item_of = placement.drafts, placement.item_of
    for node in graph.nodes:
        if not node.is_leaf:
            drafts[item_of[connections.owner[node.id]]].nodes.add(node.id)
    for box in placement.repeated_open_boxes:
        stack = [box]
        while stack:
            inner = drafts[stack.pop()]
            drafts[box].nodes.update(inner.nodes)
            stack.extend(inner.children)
            stack.extend(inner.beside)


def _number(placement: BoxPlacement, joints: _Joints) -> Placed:
    order = _drawing_order(placement)
    number = {draft: place for place, draft in enumerate(order)}
    items = tuple(placement.drafts[draft].item(place, number) for place, draft in enumerate(order))
    links = sorted(
        (
            Link(number[source], number[target], joint.node, joint.output_nr, joint.edge_count)
            for (source, target), joint in joints.items()
        ),
        key=lambda link: (link.source, link.target),
    )
    return Placed(items, tuple(links), frozenset(placement.group_reasons))


def _is_bias(placement: BoxPlacement, draft: int) -> bool:
    """A bias is told after its weight, although the sum that torch makes of both takes it first."""
    node = placement.drafts[draft].node
    if node is None or placement.graph.nodes[node].kind != "parameter":
        return False
    outputs = placement.graph.nodes[node].outputs
    return bool(outputs) and outputs[0] is not None and len(outputs[0].shape) == 1


def _drawing_order(placement: BoxPlacement) -> list[int]:
    """A box before its members; what is drawn beside an item before that item."""
    drafts = placement.drafts
    order: list[int] = []
    stack = list(reversed(placement.outermost))
    while stack:
        draft = stack.pop()
        order.extend(sorted(drafts[draft].beside, key=lambda given: _is_bias(placement, given)))
        order.append(draft)
        stack.extend(reversed(drafts[draft].children))
    return order
