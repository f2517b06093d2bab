"""The picture of two runs that `gradviz diff -o` writes: a subject for the painters of pictures."""

from __future__ import annotations

from dataclasses import replace

from gradviz.analysis.diff.comparison import Compared
from gradviz.analysis.diff.merged_graph import merged_graph
from gradviz.errors import BadInput
from gradviz.rendering.formats import Format, Subject
from gradviz.rendering.subjects import subject_of
from gradviz.view.build import ViewOptions

PICTURES = ("svg", "png", "pdf")


def check_that_it_is_a_picture(chosen: Format) -> None:
    """Raise `BadInput` for a format that cannot show two runs."""
    if chosen.name not in PICTURES:
        raise BadInput(f"diff draws no {chosen.name}", hint="-o FILE.svg, .png or .pdf; --json prints it as data")


def difference_subject(compared: Compared) -> Subject:
    """One graph of both runs, folded where they are the same; raises `NothingRecorded` if one of them has no graph."""
    merged = merged_graph(compared)
    subject = subject_of(merged.capture, merged.graph, ViewOptions(marks=merged.marks), merged.notes)
    return replace(subject, headline=compared.difference.sentence)
