"""The steps of the backward pass, for the page: those of `gradviz.analysis.replay.steps` in an open view.

The page shows a step on the items that represent its nodes: on a closed box if they are folded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gradviz.analysis.replay.steps import Replay, Step
from gradviz.rendering.formats import Subject
from gradviz.rendering.page.document import PageArrival, PageReplay, PageSection, PageStep
from gradviz.rendering.page.items import cut
from gradviz.rendering.replay.gradient_numbers import short_words
from gradviz.rendering.replay.step_words import ReplayWords
from gradviz.view.model import View

MAX_STEPS = 4_000
"""Nobody plays more, and the words for steps are the largest part of the page's data."""

MAX_AMOUNTS = 12
"""In one step: a weight that a long loop uses gets a gradient from each of its iterations."""

TOO_MANY_STEPS = "The backward pass has too many steps to be played in a page: gradviz replay plays it."


def page_replay(subject: Subject, finest: View) -> PageReplay | None:
    """The backward pass step by step; None if it has too many steps or if there was none.

    Args:
        finest: the view in which every box is open.
    """
    if subject.graph.refused or len(subject.graph.nodes) > 4 * MAX_STEPS:
        return None  # Shared nodes make fewer steps than nodes, but not so much fewer.
    replay = Replay(subject.graph, finest)
    if len(replay) > MAX_STEPS:
        return None
    words = ReplayWords(replace(subject, view=finest), replay)
    steps = tuple(_page_step(words, step) for step in replay.steps)
    return PageReplay(steps, tuple(map(cut, words.sums.beginning())), replay.was_watched)


def _page_step(words: ReplayWords, step: Step) -> PageStep:
    return PageStep(
        nodes=tuple(step.nodes),
        title=cut(words.names.title(step)),
        subtitle=cut(words.names.subtitle(step)),
        facts=tuple(PageSection(fact.label, tuple(map(cut, fact.lines))) for fact in words.facts(step)),
        arrivals=tuple(_arrivals(step)),
        sums=tuple(short_words([words.replay.arrived_at(slot)]) for slot in step.slots),
    )


def _arrivals(step: Step) -> Iterator[PageArrival]:
    indices = {slot: index for index, slot in enumerate(step.slots)}
    for number, flow in enumerate(step.entering):
        slot = indices[flow.receiver, flow.input_nr]
        yield PageArrival(flow.step, slot, short_words([flow.gradient]) if number < MAX_AMOUNTS else "")
