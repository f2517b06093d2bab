"""Which boxes are open: as deep as was asked for or as stays readable, and always on the way to what was named.

A level is one box within another, module call or group. At depth 0 every box is folded; at depth 1 the outermost
ones are open.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from gradviz.view.fold.arrangement import Arrangements
from gradviz.view.fold.groups import Entry, Group
from gradviz.view.fold.overrides import Overrides
from gradviz.view.fold.nesting import Nesting

MAX_ROOM_FOR_PECULIARITIES = 2
"""How many times the usual number of things may be drawn so that custom functions are in sight."""


Span = tuple[int, int]
"""Where a part of the sequence of operations begins, and one after its end."""


@dataclass(slots=True)
class Opening:
    """Answers for each box whether it is open."""

    overrides: Overrides
    nesting: Nesting
    depth: int
    deepest: int | None
    """How many levels there are; None where everything is open."""
    plain_calls: frozenset[int] = frozenset()
    """Module calls that make a single operation and stay folded: open, they would say the same in twice the room."""
    each: Span | None = None
    """What one repeated box holds: open, it shows all its repetitions, each for itself."""
    _must_open: set[int] = field(init=False)
    _ranks: list[int] = field(init=False)

    def __post_init__(self) -> None:
        named = [scope for scope, (word, _) in self.overrides.named_boxes.items() if word == "open"]
        starts = [self.nesting.sequence[self.nesting.first[scope]] for scope in named if self.nesting.units[scope]]
        self._must_open = set(named)
        for scope in named:
            self._open_around(scope)
        in_sight = self.overrides.shown_singly | self.overrides.kept_visible | self.overrides.custom_functions
        for scope in {self.nesting.container[node] for node in in_sight} - {self.nesting.outermost}:
            self._must_open.add(scope)
            self._open_around(scope)
        self._ranks = sorted(self.nesting.rank[node] for node in (*starts, *in_sight))

    def _open_around(self, scope: int) -> None:
        parent = self.nesting.parent[scope]
        while parent != self.nesting.outermost and parent not in self._must_open:
            self._must_open.add(parent)
            parent = self.nesting.parent[parent]

    def level_inside(self, level: int, scope: int | None, span: Span) -> int | None:
        """The level of what a box at `level` holds; None where it is never shown.

        What must be open takes no level, so that the way to it costs none of the depth.
        """
        if scope is None:
            first = bisect_left(self._ranks, span[0])
            return level if first < len(self._ranks) and self._ranks[first] < span[1] else level + 1
        if scope in self._must_open:
            return level
        return None if scope in self.overrides.named_boxes or scope in self.plain_calls else level + 1

    def shows_each(self, entry: Entry, span: Span) -> bool:
        """Whether an open box shows all its repetitions instead of the first."""
        return span == self.each and isinstance(entry, Group) and entry.count > 1

    def is_open(self, level: int | None) -> bool:
        """Whether what lies at `level` is shown."""
        return level is not None and level <= self.depth


def choose_depth(arrangements: Arrangements, overrides: Overrides, depth: int | None, room: int) -> Opening:
    """Open boxes to `depth`, or to the largest depth at which no more than `room` things are drawn."""
    opening = _open_to_peculiarities(arrangements, overrides, depth, room)
    fits = _choose(arrangements, opening, depth, room)
    if not fits and depth is None:
        opening.plain_calls = _plain_calls(arrangements)
    if opening.plain_calls:
        # Folded calls have no parameters beside them, so that the same number of things makes a taller picture.
        # One more level may use it all where the picture would else be next to empty.
        _choose(arrangements, opening, None, room * 2 // 3)
        if _drawn_at(arrangements, opening, opening.depth) < room // 3:
            _choose(arrangements, opening, None, room)
    return opening


def _open_to_peculiarities(arrangements: Arrangements, overrides: Overrides, depth: int | None, room: int) -> Opening:
    """Boxes open on the way to all that is peculiar; where that takes too much room, to the first of each name.

    Where even these ways take far more room, the boxes around them stay as they would be without.
    """
    nodes = arrangements.graph.nodes
    first_of_name = {nodes[node].name: node for node in sorted(overrides.custom_functions, reverse=True)}
    ways = ((overrides.custom_functions, room), (frozenset(first_of_name.values()), MAX_ROOM_FOR_PECULIARITIES * room))
    for custom_functions, most in ways if overrides.custom_functions else ():
        opening = Opening(replace(overrides, custom_functions=custom_functions), arrangements.nesting, depth or 0, 0)
        if _drawn_at(arrangements, opening, 0) <= most:
            return opening
    return Opening(replace(overrides, custom_functions=frozenset()), arrangements.nesting, depth or 0, 0)


def _drawn_at(arrangements: Arrangements, opening: Opening, depth: int) -> int:
    """How many things are drawn with boxes open to that depth."""
    shown, only_folded = _weigh_levels(arrangements, opening)
    return sum(shown[level] for level in range(depth + 1)) + only_folded[depth]


def _choose(arrangements: Arrangements, opening: Opening, depth: int | None, room: int) -> bool:
    """Set the levels of `opening`; returns whether all of them are open."""
    shown, only_folded = _weigh_levels(arrangements, opening)
    opening.deepest = max(shown)
    if depth is None:
        total = 0
        for level in range(opening.deepest + 1):
            total += shown[level]
            if level and total + only_folded[level] > room:
                break
            opening.depth = level
    return opening.depth >= opening.deepest


def _plain_calls(arrangements: Arrangements) -> frozenset[int]:
    """Module calls of one ordinary operation."""
    nodes = arrangements.graph.nodes
    return frozenset(
        scope
        for scope, units in enumerate(arrangements.nesting.units[:-1])
        if len(units) == 1 and units[0] >= 0 and nodes[units[0]].kind in ("operation", "view", "inplace")
    )


def _weigh_levels(arrangements: Arrangements, opening: Opening) -> tuple[Counter[int], Counter[int]]:
    """For each level what is drawn from that depth on, and what is drawn at exactly that depth."""
    nesting = arrangements.nesting
    shown: Counter[int] = Counter({0: 0})
    only_folded: Counter[int] = Counter()
    stack: list[tuple[int, tuple[Entry, ...], int]] = [
        (nesting.outermost, arrangements.entries_of(nesting.outermost), 0)
    ]
    while stack:
        container, entries, level = stack.pop()
        for entry in entries:
            weight = arrangements.weights.of_folded(container, entry)
            inside = inside_of(arrangements, container, entry)
            if inside is None:
                shown[level] += weight
                continue
            shown[level] += 1
            below = opening.level_inside(
                level, scope_of(nesting, container, entry), arrangements.weights.span(container, entry)
            )
            if below is None:
                shown[level] += weight - 1
                continue
            if below != level:
                only_folded[level] += weight - 1
            stack.append((*inside, below))
    return shown, only_folded


def scope_of(nesting: Nesting, container: int, entry: Entry) -> int | None:
    """The module call that an entry's box stands for, the first where it is repeated; None for other groups."""
    if isinstance(entry, Group):
        if entry.count == 1 or len(entry.entries) != 1 or isinstance(entry.entries[0], Group):
            return None
        entry = entry.entries[0]
    unit = nesting.units[container][entry]
    return ~unit if unit < 0 else None


def inside_of(arrangements: Arrangements, container: int, entry: Entry) -> tuple[int, tuple[Entry, ...]] | None:
    """The container and the entries that an open box shows; None for what has no inside to show."""
    scope = scope_of(arrangements.nesting, container, entry)
    if scope is not None:
        return scope, arrangements.entries_of(scope)
    if isinstance(entry, Group) and (len(entry.entries) > 1 or isinstance(entry.entries[0], Group)):
        return container, entry.entries
    return None


# Boxes that stand for several alike ones, for pictures that show each repetition separately.


@dataclass(frozen=True, slots=True)
class RepeatedBox:
    """A box with a count, such as ``×12``."""

    level: int
    """How many boxes are around it."""
    span: Span
    count: int

    @property
    def operations(self) -> int:
        """In all its repetitions."""
        return self.span[1] - self.span[0]


def repeated_boxes(arrangements: Arrangements) -> Iterator[RepeatedBox]:
    """All that appear while open boxes show the first of their repetitions."""
    outermost = arrangements.nesting.outermost
    stack: list[tuple[int, tuple[Entry, ...], int]] = [(outermost, arrangements.entries_of(outermost), 0)]
    while stack:
        container, entries, level = stack.pop()
        for entry in entries:
            if isinstance(entry, Group) and entry.count > 1:
                yield RepeatedBox(level, arrangements.weights.span(container, entry), entry.count)
            inside = inside_of(arrangements, container, entry)
            if inside is not None:
                stack.append((*inside, level + 1))
