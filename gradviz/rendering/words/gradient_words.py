"""The gradient that arrived at what an item stands for, in a word or two."""

from __future__ import annotations

from collections.abc import Sequence

from gradviz.analysis.numbers.gradient_origins import state_of
from gradviz.graph.gradients import TensorFigures
from gradviz.graph.model import Node
from gradviz.rendering.words.gradient_marks import STATE_WORDS
from gradviz.rendering.words.item_gradients import arrived_by_repetition, norm_of
from gradviz.rendering.words.subject_facts import SubjectWords
from gradviz.view.model import Item

NOTHING = "none"


def gradient_words(subject: SubjectWords, item: Item) -> str:
    """``0.0312``, the L2 norm; ``0`` where every element is zero; ``NaN``; ``Inf``; ``none`` where nothing arrived.

    Of a box it is the gradient of what goes out of it first. Of what stands for several, ``1.2e-05 … 0.0312``: at the
    first of them and at the last. Empty where nothing is known.
    """
    repetitions = arrived_by_repetition(subject, item)
    words = [figures_words(gradients) for gradients in repetitions]
    if len(words) > 1:
        first, last = words[0], words[-1]
        return first if first == last else f"{first or '?'} … {last or '?'}"
    if item.node is not None and words and not words[0]:
        return _nothing_arrived(subject.graph.nodes[item.node])
    return words[0] if words else ""


def _nothing_arrived(node: Node) -> str:
    is_known = node.leaf_gradient is not None and node.leaf_gradient.outcome == "unchanged"
    return NOTHING if is_known else ""


def figures_words(gradients: Sequence[TensorFigures | None]) -> str:
    """Several gradients as one; empty where none was measured."""
    state = state_of(gradients)
    if state is None:
        return "?" if any(each is not None for each in gradients) else ""
    if state == "nan" and any(each is not None and each.infs for each in gradients):
        return f"{STATE_WORDS['nan']}, {STATE_WORDS['inf']}"
    norm = norm_of(gradients)
    return f"{norm:.3g}" if state == "fine" and norm is not None else STATE_WORDS.get(state, "?")
