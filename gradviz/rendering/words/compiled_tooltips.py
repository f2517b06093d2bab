"""What a compiler made of an operation, for tooltips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from gradviz.graph.model import Node
from gradviz.rendering.words.common_words import listed
from gradviz.rendering.words.subject_facts import SubjectFacts

_MOST = 8


def compiled_lines(facts: SubjectFacts, node: Node) -> Iterator[str]:
    """What its backward was compiled into, and what of it is computed again there; nothing if torch does not tell."""
    region = facts.graph.regions[node.region] if node.region is not None else None
    if region is None or not node.inner_nr:
        return
    again = Counter[str]()
    for each in region.recomputed or ():
        if each.inner_nr == node.inner_nr:
            again[each.operation] += each.count
    if again:
        yield f"computed again in backward: {_operators(again)}"
    for part in region.backward_parts:
        if part.inner_nr == node.inner_nr:
            yield f"its backward was compiled into: {_operators(part.operators)}"


def _operators(counts: Mapping[str, int]) -> str:
    return listed([f"{name} x{count}" if count > 1 else name for name, count in Counter(counts).most_common()], _MOST)
