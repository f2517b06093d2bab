"""A replay as text, one screen for each step: the state of the graph, and below it what the step does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from textwrap import wrap

from gradviz.analysis.replay.steps import START
from gradviz.errors import BadInput
from gradviz.rendering.formats import Subject
from gradviz.rendering.replay.step_words import Fact, ReplayWords
from gradviz.rendering.replay.tree_rows import ReplayRows, legend
from gradviz.rendering.tree.column_widths import Line, Span
from gradviz.rendering.tree.styled_text import written
from gradviz.rendering.words.common_words import shortened
from gradviz.safe_text import one_line, printable

USUAL_ROWS = 14
"""Rows of the graph, if the screen has no height."""
MIN_WIDTH = 20
MIN_ROWS = 3
"""Fewer rows show nothing: the words of the step are worth more."""
_LABELS = 14


@dataclass(frozen=True, slots=True)
class TextLook:
    """The size and the appearance of screens."""

    width: int = 100
    color: bool = False
    ascii: bool = False
    height: int | None = None
    """Lines of a screen; without it, as many as its words need."""

    def __post_init__(self) -> None:
        if type(self.width) is not int or self.width < MIN_WIDTH:
            raise BadInput(f"width={self.width!r} is not a whole number from {MIN_WIDTH} on")


class ReplayText:
    """The screens of one replay, from 0, before anything has run, to the number of its steps."""

    def __init__(self, words: ReplayWords, look: TextLook, notes: tuple[str, ...] = ()) -> None:
        self._words, self._replay, self._look = words, words.replay, look
        self._rows = ReplayRows(words, look.width)
        self._notes = notes

    def joined(self, steps: Iterable[int]) -> Iterator[str]:
        """Screens of several steps, with a line between them."""
        for index, at in enumerate(steps):
            yield f"{self.rule if index else ''}{self.screen(at)}"

    @property
    def rule(self) -> str:
        """A line that separates screens."""
        return ("-" if self._look.ascii else "─") * self._look.width + "\n"

    def screen(self, at: int) -> str:
        """One screen, as text that ends in a line feed."""
        return written(self._lines(at), color=self._look.color, ascii=self._look.ascii)

    def _lines(self, at: int) -> list[Line]:
        facts = list(self._facts(at))
        height = self._look.height
        head: list[Line] = [self._headline(at), []]
        if height is None:
            return [*head, *self._rows.around(at, USUAL_ROWS), [], *facts]
        # Two lines belong to the tree: its header, and how many rows are hidden.
        rows = height - len(head) - len(facts) - 3
        tree = [*self._rows.around(at, rows), []] if rows >= MIN_ROWS else []
        lines = [*head, *tree, *facts]
        return lines if len(lines) <= height else [*lines[: height - 1], [Span("…")]]

    def _headline(self, at: int) -> Line:
        count = len(self._replay)
        if at == START:
            call = self._replay.graph.backward
            called = f"{call.function}() is called" if call is not None else "backward() would begin here"
            return [Span(f"forward   {called}", "bold"), Span(f"   {count:,} steps follow", "dim")]
        step = self._replay.step(at)
        number = f"step {at:,} of {count:,}"
        title, subtitle = one_line(self._words.names.title(step)), one_line(self._words.names.subtitle(step))
        title = shortened(title, max(self._look.width - len(number) - 3, 8))
        subtitle = shortened(subtitle, max(self._look.width - len(number) - len(title) - 6, 1))
        return [Span(f"{number}   ", "bold"), Span(title, "bold yellow"), Span(f"   {subtitle}", "dim")]

    def _facts(self, at: int) -> Iterator[Line]:
        if at == START:
            yield from self._fact(Fact("gradient in", tuple(self._words.sums.beginning())))
            for note in self._notes:
                yield from self._fact(Fact("note", (note,)))
            yield from self._fact(Fact("ran", (self._words.progress.sentence(at),)))
            yield from legend(self._look.width)
            return
        for fact in self._words.facts(self._replay.step(at)):
            yield from self._fact(fact)
        yield from self._fact(Fact("ran", (self._words.progress.sentence(at),)))

    def _fact(self, fact: Fact) -> Iterator[Line]:
        label = fact.label
        width = max(self._look.width - _LABELS, 20)
        for line in map(_safe, fact.lines):
            indent = " " * (len(line) - len(line.lstrip()))
            for words in wrap(line.strip(), width, initial_indent=indent, subsequent_indent=f"{indent}  ") or [""]:
                yield [Span(label.ljust(_LABELS), "bold"), Span(words)]
                label = ""


def _safe(line: str) -> str:
    """The line with its spaces, but without cursor movements."""
    return printable(" ".join(line.splitlines()))


def replay_notes(subject: Subject) -> tuple[str, ...]:
    """What the user must know about the whole replay: what was left out, and what could not be recorded."""
    error = subject.capture.error
    failed = (f"the script failed: {error.type_name}: {error.message}",) if error is not None else ()
    not_recorded = (f"not recorded: {sentence}" for sentence in subject.capture.disclosures)
    return (*failed, *subject.view.notes, *not_recorded)
