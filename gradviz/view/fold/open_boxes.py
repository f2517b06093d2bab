"""Which boxes are open: to the given depth or as deep as the picture stays readable, and always around named nodes.

A level is one box within another, module call or group. At depth 0 every box is folded; at depth 1 the outermost ones
are open.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from gradviz.graph.model import Node
from gradviz.view.fold.arrangement import Arrangements
from gradviz.view.fold.groups import Entry, Group
from gradviz.view.fold.nesting import Nesting
from gradviz.view.fold.overrides import Overrides

MAX_GROWTH_FOR_CUSTOM_FUNCTIONS = 2
"""How many times the usual number of things may be drawn to show custom functions."""


Span = tuple[int, int]
"""A range of the sequence of operations: its start, and one after its end."""


@dataclass(slots=True)
class Opening:
    """Tells for each box whether it is open."""

    overrides: Overrides
    nesting: Nesting
    depth: int
    deepest: int | None
    """How many levels there are; None where everything is open."""
    plain_calls: frozenset[int] = frozenset()
    """Module calls that make a single operation and stay folded: open, they say the same with two shapes instead of
    one."""
    each: Span | None = None
    """The range of one repeated box that, when open, shows all its repetitions singly."""
    _must_open: set[int] = field(init=False)
    _ranks: list[int] = field(init=False)

    def __post_init__(self) -> None:
        named = [scope for scope, (word, _) in self.overrides.named_boxes.items() if word == "open"]
        starts = [self.nesting.sequence[self.nesting.first[scope]] for scope in named if self.nesting.units[scope]]
        self._must_open = set(named)
        for scope in named:
            self._open_around(scope)
        visible = self.overrides.shown_singly | self.overrides.kept_visible | self.overrides.custom_functions
        for scope in {self.nesting.container[node] for node in visible} - {self.nesting.outermost}:
            self._must_open.add(scope)
            self._open_around(scope)
        for scope in self.overrides.shown_boxes:
            self._open_around(scope)
            starts.append(self.nesting.sequence[self.nesting.first[scope]])
        self._ranks = sorted(self.nesting.rank[node] for node in (*starts, *visible))

    def _open_around(self, scope: int) -> None:
        parent = self.nesting.parent[scope]
        while parent != self.nesting.outermost and parent not in self._must_open:
            self._must_open.add(parent)
            parent = self.nesting.parent[parent]

    def level_inside(self, level: int, scope: int | None, span: Span) -> int | None:
        """The level of the contents of a box at `level`; None where they are never shown.

        Boxes that must be open add no level, so that they use up none of the depth.
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
        """Whether the contents at `level` are shown."""
        return level is not None and level <= self.depth


def choose_depth(arrangements: Arrangements, overrides: Overrides, depth: int | None, max_drawn: int) -> Opening:
    """Open boxes to `depth`, or to the largest depth that draws at most `max_drawn` things.

    Calls of a single operation are opened last: by a depth that is larger than that of all other boxes.
    """
    opening = _open_to_custom_functions(arrangements, overrides, depth, max_drawn)
    opening.plain_calls = _plain_calls(arrangements)
    if depth is not None:
        _choose(arrangements, opening, depth, max_drawn)
        if opening.plain_calls and depth > (opening.deepest or 0):
            opening.plain_calls = frozenset()
            _choose(arrangements, opening, depth, max_drawn)
        return opening
    if not opening.plain_calls:
        _choose(arrangements, opening, None, max_drawn)
        return opening
    # Folded calls have no parameters beside them, so the same number of things makes a taller picture. One more level
    # may use the whole limit where the picture would otherwise be almost empty.
    _choose(arrangements, opening, None, max_drawn * 2 // 3)
    if _drawn_at(arrangements, opening, opening.depth) < max_drawn // 3:
        _choose(arrangements, opening, None, max_drawn)
    return opening


def _open_to_custom_functions(
    arrangements: Arrangements, overrides: Overrides, depth: int | None, max_drawn: int
) -> Opening:
    """Opens the boxes around all custom functions; where that draws too much, around the first of each name.

    Where even these draw far too much, custom functions open no box.
    """
    nodes = arrangements.graph.nodes
    first_of_name = {nodes[node].name: node for node in sorted(overrides.custom_functions, reverse=True)}
    attempts = (
        (overrides.custom_functions, max_drawn),
        (frozenset(first_of_name.values()), MAX_GROWTH_FOR_CUSTOM_FUNCTIONS * max_drawn),
    )
    for custom_functions, limit in attempts if overrides.custom_functions else ():
        opening = Opening(replace(overrides, custom_functions=custom_functions), arrangements.nesting, depth or 0, 0)
        if _drawn_at(arrangements, opening, 0) <= limit:
            return opening
    return Opening(replace(overrides, custom_functions=frozenset()), arrangements.nesting, depth or 0, 0)


def _drawn_at(arrangements: Arrangements, opening: Opening, depth: int) -> int:
    """How many things are drawn with boxes open to that depth."""
    shown, only_folded = _weigh_levels(arrangements, opening)
    return sum(shown[level] for level in range(depth + 1)) + only_folded[depth]


def _choose(arrangements: Arrangements, opening: Opening, depth: int | None, max_drawn: int) -> None:
    """Set the levels of `opening`."""
    shown, only_folded = _weigh_levels(arrangements, opening)
    opening.deepest = max(shown)
    if depth is None:
        total = 0
        for level in range(opening.deepest + 1):
            total += shown[level]
            if level and total + only_folded[level] > max_drawn:
                break
            opening.depth = level


def _plain_calls(arrangements: Arrangements) -> frozenset[int]:
    """Module calls of one ordinary operation."""
    nodes = arrangements.graph.nodes
    return frozenset(
        scope
        for scope, units in enumerate(arrangements.nesting.units[:-1])
        if len(units) == 1 and units[0] >= 0 and _is_ordinary(nodes[units[0]])
    )


def _is_ordinary(node: Node) -> bool:
    return node.kind in ("operation", "view", "inplace") or node.is_recomputed


def _weigh_levels(arrangements: Arrangements, opening: Opening) -> tuple[Counter[int], Counter[int]]:
    """For each level, how many things are drawn from that depth on, and how many at exactly that depth."""
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
    """The module call that an entry's box shows, the first where it is repeated; None for other groups."""
    if isinstance(entry, Group):
        if entry.count == 1 or len(entry.entries) != 1 or isinstance(entry.entries[0], Group):
            return None
        entry = entry.entries[0]
    unit = nesting.units[container][entry]
    return ~unit if unit < 0 else None


def inside_of(arrangements: Arrangements, container: int, entry: Entry) -> tuple[int, tuple[Entry, ...]] | None:
    """The container and the entries that an open box shows; None for an entry that cannot be opened."""
    scope = scope_of(arrangements.nesting, container, entry)
    if scope is not None:
        return scope, arrangements.entries_of(scope)
    if isinstance(entry, Group) and (len(entry.entries) > 1 or isinstance(entry.entries[0], Group)):
        return container, entry.entries
    return None


# Boxes with several repetitions, for pictures that show each repetition separately.


@dataclass(frozen=True, slots=True)
class RepeatedBox:
    """A box with a count, such as ``×12``."""

    level: int
    """How many boxes are around it."""
    span: Span
    count: int

    @property
    def operations(self) -> int:
        """The number of operations in all its repetitions."""
        return self.span[1] - self.span[0]


def repeated_boxes(arrangements: Arrangements) -> Iterator[RepeatedBox]:
    """Every repeated box that appears while open boxes show only their first repetition."""
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
