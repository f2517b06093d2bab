"""Which operation of one run is which of the other.

From the outside in: the two sequences of what stands outside of modules are aligned first, a module call counting as
one item, then what is inside the module calls that belong together. Within a sequence, items are matched by the keys of
`call_tree`, the surest first; each vaguer key only looks at the gaps that the ones before left, so a match never
crosses a surer one. In a gap that still has something on both sides, the largest module calls are opened, and what was
in them is aligned with the rest: so operations that were wrapped in a module, or taken out of one, are found.

What is left is matched by keys that only one operation on each side has, and by its operands: these are moved or
reordered operations, and their matches may cross others.

Cost: keys take one pass over each run. Each sequence takes O(n log n) for each of the six keys, and a gap of n items
with d differences O(n + d²), where d is limited (see `sequences`); every opened level is one more pass over its gap.
Two graphs of 200,000 nodes take seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from gradviz.analysis.diff.call_tree import LEVELS, CallTree, Item, KeyTable
from gradviz.analysis.diff.runs import Operation, Run
from gradviz.analysis.diff.sequences import common_pairs, longest_ascending


@dataclass
class Alignment:
    """Pairs of operations, by their indices."""

    to_b: dict[int, int] = field(default_factory=dict)
    to_a: dict[int, int] = field(default_factory=dict)
    moved: set[int] = field(default_factory=set)
    """Operations of the first run that stand at another point of the order in the second."""
    modules: dict[int, int] = field(default_factory=dict)
    """Module calls that belong together, by their scopes."""
    compiled_a: dict[int, list[int]] = field(default_factory=dict)
    """For compiled code in the second run, by its counterpart in the first, the operations that it stands for."""
    compiled_b: dict[int, list[int]] = field(default_factory=dict)
    """The same for compiled code in the first run; the keys are operations of the second."""

    def add(self, a: int, b: int) -> None:
        """Note that these two belong together."""
        self.to_b[a] = b
        self.to_a[b] = a

    def only_a(self, run: Run) -> list[Operation]:
        known = {*self.to_b, *(index for inside in self.compiled_a.values() for index in inside)}
        return [operation for operation in run.operations if operation.index not in known]

    def only_b(self, run: Run) -> list[Operation]:
        known = {*self.to_a, *(index for inside in self.compiled_b.values() for index in inside)}
        return [operation for operation in run.operations if operation.index not in known]


def aligned(a: Run, b: Run) -> Alignment:
    """Align the operations of two runs."""
    keys = KeyTable()
    aligner = _Aligner(CallTree(a, keys), CallTree(b, keys))
    aligner.align_in_order()
    _match_compiled_code(b, a, aligner.found.to_a, aligner.found.to_b, aligner.found.compiled_a)
    _match_compiled_code(a, b, aligner.found.to_b, aligner.found.to_a, aligner.found.compiled_b)
    _match_what_moved(aligner)
    return aligner.found


class _Aligner:
    def __init__(self, a: CallTree, b: CallTree) -> None:
        self.a = a
        self.b = b
        self.found = Alignment()
        self._gaps: list[tuple[list[int], list[int]]] = []
        """Gaps with operations on both sides that no key matched."""

    def align_in_order(self) -> None:
        waiting = [(self.a.top, self.b.top)]
        while waiting:
            waiting += self._align(*waiting.pop())

    def _align(self, items_a: list[int], items_b: list[int]) -> list[tuple[list[int], list[int]]]:
        """Align two sequences; returns further ones: the contents of module calls, and gaps with some of them open."""
        pairs: list[tuple[int, int]] = []
        for level in LEVELS:
            keys_a, keys_b = self.a.keys[level], self.b.keys[level]
            for (i, k), (j, m) in _gaps(pairs, len(items_a), len(items_b)):
                pairs += [
                    (i + x, j + y)
                    for x, y in common_pairs(
                        [keys_a[item] for item in items_a[i:k]], [keys_b[item] for item in items_b[j:m]]
                    )
                ]
            pairs.sort()
        further = []
        for i, j in pairs:
            one, other = self.a.items[items_a[i]], self.b.items[items_b[j]]
            if one.operation is not None and other.operation is not None:
                self.found.add(one.operation, other.operation)
            elif one.scope is not None and other.scope is not None:
                self.found.modules[one.scope] = other.scope
                further.append((one.children, other.children))
        for (i, k), (j, m) in _gaps(pairs, len(items_a), len(items_b)):
            opened = self._opened(items_a[i:k], items_b[j:m])
            if opened is not None:
                further.append(opened)
        return further

    def _opened(self, gap_a: list[int], gap_b: list[int]) -> tuple[list[int], list[int]] | None:
        """The gap with its largest module calls open; None if there is nothing to open."""
        sizes = [item.size for item in (*_modules(self.a, gap_a), *_modules(self.b, gap_b))]
        if not sizes:
            self._gaps.append((gap_a, gap_b))
            return None
        threshold = (max(sizes) + 1) // 2
        return _open(self.a, gap_a, threshold), _open(self.b, gap_b, threshold)

    def match_replaced(self) -> None:
        """One operation in the position of another: as many on both sides, with results of the same shapes."""
        for gap_a, gap_b in self._gaps:
            left_a = [one for i in gap_a if (one := self._operation(self.a, i)).index not in self.found.to_b]
            left_b = [one for j in gap_b if (one := self._operation(self.b, j)).index not in self.found.to_a]
            if len(left_a) == len(left_b) and all(map(_may_replace, left_a, left_b)):
                for one, other in zip(left_a, left_b, strict=True):
                    self.found.add(one.index, other.index)

    def _operation(self, tree: CallTree, item: int) -> Operation:
        index = tree.items[item].operation
        assert index is not None
        return tree.run.operations[index]


def _may_replace(one: Operation, other: Operation) -> bool:
    shapes = [[result.facts and result.facts.shape for result in each.results] for each in (one, other)]
    return shapes[0] == shapes[1] and len(one.operands) > 0 and len(other.operands) > 0


def _modules(tree: CallTree, gap: Iterable[int]) -> list[Item]:
    return [tree.items[index] for index in gap if tree.items[index].operation is None]


def _open(tree: CallTree, gap: Iterable[int], threshold: int) -> list[int]:
    opened: list[int] = []
    for index in gap:
        item = tree.items[index]
        if item.operation is None and item.size >= threshold:
            opened += item.children
        else:
            opened.append(index)
    return opened


def _gaps(pairs: list[tuple[int, int]], end_a: int, end_b: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """The ranges between pairs that have something on both sides."""
    corners = [(-1, -1), *pairs, (end_a, end_b)]
    return [((i + 1, k), (j + 1, m)) for (i, j), (k, m) in pairwise(corners) if k - i > 1 and m - j > 1]


# -- Compiled code -----------------------------------------------------------------------------------------------------


def _match_compiled_code(
    run: Run, eager: Run, to_eager: dict[int, int], from_eager: dict[int, int], inside: dict[int, list[int]]
) -> None:
    """A call of compiled code in `run` belongs to the last of the operations that stand at its point in the other.

    These are the unmatched ones between the counterparts of what is before and after the call.
    """
    for operation in run.operations:
        if operation.kind != "compiled" or operation.index in to_eager:
            continue
        before = next((to_eager[i] for i in range(operation.index - 1, -1, -1) if i in to_eager), -1)
        end = next((to_eager[i] for i in range(operation.index + 1, len(run.operations)) if i in to_eager), None)
        stands_for = [
            index
            for index in range(before + 1, len(eager.operations) if end is None else end)
            if index not in from_eager
        ]
        if stands_for:
            to_eager[operation.index], from_eager[stands_for[-1]] = stands_for[-1], operation.index
            inside[stands_for[-1]] = stands_for[:-1]


# -- What moved --------------------------------------------------------------------------------------------------------


def _match_what_moved(aligner: _Aligner) -> None:
    found = aligner.found
    for level in ("value", "parameters", "exact"):
        _match_unique(aligner, partial(_keys_by_operation, level=level))
    while _match_by_operands(aligner):
        pass
    aligner.match_replaced()
    pairs = sorted(found.to_b.items())
    found.moved = set(found.to_b) - {a for a, _ in longest_ascending(pairs)}


def _keys_by_operation(tree: CallTree, level: str) -> dict[int, Hashable]:
    keys = tree.keys[level]
    return {item.operation: keys[index] for index, item in enumerate(tree.items) if item.operation is not None}


def _match_unique(aligner: _Aligner, keys_of: Callable[[CallTree], dict[int, Hashable]]) -> int:
    """Match the operations whose key no other unmatched one of the same run has."""
    found = aligner.found
    left_a = {op: key for op, key in keys_of(aligner.a).items() if op not in found.to_b and key is not None}
    left_b = {op: key for op, key in keys_of(aligner.b).items() if op not in found.to_a and key is not None}
    count_a, count_b = Counter(left_a.values()), Counter(left_b.values())
    index_of = {key: op for op, key in left_b.items() if count_b[key] == 1}
    matched = 0
    for op, key in left_a.items():
        if count_a[key] == 1 and key in index_of:
            found.add(op, index_of[key])
            matched += 1
    return matched


_NAMELESS = ("", "data", "input", "parameter", "buffer")


def _match_by_operands(aligner: _Aligner) -> int:
    """Match operations of one kind that take what belongs together."""
    to_b = aligner.found.to_b

    def keys_of(tree: CallTree) -> dict[int, Hashable]:
        keys: dict[int, Hashable] = {}
        matched = to_b if tree is aligner.a else aligner.found.to_a
        for operation in tree.run.operations:
            if operation.index in matched or not operation.operands:
                continue
            sources = [
                (operand.leaf or "")
                if operand.source is None
                # The same number for both runs: that of the second.
                else to_b.get(operand.source)
                if tree is aligner.a
                else operand.source
                for operand in operation.operands
            ]
            if None not in sources and any(source not in _NAMELESS for source in sources):
                keys[operation.index] = (operation.word, tuple(sources))
        return keys

    return _match_unique(aligner, keys_of)
