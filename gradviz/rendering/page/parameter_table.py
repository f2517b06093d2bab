"""The page's table of parameters: the gradient of each, and why some have none."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.flow.gradient_flow import FlowRow, gradient_flow, has_gradients
from gradviz.rendering.formats import Subject
from gradviz.rendering.page.document import PageParameter
from gradviz.rendering.page.items import cut
from gradviz.rendering.words.common_words import shape_words_of

_OUTCOMES = {"accumulated": "added to an older .grad", "taken": ".grad removed by a hook"}


def page_parameters(subject: Subject) -> tuple[PageParameter, ...]:
    """A row for each parameter, and for each other leaf; none if no gradients were recorded."""
    if not has_gradients(subject.graph):
        return ()
    leaves = {name: node.id for node in subject.graph.nodes if node.is_leaf for name in node.names}
    return tuple(_row(row, leaves) for row in gradient_flow(subject.capture, subject.graph).rows)


def _row(row: FlowRow, leaves: dict[str, int]) -> PageParameter:
    return PageParameter(
        name=cut(row.name),
        shape=shape_words_of(row.shape or ()),
        norm=row.norm,
        ratio=row.ratio,
        status=cut(", ".join(_status(row))),
        is_lost=row.nothing is not None or row.is_zero or bool(row.nans or row.infs),
        node=row.leaves[0] if row.leaves else leaves.get(row.name),
    )


def _status(row: FlowRow) -> Iterator[str]:
    if row.nothing is not None:
        yield row.nothing
    for count, word in ((row.nans, "NaN"), (row.infs, "Inf")):
        if count:
            yield f"{count:,} of {row.count:,} {word}"
    if row.is_zero:
        yield "all zero"
    elif row.zeros:
        yield f"{100 * row.zeros / row.count:.3g} % zeros"
    if row.outcome in _OUTCOMES:
        yield _OUTCOMES[row.outcome]
