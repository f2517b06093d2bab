"""From a recorded graph to what is drawn of it: select, group, fold. The one way there, for every command."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from msgspec.structs import replace

from gradviz.errors import BadInput, near_matches
from gradviz.graph.model import Graph
from gradviz.graph.query.composite_inputs import with_constants_at_users
from gradviz.graph.query.names import CONTAINER_KINDS, find_named
from gradviz.graph.query.search import Found, compiled_for_search, nodes_to_show, search
from gradviz.view.folding import FoldOptions, FoldPlan, plan_folding
from gradviz.view.model import View
from gradviz.view.select.grouping import Regrouped, regroup
from gradviz.view.select.selection import SelectOptions, select

GROUPINGS = ("module", "function", "line")


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """What to show of a graph, and how; raises `BadInput` for an unknown grouping and a wrong expression."""

    select: SelectOptions = field(default_factory=SelectOptions)
    group_by: str | None = None
    """What boxes stand for: ``module``, ``function`` or ``line``. None for modules, or where none ran and the picture
    would be unreadable, for the program's functions."""
    fold: FoldOptions = field(default_factory=FoldOptions)
    find: str | None = None
    """A regular expression; the way to what it fits is open, whatever is folded."""

    def __post_init__(self) -> None:
        if self.group_by is not None and self.group_by not in GROUPINGS:
            raise BadInput(f"cannot group by {self.group_by!r}", hint=near_matches(self.group_by, GROUPINGS))
        if self.find is not None:
            compiled_for_search(self.find)


@dataclass(frozen=True, slots=True)
class Viewed:
    """The part of a graph that is shown, and the view of it, whose items refer to that part."""

    graph: Graph
    view: View
    selection_notes: tuple[str, ...] = ()
    """Those of the view's notes that say what part of the recorded graph this is."""
    found: Found | None = None
    """What was searched for, where something was."""
    plan: FoldPlan | None = None
    """What the view was folded by."""


def view_of(graph: Graph, options: ViewOptions | None = None) -> Viewed:
    """What is drawn of `graph`.

    Raises:
        BadInput: a name fits nothing, or nothing is left to draw.
        NothingFound: `ViewOptions.find` fits nothing.
    """
    options = options or ViewOptions()
    # Before anything is cut off: an input that was cut off looks like one that data may have been given to.
    placed = with_constants_at_users(graph)
    selection = select(placed, options.select)
    viewed = _grouped(selection.graph, options)
    view = replace(viewed.view, notes=(*selection.notes, *viewed.view.notes))
    shown = graph if viewed.graph is placed else viewed.graph
    return Viewed(shown, view, selection.notes, viewed.found, viewed.plan)


def _grouped(graph: Graph, options: ViewOptions) -> Viewed:
    started = _started_from(graph, options.select.start)
    if options.group_by == "function":
        return _folded(regroup(graph, "function"), options, started)
    if options.group_by == "line":
        return _folded(regroup(graph, "line"), options, started)
    flat = _folded(Regrouped(graph), options, started)
    if options.group_by is None and not graph.scopes and _has_nameless_boxes(flat.view):
        by_function = regroup(graph, "function")
        note = "no module ran, so boxes are functions of the program (--group-by module leaves them out)"
        return _folded(by_function, options, started, note) if by_function.graph.scopes else flat
    return flat


def _started_from(graph: Graph, name: str | None) -> Collection[int]:
    """The nodes with which the view begins, where they are single nodes: a module can be seen as a box."""
    named = None if name is None else find_named(graph, name)
    return () if named is None or named.kind in CONTAINER_KINDS else named.nodes


def _folded(regrouped: Regrouped, options: ViewOptions, must_show: Collection[int], *notes: str) -> Viewed:
    graph = regrouped.graph
    found = None if options.find is None else search(graph, options.find)
    places = set() if found is None else nodes_to_show(graph, found)
    plan = plan_folding(graph, options.fold, places.union(must_show))
    view = plan.view()
    return Viewed(graph, replace(view, notes=(*notes, *regrouped.notes, *view.notes)), found=found, plan=plan)


def _has_nameless_boxes(view: View) -> bool:
    """Whether operations had to be put together that only stand one after the other."""
    return any(item.kind == "box" and item.scope is None and item.repeat == 1 for item in view.items)
