"""Chooses the graphs to draw: turns the keywords of an `Inspection` into the subjects that renderers take."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gradviz.errors import BadInput, GradvizError, NothingFound, NothingRecorded, NotInThisGraph
from gradviz.graph.number_words import counted

if TYPE_CHECKING:
    from gradviz.capture.capture import Capture
    from gradviz.graph.model import Graph
    from gradviz.rendering.formats import Subject

MAX_TOGETHER = 12
MAX_NODES_TOGETHER = 5_000
"""At most this many graphs and nodes are in one page, so that a notebook shows it without delay."""


class DrawnGraphs:
    """The graphs of one capture; a check of them runs once."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture

    def subject(self, showing: dict[str, Any], backward: int | None) -> Subject:
        """The part of one graph that the keywords select."""
        try:
            subject = self._drawn(self.number(backward), showing)
        except NotInThisGraph as refusal:
            if backward is None and len(self.capture.graphs) > 1:
                refusal.add_hint(self._other_graphs())
            raise
        is_one_of_several = backward is None and len(self.capture.graphs) > 1
        return _with_notes(subject, [self._other_graphs()] if is_one_of_several else [])

    def subjects(self, showing: dict[str, Any]) -> list[Subject]:
        """The same for all graphs that are shown together; a graph that lacks the wanted name is left out."""
        shown: list[Subject] = []
        refusals: list[GradvizError] = []
        nodes_left = MAX_NODES_TOGETHER
        for number, graph in enumerate(self.capture.graphs[:MAX_TOGETHER]):
            nodes_left -= len(graph.nodes)
            if number and nodes_left < 0:
                break
            try:
                shown.append(self._drawn(number, showing))
            except (NotInThisGraph, NothingFound) as refusal:
                refusals.append(refusal)
        if not shown:
            raise refusals[0]
        together = len(shown) + len(refusals)
        notes = [self._other_graphs(together)] if together < len(self.capture.graphs) else []
        if refusals:
            notes.append(f"{counted(len(refusals), 'recorded graph')} left out: they do not have what was asked for")
        return [_with_notes(each, notes) for each in shown]

    def _drawn(self, number: int, showing: dict[str, Any]) -> Subject:
        from gradviz.rendering.subjects import subject_of
        from gradviz.view.keywords import view_options

        capture, notes = self._marked
        return subject_of(capture, capture.graphs[number], view_options(showing), notes)

    @cached_property
    def _marked(self) -> tuple[Capture, tuple[str, ...]]:
        """The capture; if it has logged calls, with the findings of a check on its graphs."""
        if self.capture.calls is None:
            return self.capture, ()
        from gradviz.check_result import marked, selected_rules

        return marked(self.capture, selected_rules())

    def graph(self, backward: int | None) -> Graph:
        """The graph of this backward call, by default the first; raises `NothingRecorded` or `BadInput`."""
        return self.capture.graphs[self.number(backward)]

    def number(self, backward: int | None) -> int:
        """The index of that graph; raises as `graph` does."""
        if not self.capture.graphs:
            raise NothingRecorded(f"there is no graph: {self.why_there_is_none}")
        if backward is None:
            return 0
        numbers = [graph.backward.number for graph in self.capture.graphs if graph.backward is not None]
        if backward not in numbers:
            known = ", ".join(map(str, numbers)) or "none: no backward ran"
            raise BadInput(f"backward={backward!r} was not recorded", hint=f"recorded are {known}")
        return numbers.index(backward)

    def _other_graphs(self, together: int = 1) -> str:
        """The note that there are more graphs than the first ones."""
        graphs = self.capture.graphs
        others = graphs[together:]
        numbers = ", ".join(str(other.backward.number) for other in others[:3] if other.backward is not None)
        more = ", ..." if len(others) > 3 else ""
        first = "first" if together == 1 else f"first {together:,}"
        return f"the {first} of {len(graphs):,} recorded graphs; backward=N shows another (N = {numbers}{more})"

    @property
    def why_there_is_none(self) -> str:
        """Why nothing was recorded."""
        capture = self.capture
        if capture.disclosures:
            return capture.disclosures[0]
        if capture.backward_calls:
            times = "once" if capture.backward_calls == 1 else f"{capture.backward_calls:,} times"
            return f"backward() or grad() was called {times}, but not the call that was asked for"
        ended = f" until {capture.error.type_name} was raised" if capture.error is not None else ""
        return f"no backward() ran{ended}, and no variable holds a tensor with a grad_fn that was computed there"


def _with_notes(subject: Subject, notes: list[str]) -> Subject:
    """The subject with these notes before its own."""
    if not notes:
        return subject
    from msgspec.structs import replace as with_fields

    view = with_fields(subject.view, notes=(*notes, *subject.view.notes))
    return replace(subject, view=view, selection_notes=(*notes, *subject.selection_notes))
