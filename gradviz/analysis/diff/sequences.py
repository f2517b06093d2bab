"""Which items of two sequences belong together, in order, judged by keys that are the same for items that may.

Three steps, each for what the one before left: a common beginning and end; keys that each sequence has exactly once,
of which the longest ascending series is taken (as in patience diff); and Myers' shortest edit script. The first two
take O(n log n). The third takes O(n + d²) for `d` insertions and deletions, and gives up at `MAX_EDITS`: what it has
matched until then counts, and the next, coarser key gets another chance.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import pairwise

Pair = tuple[int, int]
MAX_EDITS = 1_000


def common_pairs(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[Pair]:
    """Pairs of indices of items with the same key, ascending in both. A key of None belongs to no other."""
    found: list[Pair] = []
    open_ranges = [(0, len(a), 0, len(b))]
    while open_ranges:
        a0, a1, b0, b1 = open_ranges.pop()
        while a0 < a1 and b0 < b1 and a[a0] == b[b0] and a[a0] is not None:
            found.append((a0, b0))
            a0, b0 = a0 + 1, b0 + 1
        while a0 < a1 and b0 < b1 and a[a1 - 1] == b[b1 - 1] and a[a1 - 1] is not None:
            a1, b1 = a1 - 1, b1 - 1
            found.append((a1, b1))
        if a0 == a1 or b0 == b1:
            continue
        anchors = _anchors(a, b, (a0, a1, b0, b1))
        if not anchors:
            found += _pairs_of_shared_keys(a, b, (a0, a1, b0, b1))
            continue
        found += anchors
        corners = [(a0 - 1, b0 - 1), *anchors, (a1, b1)]
        for (i, j), (k, m) in pairwise(corners):
            if k - i > 1 and m - j > 1:
                open_ranges.append((i + 1, k, j + 1, m))
    return sorted(found)


def _anchors(a: Sequence[Hashable], b: Sequence[Hashable], within: tuple[int, int, int, int]) -> list[Pair]:
    """Keys that occur once in each range, without those that would cross."""
    a0, a1, b0, b1 = within
    count_a, count_b = Counter(a[a0:a1]), Counter(b[b0:b1])
    index_of = {key: j for j, key in enumerate(b[b0:b1], b0) if count_b[key] == 1}
    pairs = [
        (i, index_of[key])
        for i, key in enumerate(a[a0:a1], a0)
        if key is not None and count_a[key] == 1 and key in index_of
    ]
    return longest_ascending(pairs)


def longest_ascending(pairs: Sequence[Pair]) -> list[Pair]:
    """Of pairs that ascend in their first number, the longest series that ascends in both."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int | None] = []
    for index, (_, j) in enumerate(pairs):
        length = bisect_left(tails, j)
        before.append(ends[length - 1] if length else None)
        if length == len(tails):
            tails.append(j)
            ends.append(index)
        else:
            tails[length], ends[length] = j, index
    series = []
    last = ends[-1] if ends else None
    while last is not None:
        series.append(pairs[last])
        last = before[last]
    return series[::-1]


def _pairs_of_shared_keys(
    a: Sequence[Hashable], b: Sequence[Hashable], within: tuple[int, int, int, int]
) -> list[Pair]:
    """The pairs of an edit script of what both ranges have: the rest would only make it longer."""
    a0, a1, b0, b1 = within
    shared = set(a[a0:a1]) & set(b[b0:b1]) - {None}
    places_a = [i for i in range(a0, a1) if a[i] in shared]
    places_b = [j for j in range(b0, b1) if b[j] in shared]
    if not shared:
        return []
    pairs = _edit_script_pairs([a[i] for i in places_a], [b[j] for j in places_b])
    return [(places_a[i], places_b[j]) for i, j in pairs]


def _edit_script_pairs(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[Pair]:
    """Myers' greedy algorithm: the items that a shortest edit script keeps."""
    reach = {1: 0}
    trace: list[dict[int, int]] = []
    for edits in range(min(len(a) + len(b), MAX_EDITS) + 1):
        trace.append(dict(reach) if edits <= 1 else {k: reach[k] for k in range(-edits, edits + 1) if k in reach})
        for k in range(-edits, edits + 1, 2):
            down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
            x = reach[k + 1] if down else reach[k - 1] + 1
            while x < len(a) and x - k < len(b) and a[x] == b[x - k] and a[x] is not None:
                x += 1
            reach[k] = x
            if x >= len(a) and x - k >= len(b):
                return _kept(trace, len(a), len(b))
    # Too different: go back from the point that is furthest along.
    k = max((k for k in reach if 0 <= reach[k] - k <= len(b) and reach[k] <= len(a)), key=lambda k: 2 * reach[k] - k)
    trace.append(dict(reach))
    return _kept(trace, reach[k], reach[k] - k)


def _kept(trace: Sequence[dict[int, int]], x: int, y: int) -> list[Pair]:
    pairs: list[Pair] = []
    for edits in range(len(trace) - 1, 0, -1):
        reach, k = trace[edits], x - y
        if k + 1 not in reach and k - 1 not in reach:
            continue
        down = k - 1 not in reach or (k + 1 in reach and reach[k - 1] < reach[k + 1])
        start_k = k + 1 if down else k - 1
        start_x = reach[start_k]
        start_y = start_x - start_k
        end_x = start_x if down else start_x + 1
        while x > end_x:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = start_x, start_y
    while x > 0 and y > 0:
        x, y = x - 1, y - 1
        pairs.append((x, y))
    return pairs[::-1]
