"""Says in one plain sentence each what was left out of a view, and how to see it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gradviz.graph.counts import counted
from gradviz.graph.feeding import is_nothing
from gradviz.graph.model import Graph, NodeKind
from gradviz.graph.opening import Opening
from gradviz.graph.placing import Placed
from gradviz.graph.plumbing import COPYING, Connections
from gradviz.graph.view import Item

MOST_COUNTS_LISTED = 6

_PECULIAR: dict[NodeKind, str] = {"custom": "custom function", "inplace": "in-place operation"}

_GROUPED_BY = {
    "line": "operations of the same source line are drawn as one box (--all shows each)",
    "function": "operations of the same function are drawn as one box (--all shows each)",
    "order": "operations made one after the other are drawn as one box, as nothing else groups them (--all shows each)",
}


def notes_on(graph: Graph, connections: Connections, placed: Placed, opening: Opening) -> tuple[str, ...]:
    """The notes for a view."""
    return (
        *_about_repeats(graph, placed.items),
        *(sentence for reason, sentence in _GROUPED_BY.items() if reason in placed.group_reasons),
        *_about_depth(placed.items, opening),
        *_about_hidden_peculiarities(graph, placed.items),
        *_about_plumbing(graph, connections),
        *_about_nothing(graph),
    )


def _about_repeats(graph: Graph, items: tuple[Item, ...]) -> Iterator[str]:
    repeated = [item for item in items if item.repeat > 1]
    if len(repeated) == 1:
        (item,) = repeated
        yield f"{item.repeat:,} alike {_name(graph, item)} are drawn once{'; their shapes differ' * item.sizes_differ}"
    elif repeated:
        counts = [f"×{item.repeat:,}" for item in repeated[:MOST_COUNTS_LISTED]]
        counts += ["…"] * (len(repeated) > MOST_COUNTS_LISTED)
        differing = sum(item.sizes_differ for item in repeated)
        shapes = f"; the shapes of {differing:,} of them differ" if differing else ""
        yield f"{len(repeated):,} rows of alike parts are drawn once each: {', '.join(counts)}{shapes}"


def _name(graph: Graph, item: Item) -> str:
    if item.scope is None or item.last_scope is None:
        return "groups of operations" if len(item.nodes) > item.repeat else "operations"
    first, last = graph.scopes[item.scope].path, graph.scopes[item.last_scope].path
    return f"calls of {first}" if first == last else f"{first} … {last}"


def _about_depth(items: tuple[Item, ...], opening: Opening) -> Iterator[str]:
    if opening.deepest is None:
        return
    if opening.depth >= opening.deepest:
        if any(item.scope in opening.plain_calls and not item.is_open for item in items):
            yield f"modules that make one operation are folded: --depth {opening.deepest + 1} opens them"
        return
    ways = "--depth N" + (" or --unfold PATH" if any(item.scope is not None for item in items) else "")
    yield f"depth {opening.depth} of {opening.deepest}: {ways} shows more"


def _about_hidden_peculiarities(graph: Graph, items: tuple[Item, ...]) -> Iterator[str]:
    """What a reader would want to see for itself must not vanish in a box without a word."""
    folded = (node for item in items if item.kind == "box" and not item.is_open for node in item.nodes)
    kinds = Counter(graph.nodes[node].kind for node in folded)
    found = [f"{kinds[kind]:,} {noun}{'s' * (kinds[kind] > 1)}" for kind, noun in _PECULIAR.items() if kinds[kind]]
    if found:
        yield f"folded boxes hold {' and '.join(found)}"


def _about_nothing(graph: Graph) -> Iterator[str]:
    count = sum(is_nothing(constant) for constant in graph.constants)
    if count:
        yield f"{count:,} input{'s' * (count > 1)} without elements {'are' if count > 1 else 'is'} not drawn"


def _about_plumbing(graph: Graph, connections: Connections) -> Iterator[str]:
    merged = [node for node, owner in enumerate(connections.owner) if owner != node]
    copies = sum(graph.nodes[node].name.startswith(COPYING) for node in merged)
    views = len(merged) - copies
    counts = ((views, "view operation", "view operations"), (copies, "copy or cast", "copies and casts"))
    words = " and ".join(counted(count, one, many) for count, one, many in counts if count)
    if len(merged) == 1:
        yield f"{words} is merged into its neighbour (--plumbing shows it)"
    elif merged:
        yield f"{words} are merged into their neighbours (--plumbing shows them)"
