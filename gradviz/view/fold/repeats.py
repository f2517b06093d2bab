"""How repeats fold: which calls are alike, how many repetitions make one box, and when sizes are ignored.

To change how repeats fold, change this file:

1. `sign` decides which operations and module calls are alike.
2. `Row.is_worth_folding` has the thresholds: how many repetitions are drawn as one box.
3. `RepeatFolder.fold` lets calls count as alike that differ only in the sizes of their tensors; `MIN_GAIN` says when.
4. `fold_repeats` folds short repeats first, then repeats of those, because loops lie within loops.

`repeat_search` finds the repetitions in a row of signatures; `groups` defines the boxes that result.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from gradviz.graph.model import Graph, Node, TensorFacts
from gradviz.view.fold.groups import Entry, Group, first_position, member_range
from gradviz.view.fold.nesting import Nesting
from gradviz.view.fold.overrides import Overrides
from gradviz.view.fold.plumbing import Connections
from gradviz.view.fold.repeat_search import Run, Wiring, find_runs

LONGEST_PERIODS = (1, 6, 40, 400)
"""Tried one after the other: an inner loop must be folded before the loop around it is searched for."""
LONG_REPETITION = 6
"""A repetition of this many members may itself be repetitions that differ in sizes."""
MIN_GAIN = 3
"""Sizes are ignored where that makes the members that are drawn fewer by this factor."""


@dataclass(frozen=True, slots=True)
class Row:
    """The members of one container, as one list for each property."""

    entries: list[Entry]
    signatures: list[int]
    wiring: list[Wiring]
    box_sizes: list[int]
    """Operations inside a member; 0 for a single operation."""
    lines: list[int]
    """Source lines; 0 where unknown."""

    def is_worth_folding(self, run: Run) -> bool:
        """Whether one box is easier to read than the members; a few equal operations in a row are not folded."""
        sizes = self.box_sizes[run.start : run.start + run.period]
        if not run.is_chain:
            # Side by side, as query, key and value are: each has its own position in the picture.
            return run.count >= 5
        if all(sizes):
            return run.count >= 3 or sum(sizes) >= 4
        if run.period == 1:
            return run.count >= 4
        return run.count >= 3 or sum(max(size, 1) for size in sizes) >= 12


class RepeatFolder:
    """Folds the repeats of each container."""

    def __init__(self, graph: Graph, connections: Connections, nesting: Nesting, overrides: Overrides) -> None:
        self._graph, self._connections, self._nesting, self._overrides = graph, connections, nesting, overrides
        self._signatures = self._sign(with_sizes=True)

    def signature_of(self, container: int) -> int:
        """A number that is equal for similar containers; -1 for the outermost level."""
        return -1 if container == self._nesting.outermost else self._signatures.scopes[container]

    def fold(self, container: int, lines: list[int], is_readable: Callable[[Sequence[Entry]], bool]) -> Sequence[Entry]:
        """The members of `container` with repeats in groups; `lines` has the source line of each member.

        Where the result is not readable, repetitions that differ only in the sizes of their tensors fold, too; also
        where that makes one long repetition much shorter: sizes that come again after every seven layers.
        """
        members = self._row(container, lines)
        row = fold_repeats(members)
        if any(_is_long(entry) for entry in row.entries):
            without_sizes = replace(members, signatures=self._sizeless.members[container])
            shorter = fold_repeats(without_sizes, sizes_differ=True)
            if _count_drawn(shorter.entries) * MIN_GAIN <= _count_drawn(row.entries):
                return shorter.entries
        if is_readable(row.entries):
            return row.entries
        signatures = signatures_of_entries(row.entries, self._sizeless.members[container])
        return fold_repeats(replace(row, signatures=signatures), sizes_differ=True).entries

    @cached_property
    def _sizeless(self) -> Signatures:
        """Signatures without sizes, computed when needed: most graphs never need them."""
        return self._sign(with_sizes=False)

    def _sign(self, *, with_sizes: bool) -> Signatures:
        return sign(self._graph, self._connections, self._nesting, self._overrides, with_sizes=with_sizes)

    def _row(self, container: int, lines: list[int]) -> Row:
        members = self._nesting.units[container]
        spans = [self._nesting.span(unit) for unit in members]
        return Row(
            list(range(len(members))),
            self._signatures.members[container],
            self._signatures.wiring[container],
            [stop - start if unit < 0 else 0 for unit, (start, stop) in zip(members, spans, strict=True)],
            lines,
        )


def _is_long(entry: Entry) -> bool:
    return isinstance(entry, Group) and entry.count > 1 and len(entry.entries) >= LONG_REPETITION


def _count_drawn(entries: Sequence[Entry]) -> int:
    """How many members are drawn when all groups are open."""
    count, waiting = 0, list(entries)
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, Group):
            waiting.extend(entry.entries)
        else:
            count += 1
    return count


def fold_repeats(row: Row, *, sizes_differ: bool = False) -> Row:
    """`row` with repeats in groups, and in groups of groups.

    `sizes_differ` says that its signatures leave out sizes.
    """
    interner = Interner()
    row = replace(row, signatures=[interner.number(("member", signature)) for signature in row.signatures])
    shortest = 1
    for longest in LONGEST_PERIODS:
        periods = range(shortest, longest + 1)
        while runs := find_runs(row.signatures, row.wiring, row.is_worth_folding, row.lines, periods=periods):
            row = _fold(row, runs, interner, sizes_differ=sizes_differ)
            periods = range(1, longest + 1)  # the new groups may repeat
        shortest = longest + 1
    return row


def _fold(row: Row, runs: Sequence[Run], interner: Interner, *, sizes_differ: bool) -> Row:
    pieces = _pieces(len(row.entries), runs)
    new_position = [position for position, (start, stop, _) in enumerate(pieces) for _ in range(start, stop)]
    folded = Row([], [], [], [], [row.lines[start] for start, _, _ in pieces])
    for position, (start, stop, run) in enumerate(pieces):
        folded.entries.append(row.entries[start] if run is None else _group(row, run, sizes_differ))
        folded.signatures.append(row.signatures[start] if run is None else interner.number(_key(row, run)))
        sizes = row.box_sizes[start:stop]
        folded.box_sizes.append(sizes[0] if run is None else sum(max(size, 1) for size in sizes))
        folded.wiring.append(_rewire(row.wiring[start:stop], new_position, position))
    return folded


def _pieces(total: int, runs: Sequence[Run]) -> list[tuple[int, int, Run | None]]:
    """Start and stop of every run and of every single member between them."""
    pieces: list[tuple[int, int, Run | None]] = []
    done = 0
    for run in runs:
        pieces.extend((position, position + 1, None) for position in range(done, run.start))
        pieces.append((run.start, run.stop, run))
        done = run.stop
    pieces.extend((position, position + 1, None) for position in range(done, total))
    return pieces


def _group(row: Row, run: Run, sizes_differ: bool) -> Group:
    first = row.entries[run.start : run.start + run.period]
    start, stop = first_position(first[0]), member_range(row.entries[run.stop - 1])[1]
    return Group(start, stop, tuple(first), run.count, sizes_differ=sizes_differ)


def _key(row: Row, run: Run) -> tuple[object, ...]:
    return ("run", run.count, *row.signatures[run.start : run.start + run.period])


def _rewire(wiring: Sequence[Wiring], new_position: Sequence[int], own: int) -> Wiring:
    if len(wiring) == 1:
        return tuple([source if source < 0 else new_position[source] for source in wiring[0]])
    sources = (source if source < 0 else new_position[source] for wires in wiring for source in wires)
    return tuple(source for source in dict.fromkeys(sources) if source != own)


# Which calls are alike. Two units with the same signature have the same classes, operations, shapes and inner wiring,
# whatever they are called; members of alike containers have the same order. Signatures may leave out the sizes of
# tensors: in a loop whose tensor grows, no two steps are equal.


class Interner:
    """Gives equal values the same small integer: comparing two large structures becomes comparing two numbers."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def number(self, key: Hashable) -> int:
        return self._known.setdefault(key, len(self._known))


@dataclass(frozen=True, slots=True)
class Signatures:
    """For each container the signatures and the wiring of its members; for each scope its own signature."""

    members: list[list[int]]
    wiring: list[list[Wiring]]
    scopes: list[int]


def sign(
    graph: Graph, connections: Connections, nesting: Nesting, overrides: Overrides, *, with_sizes: bool
) -> Signatures:
    """Sign every unit, innermost first. Units with different overrides are not alike: the user asked to see them."""
    interner = Interner()
    operations = _sign_operations(graph, connections, nesting, interner, overrides, with_sizes=with_sizes)
    result = Signatures([[] for _ in nesting.parent], [[] for _ in nesting.parent], [-1] * len(nesting.parent))
    external: list[tuple[int, ...]] = [()] * len(nesting.parent)
    for current in nesting.innermost_first():
        members = nesting.units[current]
        if not members:
            continue
        sources = [_operation_sources(graph, connections, unit) if unit >= 0 else external[~unit] for unit in members]
        result.wiring[current], external[current] = _wire(nesting, current, sources)
        signed = [operations[unit] if unit >= 0 else result.scopes[~unit] for unit in members]
        result.members[current] = signed
        if current != nesting.outermost:
            class_name = graph.scopes[current].class_name
            key = (class_name, overrides.named_boxes.get(current), tuple(signed), _inner_wiring(result.wiring[current]))
            result.scopes[current] = interner.number(key)
    return result


def _sign_operations(
    graph: Graph,
    connections: Connections,
    nesting: Nesting,
    interner: Interner,
    overrides: Overrides,
    *,
    with_sizes: bool,
) -> dict[int, int]:
    nodes = graph.nodes
    overridden = overrides.of_their_own
    signed = {}
    for unit in nesting.sequence:
        node = nodes[unit]
        outputs, parameters = node.outputs, _parameter_facts(graph, node, connections)
        facts = (outputs, parameters) if with_sizes else (_without_sizes(outputs), _without_sizes(parameters))
        override = overrides.of_node(unit) if unit in overridden else None
        signed[unit] = interner.number((node.name, node.kind, node.forward_call, facts, override))
    return signed


def _without_sizes(tensors: Sequence[TensorFacts | None]) -> Hashable:
    return tuple(
        [
            each and (len(each.shape), each.dtype, each.device, each.layout, each.type_name, each.placements)
            for each in tensors
        ]
    )


def _parameter_facts(graph: Graph, node: Node, connections: Connections) -> tuple[TensorFacts | None, ...]:
    """Parameters of the same shapes are alike. Data is left out: a first step often has none where later ones do."""
    nodes = graph.nodes
    found: tuple[TensorFacts | None, ...] = ()
    for edge in connections.inputs[node.id]:
        if edge is not None and nodes[edge.target].kind == "parameter":
            found += nodes[edge.target].outputs
    for index in node.constants:
        if graph.constants[index].kind != "data":
            found += (graph.constants[index].tensor,)
    return found


def _operation_sources(graph: Graph, connections: Connections, node: int) -> list[int]:
    nodes = graph.nodes
    return [
        edge.target
        for edge in connections.inputs[node]
        if edge is not None and nodes[edge.target].kind not in ("parameter", "input")
    ]


def _wire(nesting: Nesting, container: int, sources: Sequence[Sequence[int]]) -> tuple[list[Wiring], tuple[int, ...]]:
    """Turn sources into positions; sources outside are counted in the order in which they are first used."""
    outside: dict[int, int] = {}
    position_in = nesting.position_in
    wiring = []
    for wanted in sources:
        wires = []
        for source in wanted:
            position = position_in(container, source)
            wires.append(position if position >= 0 else -1 - outside.setdefault(source, len(outside)))
        wiring.append(tuple(dict.fromkeys(wires)) if len(wires) > 1 else tuple(wires))
    return wiring, tuple(outside)


def _inner_wiring(wiring: Sequence[Wiring]) -> tuple[Wiring, ...]:
    """Keep only sources inside: a first call takes data where later calls take the previous call's result."""
    return tuple([wires if not wires or min(wires) >= 0 else tuple([s for s in wires if s >= 0]) for wires in wiring])


def signatures_of_entries(entries: Sequence[Entry], signatures: Sequence[int]) -> list[int]:
    """A signature for each entry of a folded row, made from the signatures of its members."""
    interner = Interner()

    def number(entry: Entry) -> int:
        inside: list[Entry] = [entry]
        key: list[int] = []
        while inside:  # groups within groups, outermost first
            each = inside.pop()
            if isinstance(each, Group):
                key += (-1, each.count, len(each.entries))
                inside.extend(reversed(each.entries))
            else:
                key.append(signatures[each])
        return interner.number(tuple(key))

    return [number(entry) for entry in entries]
