"""Makes the items and links of a view after it is decided which boxes are open.

First every operation gets its item (`boxes`), then leaves and constants are put beside the items that use them
(`leaf_items`), then everything is linked and numbered in drawing order.
"""

from __future__ import annotations

from dataclasses import dataclass

from gradviz.graph.model import Edge, Graph
from gradviz.view.fold.arrangement import Arrangements
from gradviz.view.fold.open_boxes import Opening
from gradviz.view.fold.plumbing import Connections
from gradviz.view.items.boxes import Draft, ItemDrafts, draft_boxes
from gradviz.view.items.cut_items import constants_of_cuts, draft_cuts
from gradviz.view.items.leaf_items import LeafItems, constants_by_position
from gradviz.view.items.loop_carried import LoopCarried
from gradviz.view.model import Item, Link


@dataclass(frozen=True, slots=True)
class ItemsAndLinks:
    """The items and links of a view, and the reasons for which operations were grouped."""

    items: tuple[Item, ...]
    links: tuple[Link, ...]
    group_reasons: frozenset[str]
    hides_levels: bool
    """Whether a larger depth would open more boxes."""


def make_items(
    graph: Graph, connections: Connections, arrangements: Arrangements, opening: Opening, *, show_constants: bool
) -> ItemsAndLinks:
    """Draft, link and number everything that is drawn of `graph`."""
    drafted = draft_boxes(graph, arrangements, opening)
    leaf_items = LeafItems(graph, connections, drafted, show_constants=show_constants)
    loop_carried = LoopCarried(graph, connections, drafted, leaf_items)
    link_drafts = _join(graph, connections, drafted, leaf_items, loop_carried)
    for ends, arriving in loop_carried.make_items().items():
        link_drafts[ends] = _LinkDraft(arriving.target, arriving.input_nr)
    _add_roots(graph, connections, drafted, leaf_items, link_drafts)
    leaf_items.draft_unused_leaves()
    link_drafts.update((ends, _LinkDraft(None, 0)) for ends in draft_cuts(graph, connections, drafted))
    _list_nodes(graph, connections, drafted)
    return _number(drafted, link_drafts)


@dataclass(slots=True)
class _LinkDraft:
    node: int | None
    output_nr: int
    edge_count: int = 1


_LinkDrafts = dict[tuple[int, int], _LinkDraft]


def _join(
    graph: Graph, connections: Connections, drafted: ItemDrafts, leaf_items: LeafItems, loop_carried: LoopCarried
) -> _LinkDrafts:
    """Links between items. A link from one repetition to another would make a cycle and becomes a carried item."""
    link_drafts: _LinkDrafts = {}
    nodes, item_of, is_later = graph.nodes, drafted.item_of, drafted.is_later
    cut = constants_of_cuts(graph)
    for node in drafted.nesting.sequence:
        target = item_of[node]
        for position, edge in enumerate(connections.inputs[node]):
            if edge is None:
                continue
            arriving = nodes[node].edges[position]
            if nodes[edge.target].is_leaf:
                source = leaf_items.leaf(node, position, edge.target)
            else:
                source = item_of[edge.target]
                step = drafted.step_between(edge.target, node)
                if step is not None:
                    loop_carried.note(step, node, position, source, arriving)
                if step is not None or source == target:
                    continue
            if source is not None and arriving is not None:
                _add(link_drafts, source, target, arriving, is_repeated=bool(is_later[node]))
        if not nodes[node].constants:
            continue
        for position, constant in constants_by_position(nodes[node]).items():
            fed = leaf_items.constant(node, position, constant) if (node, constant) not in cut else None
            if fed is not None:
                link_drafts.setdefault((fed, target), _LinkDraft(None, 0))
    return link_drafts


def _add(link_drafts: _LinkDrafts, source: int, target: int, edge: Edge, *, is_repeated: bool) -> None:
    known = link_drafts.get((source, target))
    if known is None:
        link_drafts[source, target] = _LinkDraft(edge.target, edge.input_nr)
    elif not is_repeated:
        known.edge_count += 1


def _add_roots(
    graph: Graph, connections: Connections, drafted: ItemDrafts, leaf_items: LeafItems, link_drafts: _LinkDrafts
) -> None:
    for index, root in enumerate(graph.roots):
        draft = drafted.new(Draft("root", root=index))
        producer = connections.producer(root.node)
        is_leaf = graph.nodes[producer.target].is_leaf
        source = leaf_items.leaf_of_root(producer.target, draft) if is_leaf else drafted.item_of[producer.target]
        link_drafts[source, draft] = _LinkDraft(root.node, root.output_nr)
    for index in range(len(graph.refused)):
        drafted.new(Draft("refused", refused=index))


def _list_nodes(graph: Graph, connections: Connections, drafted: ItemDrafts) -> None:
    """List every node in its item; a repeated open box lists the nodes of all its repetitions."""
    drafts, item_of = drafted.drafts, drafted.item_of
    for node in graph.nodes:
        if not node.is_leaf:
            drafts[item_of[connections.owner[node.id]]].nodes.add(node.id)
    for box in drafted.repeated_open_boxes:
        stack = [box]
        while stack:
            inner = drafts[stack.pop()]
            drafts[box].nodes.update(inner.nodes)
            stack.extend(inner.children)
            stack.extend(inner.beside)


def _number(drafted: ItemDrafts, link_drafts: _LinkDrafts) -> ItemsAndLinks:
    order = _drawing_order(drafted)
    number = {draft: index for index, draft in enumerate(order)}
    items = tuple(drafted.drafts[draft].item(index, number) for index, draft in enumerate(order))
    links = sorted(
        (
            Link(number[source], number[target], link_draft.node, link_draft.output_nr, link_draft.edge_count)
            for (source, target), link_draft in link_drafts.items()
        ),
        key=lambda link: (link.source, link.target),
    )
    return ItemsAndLinks(items, tuple(links), frozenset(drafted.group_reasons), drafted.hides_levels)


def _is_bias(drafted: ItemDrafts, draft: int) -> bool:
    """Whether a leaf is a bias, which is drawn after its weight although torch's sum takes it first."""
    node = drafted.drafts[draft].node
    if node is None or drafted.graph.nodes[node].kind != "parameter":
        return False
    outputs = drafted.graph.nodes[node].outputs
    return bool(outputs) and outputs[0] is not None and len(outputs[0].shape) == 1


def _drawing_order(drafted: ItemDrafts) -> list[int]:
    """Order items: a box before its members, and leaves beside an item before that item."""
    drafts = drafted.drafts
    order: list[int] = []
    stack = list(reversed(drafted.outermost))
    while stack:
        draft = stack.pop()
        order.extend(sorted(drafts[draft].beside, key=lambda given: _is_bias(drafted, given)))
        order.append(draft)
        stack.extend(reversed(drafts[draft].children))
    return order
