"""The numbers of small tensors on the picture itself, as ``--values`` keeps them: forward and back."""

from __future__ import annotations

from collections.abc import Sequence

from gradviz.graph.gradients import TensorFigures
from gradviz.graph.view import Item
from gradviz.rendering.item_gradients import LinkBranch, arrived_by_repetition
from gradviz.rendering.subject_words import SubjectWords
from gradviz.rendering.value_words import value_words

MOST_OUTPUTS = 3
DOWN, UP = "↓", "↑"
"""Values flow down a picture, gradients up."""


def item_numbers(subject: SubjectWords, item: Item) -> str:
    """``↓ 10  ↑ 0.1``: what an operation, a leaf or a root gave, and the gradient that arrived for it."""
    graph = subject.graph
    if item.constant is not None:
        return _together([graph.constants[item.constant].value], ())
    if item.root is not None:
        root = graph.roots[item.root]
        return _together(graph.nodes[root.node].values[root.output_nr : root.output_nr + 1], [root.gradient])
    repetitions = arrived_by_repetition(subject, item)
    if item.node is None or len(repetitions) != 1:
        return ""
    node = graph.nodes[item.node]
    return _together(node.values[:MOST_OUTPUTS], node.arrived[:MOST_OUTPUTS])


def link_numbers(value: TensorFigures | None, branches: Sequence[LinkBranch], *, is_needed: bool) -> str:
    """The same for a link, where its ends do not say it: it is one of several outputs, or its gradient one of several
    that are summed."""
    is_summed = any(branch.share is not None for branch in branches)
    if not (is_needed or is_summed):
        return ""
    back = [branch.gradient for branch in branches] if len(branches) == 1 else []
    return _together([value] if is_needed else (), back)


def _together(values: Sequence[TensorFigures | None], gradients: Sequence[TensorFigures | None]) -> str:
    down, up = (", ".join(filter(None, map(value_words, each))) for each in (values, gradients))
    return "  ".join([*([f"{DOWN} {down}"] if down else []), *([f"{UP} {up}"] if up else [])])
