"""What the diagram languages (DOT, Mermaid) have in common: boxes as nested blocks, links, legend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gradviz.rendering.look.node_label import NodeLabel
from gradviz.rendering.look.palette import ROLE_STYLES, Role
from gradviz.view.model import Item, Link, View

FAILURE_WORDS = "✗ backward failed here"
GRADIENT_WORDS = "Arrows follow the gradient, from the loss to the leaves."
"""Shown if the arrows follow the gradient."""


def nested_items(view: View) -> Iterator[tuple[int, Item | None]]:
    """Every item with the number of open boxes around it: each box before its contents, and None after them.

    Without recursion, because boxes can nest deeper than Python's stack.
    """
    children = view.children()
    waiting: list[Item | None] = list(reversed(children.get(None, [])))
    depth = 0
    while waiting:
        item = waiting.pop()
        if item is None:
            depth -= 1
        yield depth, item
        if item is not None and item.is_open:
            depth += 1
            waiting += [None, *reversed(children.get(item.id, []))]


def drawable_links(view: View) -> Iterator[tuple[int, Link]]:
    """The links between closed items, with their positions in the view.

    An arrow cannot end at a block, and folding makes no link that ends at an open box.
    """
    for number, link in enumerate(view.links):
        if not (view.items[link.source].is_open or view.items[link.target].is_open):
            yield number, link


def legend_roles(node_labels: Iterable[NodeLabel]) -> list[Role]:
    """The roles that appear and need an explanation; the words on the other ones say what they are."""
    present = {node_label.role for node_label in node_labels}
    return [role for role in ROLE_STYLES if role in present and role not in ("box", "operation", "root")]
