"""The picture or page of two runs that `gradviz diff -o` writes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from msgspec.structs import replace as with_fields

from gradviz.analysis.diff.comparison import Compared
from gradviz.analysis.diff.merged_graph import merged_graph
from gradviz.errors import BadInput
from gradviz.rendering.formats import Format, Subject
from gradviz.rendering.subjects import subject_of
from gradviz.view.build import ViewOptions

_IN_BRACKETS = re.compile(r" \(--[^)]*\)")
PICTURES = ("svg", "png", "pdf", "html")


def check_that_it_is_a_picture(chosen: Format) -> None:
    """Raise `BadInput` for a format that cannot show two runs."""
    if chosen.name not in PICTURES:
        hint = "-o FILE.svg, .png, .pdf or .html; --json prints it as data"
        raise BadInput(f"diff draws no {chosen.name}", hint=hint)


def difference_subject(compared: Compared) -> Subject:
    """One graph of both runs, folded where they are the same; raises `NothingRecorded` if one of them has no graph."""
    merged = merged_graph(compared)
    subject = subject_of(merged.capture, merged.graph, ViewOptions(marks=merged.marks), merged.notes)
    view = with_fields(subject.view, notes=tuple(_without_options(subject.view.notes)))
    return replace(subject, view=view, counterparts=merged.counterparts, headline=compared.difference.sentence)


def _without_options(notes: Iterable[str]) -> Iterator[str]:
    """The notes of a view without the options of ``gradviz render`` that they name: diff decides what is folded."""
    for note in notes:
        shortened = _IN_BRACKETS.sub("", note)
        if "--" not in shortened:
            yield shortened
