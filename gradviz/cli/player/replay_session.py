"""A replay of one recorded graph, ready to be shown: step by step, as one text, or as pictures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gradviz.analysis.replay.steps import Replay
from gradviz.capture.capture import Capture
from gradviz.cli.terminal.progress import working
from gradviz.graph.model import Graph
from gradviz.rendering.replay.step_text import MIN_WIDTH, ReplayText, TextLook, replay_notes
from gradviz.rendering.replay.step_words import ReplayWords
from gradviz.rendering.subjects import subject_of
from gradviz.view.build import ViewOptions

MAX_STEPS = 300
"""How many steps are printed if the user does not ask for all."""


@dataclass(frozen=True)
class ReplaySession:
    """One recorded graph, and how its replay looks."""

    capture: Capture
    graph: Graph
    notes: tuple[str, ...]
    look: TextLook
    has_own_width: bool = False
    """Whether the user chose the width; otherwise it is that of the window."""
    how_recorded: str = ""
    """What this run recorded; a note of texts, but not of pictures, which are kept for longer."""

    def words(self, viewing: ViewOptions) -> ReplayWords:
        """The replay of the graph, folded as `viewing` says."""
        with working("folding the graph"):
            subject = subject_of(self.capture, self.graph, viewing)
            return ReplayWords(subject, Replay(subject.graph, subject.view))

    def notes_on(self, words: ReplayWords) -> tuple[str, ...]:
        """What the user must know about this replay, however it is shown."""
        return (*self.notes, *replay_notes(words.subject))

    def text_in_window(self, words: ReplayWords, columns: int, lines: int) -> ReplayText:
        """The text of the steps; each step has the size of the window."""
        width = self.look.width if self.has_own_width else max(columns, MIN_WIDTH)
        return self._text(words, replace(self.look, width=width, height=max(lines, 1)))

    def _text(self, words: ReplayWords, look: TextLook) -> ReplayText:
        recorded = (self.how_recorded,) if self.how_recorded else ()
        return ReplayText(words, look, (*recorded, *self.notes_on(words)))

    def all_steps(self, words: ReplayWords, steps: range, *, is_asked_for: bool) -> Iterator[str]:
        """The text of these steps, with a line between them."""
        text = self._text(words, self.look)
        shown = steps if is_asked_for else steps[:MAX_STEPS]
        yield from text.joined(shown)
        if len(shown) < len(steps):
            left = len(steps) - len(shown)
            yield f"{text.rule}{left:,} more steps: --all prints them, --from and --to a part, --depth N folds more\n"
