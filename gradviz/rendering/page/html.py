"""The page: one offline file to explore a graph in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from gradviz.collector import collector_paused
from gradviz.errors import BadInput, check_choice
from gradviz.rendering.formats import Subject
from gradviz.rendering.look.color_by import check_that_it_was_measured
from gradviz.rendering.look.color_ramps import COLOR_BY, ColorBy
from gradviz.rendering.look.geometry import Arrows
from gradviz.rendering.look.legend_words import role_words
from gradviz.rendering.look.palette import ROLE_STYLES
from gradviz.rendering.page.backward_calls import PageCalls
from gradviz.rendering.page.box_layouts import PageBoxes
from gradviz.rendering.page.differences import PageDifferences
from gradviz.rendering.page.document import Lines, PageDocument
from gradviz.rendering.page.findings import PageFindings
from gradviz.rendering.page.html_file import PageContent, page_file
from gradviz.rendering.page.item_details import PageItemDetails
from gradviz.rendering.page.item_numbers import Identities
from gradviz.rendering.page.items import PageItems, cut
from gradviz.rendering.page.level import Level, level_of
from gradviz.rendering.page.memory_map import page_memory
from gradviz.rendering.page.parameter_table import page_parameters
from gradviz.rendering.page.repetitions import PageRepetitions
from gradviz.rendering.page.replay_steps import TOO_MANY_STEPS, page_replay
from gradviz.rendering.page.source_costs import page_costs
from gradviz.rendering.svg.frame import call_facts, remarks
from gradviz.rendering.svg.legend import role_outline
from gradviz.rendering.svg.style import ThemeChoice
from gradviz.rendering.words.source_links import editor_template
from gradviz.view.folding import FoldPlan, plan_folding
from gradviz.view.model import View

WHOSE_FIGURES = "beside the table of both runs, lines and figures are those of B; of what only A has, those of A"


@dataclass(frozen=True)
class HtmlRenderer:
    """Writes the page."""

    theme: ThemeChoice = "auto"
    arrows: Arrows = "data"
    editor: str | None = None
    """The name of an editor or a link template, see `gradviz.rendering.words.source_links`; without it: no links."""
    color_by: ColorBy = "kind"
    """The colouring at first; the user can choose another."""

    def __post_init__(self) -> None:
        check_choice("theme", self.theme, ("auto", "light", "dark"))
        check_choice("arrows", self.arrows, ("data", "gradient"))
        check_choice("color_by", self.color_by, COLOR_BY)
        self._link_template()

    def _link_template(self) -> str | None:
        return None if self.editor is None else editor_template(self.editor)

    def render(self, subject: Subject) -> str:
        return self.page([subject])

    def render_together(self, subjects: Sequence[Subject]) -> str:
        return self.page(subjects)

    def page(self, subjects: Sequence[Subject], version: int | None = None) -> str:
        """One file for all graphs. With a version, the page asks its server for newer ones: see `page_file`."""
        self._check_colours(subjects)
        calls = PageCalls(subjects)
        documents = (self._document(subject, calls, index) for index, subject in enumerate(subjects))
        with collector_paused():
            return page_file(documents, version)

    def _check_colours(self, subjects: Sequence[Subject]) -> None:
        """Raise `BadInput` if no graph has the figures for the colouring; one of several graphs may lack them."""
        refusals = []
        for subject in subjects:
            try:
                if self.color_by in ("gradient", "memory", "time"):
                    check_that_it_was_measured(subject.graph, self.color_by)
            except BadInput as refusal:
                refusals.append(refusal)
        if refusals and len(refusals) == len(subjects):
            raise refusals[0]

    def _document(self, subject: Subject, calls: PageCalls, index: int) -> PageContent:
        plan = subject.plan or plan_folding(subject.graph)
        identities = Identities(subject.graph)
        findings = PageFindings(subject.graph)
        boxes, items = PageBoxes(), PageItems(subject, self._link_template())
        details = PageItemDetails(subject.graph, findings, subject.counterparts)
        differences = PageDifferences(subject)
        finest, notes_on_repetitions = _take_levels(subject, plan, identities, (boxes, items, details, differences))
        page_items, tints, legends = items.finished()
        error, notes = remarks(subject)
        is_of_two = subject.counterparts is not None
        # Two runs have no common backward, and what both keep for it is in no memory at once.
        replay = None if is_of_two else page_replay(subject, finest)
        more_notes = [] if replay is not None or is_of_two or subject.graph.refused else [TOO_MANY_STEPS]
        if is_of_two:
            more_notes.append(WHOSE_FIGURES)
        program = subject.capture.program
        document = PageDocument(
            name=cut(subject.capture.titled(" ".join([program.name, *program.arguments]))),
            facts=cut(call_facts(subject)),
            error=cut(error),
            notes=tuple(map(cut, (*page_notes(notes), *boxes.notes, *notes_on_repetitions, *more_notes))),
            shapes=items.shapes,
            roles={role: (role_words(role, subject), *role_outline(role)) for role in ROLE_STYLES},
            items=page_items,
            lines=items.lines,
            tints=tints,
            boxes=boxes.finished(),
            sideways=boxes.finished(sideways=True),
            flows=boxes.flows,
            opened=tuple(number for number in _opened(subject, identities) if number < len(page_items)),
            may_fold=not subject.is_depth_chosen,
            legends=legends,
            sources=_sources(subject),
            costs=() if is_of_two else page_costs(subject.graph),
            parameters=() if is_of_two else page_parameters(subject),
            memory=None if is_of_two else page_memory(subject.graph),
            findings=findings.all(),
            replay=replay,
            arrows=self.arrows,
            color_by=self.color_by if subject.marks is None else "state",
            theme=self.theme,
            calls=calls.listed(),
            changes=calls.changes(index),
            index=index,
            difference=differences.finished(),
        )
        return document, details.finished()


class _TakesLevels(Protocol):
    def add(self, level: Level) -> None: ...


def _take_levels(
    subject: Subject, plan: FoldPlan, identities: Identities, takers: Iterable[_TakesLevels]
) -> tuple[View, Lines]:
    """Pass all levels to the collectors; returns the finest view, and notes on what is left out."""
    finest, sizes = View((), ()), []

    def take(view: View, depth: int) -> None:
        level = level_of(subject, view, depth, identities)
        for taker in takers:
            taker.add(level)

    for depth, view in enumerate(plan.levels()):
        finest = view
        sizes.append(len(view.items))
        take(view, depth)
    repetitions = PageRepetitions(plan, sizes)
    for each in repetitions.boxes():
        identities.begin_each()
        for depth, view in enumerate(each.views, each.depth):
            take(view, depth)
    return finest, repetitions.notes


def _opened(subject: Subject, identities: Identities) -> tuple[int, ...]:
    """The boxes that are open in the still picture."""
    numbers = identities.of_view(subject.view, -1)
    found = (numbers[item.id] for item in subject.view.items if item.is_open)
    return tuple(number for number in found if number is not None)


def _sources(subject: Subject) -> dict[str, dict[int, str]]:
    return {
        cut(file): {line: cut(text) for line, text in lines.items()} for file, lines in subject.capture.sources.items()
    }


# Notes on a picture in the terms of the page, which has no command line but boxes that open.

_OPTION = re.compile(r" \(--[^()]*\)")
"""``(--plumbing shows them)``"""
_OPENED_BY = re.compile(r": --depth \d+ opens them")
_DEPTH = re.compile(r"depth \d+ of \d+: ")


def page_notes(notes: Iterable[str]) -> Iterator[str]:
    """The notes of a still picture that are true for the page too."""
    for note in notes:
        if not _DEPTH.match(note):  # On the page, the user opens boxes.
            yield _OPENED_BY.sub(" at first", _OPTION.sub("", note))
