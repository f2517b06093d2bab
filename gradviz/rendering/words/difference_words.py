"""Words and signs for what differs between two runs, as in a diff of two texts: − and +, and ≠ for what changed."""

from __future__ import annotations

from collections import Counter

from gradviz.graph.query.operation_names import node_word
from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.view.fold.plumbing import PLUMBING_NAMES
from gradviz.view.marks import Mark, NodeState
from gradviz.view.model import Item

NODE_STATES: dict[NodeState, str] = {"only_a": "− only in A", "only_b": "+ only in B", "changed": "≠ changed"}
SIGNS = frozenset(words[0] for words in NODE_STATES.values())
FIRST_DIFFERENCE = "first difference"


def marks_in(facts: SubjectFacts, item: Item) -> list[Mark]:
    """The marks of the nodes that an item stands for; none for an open box, whose contents have them."""
    if facts.marks is None or item.is_open:
        return []
    found = [mark for node in item.nodes if (mark := facts.marks.of_nodes.get(node)) is not None]
    if item.kind == "node" and item.node not in facts.marks.of_nodes:
        # Views that the operation before it made are drawn with it.
        return [mark for mark in found if not mark.is_detail]
    return found


def common_state(facts: SubjectFacts, item: Item) -> NodeState | None:
    """The state of everything in an item; ``changed`` if it holds several; None if nothing in it differs."""
    marks = marks_in(facts, item)
    if not marks:
        return None
    states = states_in(facts, item)
    return (states.pop() if len(states) == 1 else None) or "changed"


def mark_words(facts: SubjectFacts, item: Item) -> str:
    """``+ only in B``; of a box that differs in part ``2 changed, 1 only in B inside``; of an operation with a view or
    copy that differs ``+ only in B: view``."""
    marks = marks_in(facts, item)
    states = states_in(facts, item)
    state = states.pop() if len(states) == 1 else None
    if state is not None:
        words = NODE_STATES[state]
    elif item.kind == "node":
        differing = next(node for node in item.nodes if facts.marks and facts.marks.of_nodes.get(node) in marks)
        words = f"{NODE_STATES[marks[0].state]}: {node_word(facts.graph.nodes[differing])}"
    else:
        counts = Counter(mark.state for mark in marks if not mark.is_detail)
        words = ", ".join(f"{counts[each]:,} {text[2:]}" for each, text in NODE_STATES.items() if counts[each])
        words += " inside"
    is_first = any(mark.is_first for mark in marks)
    return f"{FIRST_DIFFERENCE}: {words[2:] if words[0] in SIGNS else words}" if is_first else words


def states_in(facts: SubjectFacts, item: Item) -> set[NodeState | None]:
    """The states of the operations in an item, without the views that are merged into them."""
    assert facts.marks is not None
    if item.kind == "node" and item.repeat == 1 and item.node is not None:
        return {facts.marks.state_of(item.node)}
    nodes = [facts.graph.nodes[node] for node in item.nodes if not facts.graph.nodes[node].is_leaf]
    computing = [node for node in nodes if node.name not in PLUMBING_NAMES and node.kind != "view"]
    return {facts.marks.state_of(node.id) for node in computing or nodes}
