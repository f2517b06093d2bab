"""Folds a graph into a view: module calls and repeats are boxes, open as deep as the picture stays readable.

The parts: `plumbing` merges operations that only reshape, `nesting` finds which operations are in which module call,
`repeats` folds calls that are alike, `arrangement` splits lists that are too long, `opening` decides which boxes are
open, and `items` makes the items and links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice

from gradviz.errors import BadInput
from gradviz.graph.model import Graph, NodeKind
from gradviz.graph.number_words import counted
from gradviz.graph.query.own_line import line_words_of
from gradviz.view.fold.arrangement import Arrangements, Limits
from gradviz.view.fold.nesting import Nesting
from gradviz.view.fold.open_boxes import Opening, RepeatedBox, choose_depth, repeated_boxes
from gradviz.view.fold.overrides import Overrides, find_overrides
from gradviz.view.fold.plumbing import COPYING, Connections, connect
from gradviz.view.fold.repeats import RepeatFolder
from gradviz.view.fold.weights import Weights
from gradviz.view.items.items import ItemsAndLinks, make_items
from gradviz.view.items.leaf_items import is_empty
from gradviz.view.marks import Marks
from gradviz.view.model import Item, View

MAX_BOX_MEMBERS = 1000
"""Members of one box that a layout engine can still handle; more are cut into parts, whatever depth was asked for."""
MAX_LEVELS = 40
"""How many levels of boxes can be opened one after the other; each costs a pass over the graph."""


@dataclass(frozen=True, slots=True)
class FoldOptions:
    """How much of a graph to show; raises `BadInput` for `show_all` together with `depth` or `fold`."""

    depth: int | None = None
    """How many levels of boxes are open; None for as many as stay readable."""
    unfold: tuple[str, ...] = ()
    """Paths of module calls to open, whatever the depth; ``*`` stands for one part of a path."""
    fold: tuple[str, ...] = ()
    """Paths of module calls to keep folded."""
    show_all: bool = False
    """Nothing is folded."""
    show_plumbing: bool = False
    """Views and copies are drawn, too."""
    show_constants: bool = True
    max_items: int = 60
    """How many things a picture may hold while `depth` is None."""

    def __post_init__(self) -> None:
        if self.show_all and (self.depth is not None or self.fold):
            other = "--fold" if self.fold else "--depth"
            raise BadInput(f"--all folds nothing, and {other} asks to fold", hint="leave out one of the two")


def fold(graph: Graph, options: FoldOptions | None = None, must_show: Collection[int] = ()) -> View:
    """What is drawn of `graph`, with the nodes `must_show` visible; raises `BadInput` for a path that no box has."""
    return plan_folding(graph, options, must_show).view()


@dataclass(frozen=True, slots=True)
class FoldPlan:
    """How a graph is folded: which nodes are merged, which boxes there are, and which of them are open."""

    graph: Graph
    connections: Connections
    arrangements: Arrangements
    opening: Opening
    show_constants: bool

    def view(self) -> View:
        """The view with the boxes open as planned."""
        draft = self._items_and_links(self.opening)
        return View(draft.items, draft.links, notes_on(self.graph, self.connections, draft, self.opening))

    def repeated_boxes(self) -> list[RepeatedBox]:
        """The boxes with several repetitions, the outermost first."""
        return sorted(repeated_boxes(self.arrangements), key=lambda box: (box.level, box.span))

    def levels(self, each: RepeatedBox | None = None) -> Iterator[View]:
        """Views of the same boxes, each with one more level open, from none to all, or to `MAX_LEVELS`.

        Each box appears closed beside its neighbours, and open with its contents closed: from these, any combination of
        open and closed boxes can be composed. The views have no notes.

        Args:
                    each: a box that shows all its repetitions singly; the first view is the one in which it is open.
        """
        overrides = Overrides({})  # named boxes differ from others, but stay neither open nor closed here
        opened, shown_each = -1, None if each is None else each.span
        for depth in range(0 if each is None else each.level + 1, MAX_LEVELS + 1):
            opening = Opening(overrides, self.arrangements.nesting, depth, None, each=shown_each)
            made = self._items_and_links(opening)
            now_open = sum(item.is_open for item in made.items)
            if now_open == opened:
                return
            opened = now_open
            yield View(made.items, made.links)
            if not made.hides_levels:
                return

    def _items_and_links(self, opening: Opening) -> ItemsAndLinks:
        return make_items(self.graph, self.connections, self.arrangements, opening, show_constants=self.show_constants)


def plan_folding(
    graph: Graph,
    options: FoldOptions | None = None,
    must_show: Collection[int] = (),
    marks: Marks | None = None,
) -> FoldPlan:
    """How `graph` is folded, with what is marked visible; other arguments and errors are those of `fold`."""
    options = options or FoldOptions()
    connections = connect(graph, keep_plumbing=options.show_plumbing)
    overrides = find_overrides(graph, connections, options.unfold, options.fold, must_show, marks)
    opening, arrangements = _decide(graph, connections, overrides, options)
    return FoldPlan(graph, connections, arrangements, opening, options.show_constants)


def _decide(
    graph: Graph, connections: Connections, overrides: Overrides, options: FoldOptions
) -> tuple[Opening, Arrangements]:
    operations = [node.id for node in graph.nodes if not node.is_leaf and connections.owner[node.id] == node.id]
    nesting = Nesting(graph, operations)
    repeats = RepeatFolder(graph, connections, nesting, overrides)
    weights = Weights(graph, connections, nesting)
    fits = options.depth is None and weights.of_everything() + len(graph.roots) <= options.max_items // 2
    if options.show_all or fits:
        opening = Opening(overrides, nesting, depth=len(graph.scopes) + 1, deepest=None)
        return opening, Arrangements(graph, nesting, weights, repeats, None)
    largest = options.max_items if options.depth is None else max(MAX_BOX_MEMBERS, options.max_items)
    arrangements = Arrangements(graph, nesting, weights, repeats, Limits(options.max_items, largest))
    return choose_depth(arrangements, overrides, options.depth, options.max_items - len(graph.roots)), arrangements


# Notes: one sentence each on what a view leaves out, and how to see it.

MAX_COUNTS_LISTED = 6

_NOTABLE_KINDS: dict[NodeKind, str] = {"custom": "custom function", "inplace": "in-place operation"}

_GROUPED_BY = {
    "line": "operations of the same source line are drawn as one box (--all shows each)",
    "function": "operations of the same function are drawn as one box (--all shows each)",
    "order": "operations made one after the other are drawn as one box, as nothing else groups them (--all shows each)",
}


def notes_on(graph: Graph, connections: Connections, made: ItemsAndLinks, opening: Opening) -> tuple[str, ...]:
    """The notes for a view."""
    return (
        *_about_repeats(graph, made.items),
        *(sentence for reason, sentence in _GROUPED_BY.items() if reason in made.group_reasons),
        *_about_depth(made.items, opening),
        *_about_hidden_operations(graph, made.items),
        *_about_regions(graph),
        *_about_plumbing(graph, connections),
        *_about_empty_inputs(graph),
    )


def _about_repeats(graph: Graph, items: tuple[Item, ...]) -> Iterator[str]:
    repeated = [item for item in items if item.repeat > 1]
    if len(repeated) == 1:
        (item,) = repeated
        yield f"{item.repeat:,} alike {_name(graph, item)} are drawn once{'; their shapes differ' * item.sizes_differ}"
    elif repeated:
        counts = [f"×{item.repeat:,}" for item in repeated[:MAX_COUNTS_LISTED]]
        counts += ["…"] * (len(repeated) > MAX_COUNTS_LISTED)
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
    options = "--depth N" + (" or --unfold PATH" if any(item.scope is not None for item in items) else "")
    yield f"depth {opening.depth} of {opening.deepest}: {options} shows more"


def _about_hidden_operations(graph: Graph, items: tuple[Item, ...]) -> Iterator[str]:
    """Tells of custom functions and in-place operations that a folded box hides."""
    folded = (node for item in items if item.kind == "box" and not item.is_open for node in item.nodes)
    kinds = Counter(graph.nodes[node].kind for node in folded)
    found = [f"{kinds[kind]:,} {noun}{'s' * (kinds[kind] > 1)}" for kind, noun in _NOTABLE_KINDS.items() if kinds[kind]]
    if found:
        yield f"folded boxes hold {' and '.join(found)}"


def _about_empty_inputs(graph: Graph) -> Iterator[str]:
    count = sum(is_empty(constant) for constant in graph.constants)
    if count:
        yield f"{count:,} input{'s' * (count > 1)} without elements {'are' if count > 1 else 'is'} not drawn"


def _about_regions(graph: Graph) -> Iterator[str]:
    """Which operations were compiled: they are drawn as autograd would have recorded them."""
    counts = Counter(node.region for node in graph.nodes if node.region is not None)
    opened = {index: count for index, count in counts.items() if not graph.regions[index].closed}
    if opened:
        backends = sorted({graph.regions[index].backend for index in opened})
        regions = counted(len(opened), "region")
        yield f"{counted(sum(opened.values()), 'node')} belong to {regions} of compiled code ({', '.join(backends)})"
    breaks = [graph.regions[index].graph_break for index in sorted(counts)]
    places = dict.fromkeys(line_words_of(each.file, each.line) if each.line else "torch" for each in breaks if each)
    if places:
        more = ["…"] * (len(places) > MAX_COUNTS_LISTED)
        where = ", ".join([*islice(places, MAX_COUNTS_LISTED), *more])
        yield f"{counted(len(places), 'graph break')} between them: {where} (gradviz compiled says why)"


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
