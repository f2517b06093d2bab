"""Gives every operation its item: an item of its own, or the folded box that contains it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from gradviz.graph.model import Graph
from gradviz.view.fold.arrangement import Arrangements
from gradviz.view.fold.groups import Entry, Group, each_repetition
from gradviz.view.fold.open_boxes import Opening, Span, inside_of, scope_of
from gradviz.view.model import Item, ItemKind


@dataclass(slots=True)
class Draft:
    """An item in preparation: it has no number yet, and may still get nodes, members and neighbours."""

    kind: ItemKind
    parent: int | None = None
    node: int | None = None
    constant: int | None = None
    root: int | None = None
    scope: int | None = None
    last_scope: int | None = None
    source: int | None = None
    repetitions_back: int = 1
    instead: int | None = None
    cut_edges: list[int] = field(default_factory=list)
    refused: int | None = None
    is_open: bool = False
    each: int = 0
    repeat: int = 1
    sizes_differ: bool = False
    first_stop: int = 0
    """For a folded box, where its first repetition ends in the sequence of operations."""
    nodes: set[int] = field(default_factory=set)
    constants: set[int] = field(default_factory=set)
    parameters: set[int] = field(default_factory=set)
    children: list[int] = field(default_factory=list)
    beside: list[int] = field(default_factory=list)
    """Leaves, constants and carried values that are drawn with it."""

    def item(self, number: int, numbers: dict[int, int]) -> Item:
        """The finished item, with its parent's number looked up."""
        return Item(
            id=number,
            kind=self.kind,
            parent=None if self.parent is None else numbers[self.parent],
            nodes=tuple(sorted(self.nodes)),
            node=self.node,
            constant=self.constant,
            root=self.root,
            scope=self.scope,
            is_open=self.is_open,
            each=self.each,
            repeat=self.repeat,
            sizes_differ=self.sizes_differ,
            last_scope=self.last_scope,
            constants=tuple(sorted(self.constants)),
            parameters=tuple(sorted(self.parameters)),
            source=None if self.source is None else numbers[self.source],
            repetitions_back=self.repetitions_back,
            instead=None if self.instead is None else numbers[self.instead],
            cut_edges=tuple(self.cut_edges),
            refused=self.refused,
        )


@dataclass(frozen=True, slots=True)
class _OpenRun:
    """An open repeated box: its contents show the first repetition and represent all."""

    draft: int
    first: int
    length: int
    """Operations in one repetition, from position `first` of the sequence."""
    count: int


class Step(NamedTuple):
    """A step from one repetition of an open box to a later one."""

    box: int
    repetitions: int


class ItemDrafts:
    """The drafts of all items, and the draft that shows each operation."""

    def __init__(self, graph: Graph, arrangements: Arrangements, opening: Opening) -> None:
        self.graph, self.arrangements, self.opening = graph, arrangements, opening
        self.nesting = arrangements.nesting
        self.drafts: list[Draft] = []
        self.outermost: list[int] = []
        self.item_of = [-1] * len(graph.nodes)
        self.is_later = bytearray(len(graph.nodes))
        """1 for operations of a later repetition in an open box: they are drawn as those of the first."""
        self.shown_as = list(range(len(graph.nodes)))
        """For each operation, the operation of the first repetition that is drawn for it; itself for all others."""
        self.group_reasons: set[str] = set()
        self.hides_levels = False
        """Whether a box is closed that another depth would open."""
        self._runs: list[_OpenRun] = []
        self._each: list[int] = []
        self._repetitions = _Repetitions(len(graph.nodes))

    @property
    def repeated_open_boxes(self) -> list[int]:
        """Open boxes with a count: those that show their first repetition, and those that show each."""
        return [*(run.draft for run in self._runs), *self._each]

    def step_between(self, node: int, other: int) -> Step | None:
        """The open box in which two operations are in different repetitions; None where there is none."""
        return self._repetitions.step_between(node, other)

    def is_repeated_in(self, box: int, node: int) -> bool:
        """Whether an operation is in a repetition of an open box."""
        return self._repetitions.lies_in(box, node)

    def new(self, draft: Draft, *, beside: int | None = None) -> int:
        """Add a draft as the last member of its parent, or beside another item."""
        key = len(self.drafts)
        self.drafts.append(draft)
        if beside is not None:
            self.drafts[beside].beside.append(key)
        elif draft.parent is None:
            self.outermost.append(key)
        else:
            self.drafts[draft.parent].children.append(key)
        return key

    def draft_all(self) -> None:
        """Draft everything from the outermost level inwards, then let repetitions share the items of the first."""
        outermost = self.nesting.outermost
        stack: list[_Level] = [_Level(outermost, self.arrangements.entries_of(outermost), None, 0)]
        while stack:
            level = stack.pop()
            for entry in level.entries:
                inside = self._draft_entry(level, entry)
                if inside is not None:
                    stack.append(inside)
        for run in reversed(self._runs):  # an inner run was found after the outer one, and must be done before it
            self._share(run)

    def _draft_entry(self, level: _Level, entry: Entry) -> _Level | None:
        unit = self.nesting.units[level.container][entry] if isinstance(entry, int) else -1
        if unit >= 0:
            self.item_of[unit] = self.new(Draft("node", level.parent, node=unit))
            return None
        return self._add_box(level, entry)

    def _add_box(self, level: _Level, entry: Entry) -> _Level | None:
        span = self.arrangements.weights.span(level.container, entry)
        scope = scope_of(self.nesting, level.container, entry)
        inside = self._inside(level, entry, span)
        below = self.opening.level_inside(level.number, scope, span)
        draft = self._draft_box(level, entry, scope)
        if inside is None or below is None or not self.opening.is_open(below):
            self.hides_levels = self.hides_levels or (inside is not None and below is not None)
            self._fold_away(draft, span)
            return None
        self.drafts[draft].is_open = True
        count = self.drafts[draft].repeat
        if self.opening.shows_each(entry, span):
            self.drafts[draft].each, self.drafts[draft].repeat = count, 1
            self._each.append(draft)
        elif count > 1:
            self._runs.append(_OpenRun(draft, span[0], (span[1] - span[0]) // count, count))
        return _Level(*inside, draft, below)

    def _inside(self, level: _Level, entry: Entry, span: Span) -> tuple[int, tuple[Entry, ...]] | None:
        if isinstance(entry, Group) and self.opening.shows_each(entry, span):
            return level.container, each_repetition(entry)
        return inside_of(self.arrangements, level.container, entry)

    def _draft_box(self, level: _Level, entry: Entry, scope: int | None) -> int:
        draft = Draft("box", level.parent, scope=scope)
        if isinstance(entry, Group):
            draft.repeat, draft.sizes_differ = entry.count, entry.sizes_differ
            self.group_reasons.add(entry.reason)
            if scope is not None:
                draft.last_scope = ~self.nesting.units[level.container][entry.stop - 1]
        return self.new(draft)

    def _fold_away(self, draft: int, span: tuple[int, int]) -> None:
        start, stop = span
        self.drafts[draft].first_stop = start + (stop - start) // self.drafts[draft].repeat
        for node in self.nesting.sequence[start:stop]:
            self.item_of[node] = draft

    def _share(self, run: _OpenRun) -> None:
        sequence = self.nesting.sequence
        first = sequence[run.first : run.first + run.length]
        for repetition in range(1, run.count):
            start = run.first + repetition * run.length
            for shown, node in zip(first, sequence[start : start + run.length], strict=True):
                self.item_of[node] = self.item_of[shown]
                self.is_later[node] = 1
                self.shown_as[node] = self.shown_as[shown]
                self._repetitions.put_inside(node, shown, run.draft, repetition)
        for shown in first:
            self._repetitions.put_inside(shown, shown, run.draft, 0)


@dataclass(frozen=True, slots=True)
class _Level:
    """Members that are not drafted yet."""

    container: int
    entries: tuple[Entry, ...]
    parent: int | None
    number: int


class _Repetitions:
    """For each operation, the open boxes around it and in which repetition of each it is, outermost box first.

    Kept as linked lists that share their ends: ten thousand steps of a loop within a loop must not cost one list per
    operation.
    """

    def __init__(self, node_count: int) -> None:
        self._path = [0] * node_count
        self._cells: list[tuple[int, int, int]] = [(-1, -1, 0)]
        self._known: dict[tuple[int, int, int], int] = {}

    def put_inside(self, node: int, like: int, box: int, repetition: int) -> None:
        """Record that `node` is in a repetition of `box`, and within it at the same position as `like`."""
        cell = (box, repetition, self._path[like])
        path = self._known.get(cell)
        if path is None:
            path = self._known[cell] = len(self._cells)
            self._cells.append(cell)
        self._path[node] = path

    def step_between(self, node: int, other: int) -> Step | None:
        """The outermost box that holds both in different repetitions, and how many repetitions apart."""
        if self._path[node] == self._path[other]:
            return None
        for (box, repetition), (other_box, other_repetition) in zip(self._walk(node), self._walk(other), strict=False):
            if box != other_box:
                return None
            if repetition != other_repetition:
                return Step(box, other_repetition - repetition)
        return None

    def lies_in(self, box: int, node: int) -> bool:
        """Whether `node` is in any repetition of `box`."""
        return any(around == box for around, _ in self._walk(node))

    def _walk(self, node: int) -> Iterator[tuple[int, int]]:
        path = self._path[node]
        while path:
            box, repetition, path = self._cells[path]
            yield box, repetition


def draft_boxes(graph: Graph, arrangements: Arrangements, opening: Opening) -> ItemDrafts:
    """Draft the boxes and operations of `graph`."""
    drafted = ItemDrafts(graph, arrangements, opening)
    drafted.draft_all()
    return drafted
