"""The gradient that arrived at what an item stands for, in a word or two."""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot

from gradviz.graph.gradients import TensorFigures
from gradviz.graph.model import Node
from gradviz.graph.view import Item
from gradviz.rendering.subject_words import SubjectWords

NOTHING = "none"


def gradient_words(subject: SubjectWords, item: Item) -> str:
    """``0.0312``, the L2 norm; ``0`` where every element is zero; ``NaN``; ``Inf``; ``none`` where nothing arrived.

    Of a box it is the gradient of what goes out of it first, unless it stands for several. Empty where nothing is
    known.
    """
    if item.root is not None:
        return figures_words([subject.graph.roots[item.root].gradient])
    if item.node is not None:
        return "" if _stands_for_several(subject, item) else node_words(subject.graph.nodes[item.node])
    leaving = subject.node_leaving(item) if item.kind == "box" and item.repeat == 1 else None
    if leaving is None:
        return ""
    node, output_nr = leaving
    return figures_words(subject.graph.nodes[node].arrived[output_nr : output_nr + 1])


def node_words(node: Node) -> str:
    """What arrived for all outputs of a node together."""
    is_known_to_be_nothing = node.leaf_gradient is not None and node.leaf_gradient.outcome == "unchanged"
    return figures_words(node.arrived) or (NOTHING if is_known_to_be_nothing else "")


def figures_words(gradients: Sequence[TensorFigures | None]) -> str:
    """Several gradients as one; empty where none was measured."""
    known = [each for each in gradients if each is not None]
    broken = [word for word, is_there in (("NaN", _count(known, "nans")), ("Inf", _count(known, "infs"))) if is_there]
    if broken or not known:
        return ", ".join(broken)
    if any(each.unmeasured is not None for each in known):
        return "?"
    norms = [each.norm for each in known if each.norm is not None]
    if not norms:
        return NOTHING
    return "0" if all(each.is_zero or each.is_undefined for each in known) else f"{hypot(*norms):.3g}"


def _count(gradients: Sequence[TensorFigures], what: str) -> int:
    return sum(getattr(each, what) for each in gradients)


def _stands_for_several(subject: SubjectWords, item: Item) -> bool:
    """An operation or a leaf drawn once for all repetitions; views that were merged into it do not count."""
    nodes, shown = subject.graph.nodes, item.node
    return any(nodes[node].name == nodes[shown].name for node in item.nodes if shown is not None and node != shown)
