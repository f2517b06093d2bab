"""What a replay is made of, and the three ways to show it: page by page, all pages at once, pictures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gradviz.analysis.replay.steps import Replay
from gradviz.capture.capture import Capture
from gradviz.cli.terminal.progress import working
from gradviz.graph.model import Graph
from gradviz.rendering.replay.step_text import MIN_WIDTH, TextLook, ReplayText, replay_notes
from gradviz.rendering.replay.step_words import ReplayWords
from gradviz.rendering.subjects import subject_of
from gradviz.view.build import ViewOptions

MAX_UNASKED = 300
"""So many pages are printed where nobody asked for all of them."""


@dataclass(frozen=True)
class ReplaySession:
    """One recorded graph, and how its replay looks."""

    capture: Capture
    graph: Graph
    notes: tuple[str, ...]
    look: TextLook
    has_own_width: bool = False
    """Whether the reader chose the width, so that the window's does not count."""
    how_recorded: str = ""
    """What this very run kept, for who reads pages; a picture lasts longer than that is of interest."""

    def words(self, viewing: ViewOptions) -> ReplayWords:
        """The replay of what is shown of the graph."""
        with working("folding the graph"):
            subject = subject_of(self.capture, self.graph, viewing)
            return ReplayWords(subject, Replay(subject.graph, subject.view))

    def notes_on(self, words: ReplayWords) -> tuple[str, ...]:
        """What a reader must know of this replay, in whatever way it is shown."""
        return (*self.notes, *replay_notes(words.subject))

    def pages_in_window(self, words: ReplayWords, columns: int, lines: int) -> ReplayText:
        """Its pages, each of a window's size."""
        width = self.look.width if self.has_own_width else max(columns, MIN_WIDTH)
        return self._pages(words, replace(self.look, width=width, height=max(lines, 1)))

    def _pages(self, words: ReplayWords, look: TextLook) -> ReplayText:
        recorded = (self.how_recorded,) if self.how_recorded else ()
        return ReplayText(words, look, (*recorded, *self.notes_on(words)))

    def all_pages(self, words: ReplayWords, steps: range, *, is_asked_for: bool) -> Iterator[str]:
        """The pages of these steps, one below the other, each with a line before it."""
        pages = self._pages(words, self.look)
        shown = steps if is_asked_for else steps[:MAX_UNASKED]
        yield from pages.joined(shown)
        if len(shown) < len(steps):
            left = len(steps) - len(shown)
            yield f"{pages.rule}{left:,} more steps: --all prints them, --from and --to a part, --depth folds more\n"
