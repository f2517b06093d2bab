"""Plays a replay in a terminal: a page for each step, and keys to go on and back."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import click

from gradviz.analysis.replay.steps import START
from gradviz.cli.player.stage import Stage
from gradviz.errors import GradvizError
from gradviz.graph.query.search import nodes_to_show, search
from gradviz.rendering.replay.step_text import ReplayText
from gradviz.rendering.replay.step_words import ReplayWords
from gradviz.view.build import ViewOptions

_ENTER_SCREEN, _LEAVE_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""The screen beside the one with the reader's own lines, as less and vim use it, without a cursor."""
_CLEAR = "\x1b[H\x1b[2J"
_BOTTOM_LINES = 2
"""What keys do, and an empty line above it."""
_MORE_ITEMS = 4
"""How many times as much may be drawn once a box without a name is opened."""


class Player:
    """Shows one page at a time, until the reader leaves."""

    def __init__(self, stage: Stage, viewing: ViewOptions, words: ReplayWords, steps: range) -> None:
        self._stage, self._viewing, self._words = stage, viewing, words
        self._steps = steps
        self._at = steps.start
        self._pages: ReplayText | None = None
        self._size = (0, 0)
        self._message = ""
        self._sought = ""
        self._closed: list[ViewOptions] = []
        """How the graph was folded before boxes were opened, the last one last."""

    def play(self) -> None:
        """Show pages until the reader has seen enough."""
        with _own_screen():
            while True:
                self._show()
                try:
                    key = click.getchar()
                except (EOFError, KeyboardInterrupt):
                    return
                if key in ("q", "Q"):
                    return
                self._message = ""
                try:
                    _ACTIONS.get(key, Player._tell_keys)(self)
                except GradvizError as error:
                    self._message = str(error)

    def _show(self) -> None:
        size = shutil.get_terminal_size()
        if self._pages is None or size != self._size:
            self._size = size
            self._pages = self._stage.pages_in_window(self._words, size.columns, size.lines - _BOTTOM_LINES)
        page = self._pages.page(self._at)
        click.echo(_CLEAR + page, nl=False, color=True)
        self._bottom_line(self._message or "→ next  ← back  g step  / search  o open  c close  q leave")

    def _bottom_line(self, words: str) -> None:
        if self._stage.look.ascii:
            words = words.replace("→", "right").replace("←", "left").encode("ascii", "replace").decode()
        shown = words[: self._size[0] - 1]
        if self._stage.look.color and not self._message:
            shown = click.style(shown, dim=True)
        click.echo(f"\x1b[{self._size[1]};1H\x1b[2K{shown}", nl=False, color=True)

    # -- what keys do --------------------------------------------------------------------------------------------

    def _go_to(self, at: int) -> None:
        if not self._steps.start <= at < self._steps.stop:
            self._message = f"there is no step {at:,}: here are {self._steps.start:,} to {self._steps.stop - 1:,}"
            return
        self._at = at

    def _next(self) -> None:
        if self._at == self._steps.stop - 1:
            self._message = "this was the last step"
            return
        self._at += 1

    def _back(self) -> None:
        self._at = max(self._at - 1, self._steps.start)

    def _first(self) -> None:
        self._at = self._steps.start

    def _last(self) -> None:
        self._at = self._steps.stop - 1

    def _ask_for_step(self) -> None:
        answer = self._asked("go to step: ")
        if answer and answer.isdecimal():
            self._go_to(int(answer))
        elif answer:
            self._message = f"{answer!r} is no number of a step"

    def _search(self) -> None:
        answer = self._asked("search: ")
        if answer is None:
            return
        self._sought = answer or self._sought
        if not self._sought:
            return
        found = nodes_to_show(self._words.graph, search(self._words.graph, self._sought))
        numbers = sorted({number for node in found if (number := self._words.replay.step_of_node(node)) is not None})
        numbers = [number for number in numbers if number in self._steps]
        if not numbers:
            self._message = f"no step runs what matches {self._sought!r}"
            return
        self._at = next((number for number in numbers if number > self._at), numbers[0])

    def _asked(self, question: str) -> str | None:
        """What the reader writes in the bottom line; None where they take it back with Escape."""
        answer = ""
        while True:
            self._message = question + answer
            self._bottom_line(self._message)
            key = click.getchar()
            if key in ("\r", "\n"):
                self._message = ""
                return answer
            if key == "\x1b":
                self._message = ""
                return None
            answer = answer[:-1] if key in ("\x7f", "\b") else answer + "".join(filter(str.isprintable, key))

    def _open(self) -> None:
        if self._at == START:
            self._message = "no box runs before the first step"
            return
        item = self._words.names.item_of(self._words.replay.step(self._at))
        if item.kind != "box":
            self._message = "what runs is no box: there is nothing to open"
            return
        fold = self._viewing.fold
        if item.scope is not None:
            fold = replace(fold, unfold=(*fold.unfold, self._words.graph.scopes[item.scope].path))
        elif fold.depth is not None:
            fold = replace(fold, depth=fold.depth + 1)
        else:
            fold = replace(fold, max_items=fold.max_items * _MORE_ITEMS)
        self._closed.append(self._viewing)
        self._fold_as(replace(self._viewing, fold=fold))

    def _close(self) -> None:
        if self._closed:
            self._fold_as(self._closed.pop())
        else:
            self._message = "no box was opened"

    def _fold_as(self, viewing: ViewOptions) -> None:
        """Fold the graph otherwise, and stay where what runs now begins to run."""
        node = self._words.replay.step(self._at).nodes[0] if self._at else None
        self._viewing, self._words, self._pages = viewing, self._stage.words(viewing), None
        replay = self._words.replay
        self._steps = range(len(replay) + 1)
        self._at = START if node is None else replay.step_of_node(node) or START

    def _tell_keys(self) -> None:
        self._message = "keys: right n, left p, home, end, g number, / search, o open, c close, q leave"


_ACTIONS: dict[str, Callable[[Player], None]] = {
    **dict.fromkeys(("\x1b[C", "\x1bOC", "\x1b[B", "\x1bOB", "\x1b[6~", "n", "j", "l", " ", "\r", "\n"), Player._next),
    **dict.fromkeys(("\x1b[D", "\x1bOD", "\x1b[A", "\x1bOA", "\x1b[5~", "p", "k", "h", "\x7f", "\b"), Player._back),
    **dict.fromkeys(("\x1b[H", "\x1bOH", "\x1b[1~", "\x1b[7~", "<"), Player._first),
    **dict.fromkeys(("\x1b[F", "\x1bOF", "\x1b[4~", "\x1b[8~", "G", ">"), Player._last),
    "g": Player._ask_for_step,
    "/": Player._search,
    "o": Player._open,
    "c": Player._close,
}
"""What terminals send for a key, and what it does. The arrows come in two dialects, Home and End in four."""


@contextmanager
def _own_screen() -> Iterator[None]:
    """A screen of our own, which leaves the reader's as it was."""
    click.echo(_ENTER_SCREEN, nl=False, color=True)
    try:
        yield
    finally:
        click.echo(_LEAVE_SCREEN, nl=False, color=True)
