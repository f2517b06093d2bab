"""Checks what must hold for every view; used by tests of everything that makes views."""

from __future__ import annotations

from collections import Counter

from gradviz.errors import GradvizError
from gradviz.graph.model import Graph
from gradviz.view.model import View


class InvalidView(GradvizError):
    """A view contradicts itself or its graph."""


def check_view(view: View, graph: Graph) -> None:
    """Raise `InvalidView` unless the view is consistent with its graph.

    Boxes precede their members. Links join drawn items and make no cycle. Every operation is in one item. Every leaf
    and root is drawn, refused roots included. Loops carry what is made in them.
    """
    _check_items(view)
    _check_links(view)
    _check_order(view)
    _check_nodes(view, graph)
    _check_carried(view)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidView(message)


def _check_items(view: View) -> None:
    for index, item in enumerate(view.items):
        _require(item.id == index, f"item {item.id} is at index {index}")
        if item.parent is not None:
            _require(item.parent < item.id, f"item {item.id} precedes its box {item.parent}")
            _require(view.items[item.parent].is_open, f"item {item.id} is in the folded box {item.parent}")
    boxes_with_members = {item.parent for item in view.items}
    for item in view.items:
        _require(not item.is_open or item.id in boxes_with_members, f"the open box {item.id} is empty")


def _check_links(view: View) -> None:
    pairs = Counter((link.source, link.target) for link in view.links)
    for (source, target), count in pairs.items():
        _require(count == 1, f"{source} and {target} are linked {count} times")
        _require(source != target, f"item {source} is linked to itself")
        for end in (source, target):
            _require(not view.items[end].is_open, f"a link ends at the open box {end}")


def _check_order(view: View) -> None:
    """Raise `InvalidView` if the links form a cycle, among items or among their boxes."""
    waiting = Counter(link.target for link in view.links)
    following: dict[int, list[int]] = {}
    for link in view.links:
        following.setdefault(link.source, []).append(link.target)
    done = [item.id for item in view.items if not waiting[item.id]]
    for item_id in done:  # grows while it is walked
        for target in following.get(item_id, ()):
            waiting[target] -= 1
            if not waiting[target]:
                done.append(target)
    _require(len(done) == len(view.items), "the links make a cycle")


def _check_nodes(view: View, graph: Graph) -> None:
    drawn = Counter(node for item in view.items if not item.is_open for node in item.nodes)
    for node in graph.nodes:
        if node.is_leaf:
            _require(drawn[node.id] >= 1, f"leaf {node.id} is not drawn")
        else:
            _require(drawn[node.id] == 1, f"node {node.id} is in {drawn[node.id]} items")
    roots = [item.root for item in view.items if item.kind == "root"]
    _require(roots == list(range(len(graph.roots))), "not every root is drawn once")
    refused = [item.refused for item in view.items if item.kind == "refused"]
    _require(refused == list(range(len(graph.refused))), "not every refused root is drawn once")


def _check_carried(view: View) -> None:
    """A carried item was made in a repeated box that also holds its user."""
    targets = {link.target for link in view.links}
    uses = Counter(link.source for link in view.links)
    for item in view.items:
        _require(
            (item.kind == "carried") == (item.source is not None),
            f"item {item.id} is carried without a source, or has a source without being carried",
        )
        if item.source is not None:
            _require(uses[item.id] == 1, f"the carried item {item.id} has {uses[item.id]} users")
            _require(item.id not in targets, f"a link ends at the carried item {item.id}")
            shared = _boxes_around(view, item.id) & _boxes_around(view, item.source)
            _require(any(view.items[box].repeat > 1 for box in shared), f"item {item.id} is carried outside a loop")


def _boxes_around(view: View, item: int) -> set[int]:
    boxes: set[int] = set()
    parent = view.items[item].parent
    while parent is not None:
        boxes.add(parent)
        parent = view.items[parent].parent
    return boxes
