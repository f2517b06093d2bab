"""Builds the view of a recorded graph: select, group, fold. Every command uses this one function."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from msgspec.structs import replace

from gradviz.errors import BadInput, near_matches
from gradviz.graph.model import Graph
from gradviz.graph.query.composite_inputs import with_constants_at_users
from gradviz.graph.query.find_by_expression import Found, compiled_for_search, nodes_to_show, search
from gradviz.graph.query.find_by_name import CONTAINER_KINDS, find_named
from gradviz.view.folding import FoldOptions, FoldPlan, plan_folding
from gradviz.view.marks import Marks
from gradviz.view.model import View
from gradviz.view.select.grouping import Regrouped, regroup
from gradviz.view.select.selection import SelectOptions, select

GROUPINGS = ("module", "function", "line")


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """What to show of a graph, and how; raises `BadInput` for an unknown grouping or a bad regular expression."""

    select: SelectOptions = field(default_factory=SelectOptions)
    group_by: str | None = None
    """What each box is: ``module``, ``function`` or ``line``. None: modules; or functions of the program, where no
    module ran and the picture would be unreadable."""
    fold: FoldOptions = field(default_factory=FoldOptions)
    find: str | None = None
    """A regular expression; boxes around its matches are open, whatever is folded."""
    marks: Marks | None = None
    """For a graph of two runs: what differs, which is visible whatever is folded."""

    def __post_init__(self) -> None:
        if self.group_by is not None and self.group_by not in GROUPINGS:
            raise BadInput(f"cannot group by {self.group_by!r}", hint=near_matches(self.group_by, GROUPINGS))
        if self.find is not None:
            compiled_for_search(self.find)


@dataclass(frozen=True, slots=True)
class Viewed:
    """The part of a graph that is shown, and its view. Items refer to nodes of that part."""

    graph: Graph
    view: View
    selection_notes: tuple[str, ...] = ()
    """The notes of the view that say what part of the recorded graph this is."""
    found: Found | None = None
    """What `ViewOptions.find` matched."""
    plan: FoldPlan | None = None
    """How the view was folded."""


def view_of(graph: Graph, options: ViewOptions | None = None) -> Viewed:
    """What is drawn of `graph`.

    Raises:
            BadInput: a name matches nothing, or nothing is left to draw.
            NothingFound: `ViewOptions.find` matches nothing.
    """
    options = options or ViewOptions()
    # Before selecting: an input that the selection removed looks like one that data may have been given to.
    with_constants = with_constants_at_users(graph)
    selection = select(with_constants, options.select)
    viewed = _grouped(selection.graph, options)
    view = replace(viewed.view, notes=(*selection.notes, *viewed.view.notes))
    shown = graph if viewed.graph is with_constants else viewed.graph
    return Viewed(shown, view, selection.notes, viewed.found, viewed.plan)


def _grouped(graph: Graph, options: ViewOptions) -> Viewed:
    start = _named_start(graph, options.select.start)
    if options.group_by == "function":
        return _folded(regroup(graph, "function"), options, start)
    if options.group_by == "line":
        return _folded(regroup(graph, "line"), options, start)
    flat = _folded(Regrouped(graph), options, start)
    if options.group_by is None and not graph.scopes and _has_nameless_boxes(flat.view):
        by_function = regroup(graph, "function")
        note = "no module ran, so boxes are functions of the program (--group-by module leaves them out)"
        return _folded(by_function, options, start, note) if by_function.graph.scopes else flat
    return flat


def _named_start(graph: Graph, name: str | None) -> Collection[int]:
    """The nodes named by ``--from`` where they are single nodes: a module can be seen as a box."""
    named = None if name is None else find_named(graph, name)
    return () if named is None or named.kind in CONTAINER_KINDS else named.nodes


def _folded(regrouped: Regrouped, options: ViewOptions, must_show: Collection[int], *notes: str) -> Viewed:
    graph = regrouped.graph
    found = None if options.find is None else search(graph, options.find)
    to_show = set() if found is None else nodes_to_show(graph, found)
    plan = plan_folding(graph, options.fold, to_show.union(must_show), options.marks)
    view = plan.view()
    return Viewed(graph, replace(view, notes=(*notes, *regrouped.notes, *view.notes)), found=found, plan=plan)


def _has_nameless_boxes(view: View) -> bool:
    """Whether operations were put into one box only because they are neighbours."""
    return any(item.kind == "box" and item.scope is None and item.repeat == 1 for item in view.items)
