"""What an operation or a folded box keeps for backward, for tooltips."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.memory.kept_memory import keeps_unknown, kept_bytes
from gradviz.graph.model import Node
from gradviz.graph.number_words import byte_words
from gradviz.graph.query.operation_names import autograd_name
from gradviz.graph.saved_tensors import SavedTensor
from gradviz.rendering.words.common_words import counted, listed, shape_words
from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.view.model import Item

MAX_LINES = 8
"""A concatenation may save a hundred tensors."""


def kept_by_node(facts: SubjectFacts, node: Node) -> Iterator[str]:
    """A line for each tensor that a node saves: its slot, its size, and which nodes keep the same memory."""
    for saved in node.saved[:MAX_LINES]:
        parts = (*saved_facts(facts, saved), *_sharing(facts, node, saved))
        yield f"saves {saved.slot}: {', '.join(parts)}"
    if len(node.saved) > MAX_LINES:
        yield f"saves {counted(len(node.saved) - MAX_LINES, 'more tensor')}"


def kept_by_box(facts: SubjectFacts, item: Item) -> Iterator[str]:
    """What the nodes of a box keep, each storage counted once."""
    size, nodes = kept_bytes(facts.graph, item.nodes), item.nodes
    words = [byte_words(size)] if size else []
    if keeps_unknown(facts.graph, nodes):
        words.append("tensors of unknown size")
    if words:
        yield f"saves {' and '.join(words)} for backward, parameters and buffers not counted"


def saved_facts(facts: SubjectFacts, saved: SavedTensor) -> Iterator[str]:
    """Shape, size and state of a saved tensor, and the facts about its memory."""
    if saved.tensor is not None:
        yield shape_words(saved.tensor)
    if saved.state == "recomputed":
        yield f"{byte_words(saved.bytes)} not kept: checkpointing computes it again"
    elif saved.state == "freed":
        yield "freed by an earlier backward"
    elif saved.state == "unknown":
        yield "of unknown size" + (f", packed by the hook {saved.packed_by}" if saved.packed_by else "")
    else:
        yield byte_words(saved.bytes)
    if saved.is_changed:
        yield f"changed in place since: version {saved.saved_version} when saved, {saved.version} now"
    if saved.storage is None:
        return
    storage = facts.graph.storages[saved.storage]
    if storage.bytes > saved.bytes:
        yield f"of a storage of {byte_words(storage.bytes)}"
    if storage.names:
        yield f"{'' if storage.kind == 'intermediate' else storage.kind + ' '}{listed(storage.names, 2)}"


def _sharing(facts: SubjectFacts, node: Node, saved: SavedTensor) -> Iterator[str]:
    """The other nodes that keep the same memory."""
    if saved.storage is None:
        return
    others = facts.keepers[saved.storage].copy()
    others[autograd_name(node)] -= 1
    names = [name if count == 1 else f"{count:,} {name}" for name, count in others.items() if count > 0]
    if names:
        yield f"also kept by {listed(names, 3)}"
