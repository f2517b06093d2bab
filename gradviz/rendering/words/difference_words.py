"""Words and signs for what differs between two runs, as in a diff of two texts: − and +, and ≠ for what changed."""

from __future__ import annotations

from collections import Counter

from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.view.marks import Mark, NodeState
from gradviz.view.model import Item

NODE_STATES: dict[NodeState, str] = {"only_a": "− only in A", "only_b": "+ only in B", "changed": "≠ changed"}
FIRST_DIFFERENCE = "first difference"


def marks_in(facts: SubjectFacts, item: Item) -> list[Mark]:
    """The marks of the nodes that an item stands for; none for an open box, whose contents have them."""
    if facts.marks is None or item.is_open:
        return []
    found = (facts.marks.of_nodes.get(node) for node in item.nodes)
    return [mark for mark in found if mark is not None]


def common_state(facts: SubjectFacts, item: Item) -> NodeState | None:
    """The state of everything in an item; ``changed`` if it holds several; None if nothing in it differs."""
    states = {mark.state for mark in marks_in(facts, item)}
    if not states:
        return None
    return states.pop() if _is_whole(facts, item) else "changed"


def mark_words(facts: SubjectFacts, item: Item) -> str:
    """``+ only in B``; for a box of which only a part differs ``2 changed, 1 only in B inside``."""
    marks = marks_in(facts, item)
    state = common_state(facts, item)
    if state is not None and _is_whole(facts, item):
        words = NODE_STATES[state]
    else:
        counts = Counter(mark.state for mark in marks)
        words = ", ".join(f"{counts[each]:,} {text[2:]}" for each, text in NODE_STATES.items() if counts[each])
        words += " inside" if item.kind == "box" else f" of {len(item.nodes):,}"
    is_first = any(mark.is_first for mark in marks)
    return f"{FIRST_DIFFERENCE}: {words.removeprefix('≠ ')}" if is_first else words


def _is_whole(facts: SubjectFacts, item: Item) -> bool:
    """Whether an item is all of one state. A single operation is, with the views that are merged into it."""
    assert facts.marks is not None
    if item.kind == "node" and item.repeat == 1 and item.node is not None:
        own = facts.marks.state_of(item.node)
        return {mark.state for mark in marks_in(facts, item)} == {own}
    return len({facts.marks.state_of(node) for node in item.nodes if not facts.graph.nodes[node].is_leaf}) == 1
