"""Shows a replay in a terminal, one step at a time; keys go forwards and backwards."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import click

from gradviz.analysis.replay.steps import START
from gradviz.cli.player.replay_session import ReplaySession
from gradviz.cli.terminal.printing import draw_screen
from gradviz.errors import GradvizError
from gradviz.graph.query.find_by_expression import nodes_to_show, search
from gradviz.rendering.replay.step_text import ReplayText
from gradviz.rendering.replay.step_words import ReplayWords
from gradviz.view.build import ViewOptions

_ENTER_SCREEN, _LEAVE_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""The alternate screen of the terminal, as less and vim use it, without a cursor."""
_CLEAR = "\x1b[H\x1b[2J"
_BOTTOM_LINES = 2
"""The line that lists the keys, and an empty line above it."""
_MORE_ITEMS = 4
"""The factor for `max_items` when a box without a path is opened."""


class Player:
    """Shows one step at a time, until the user leaves."""

    def __init__(self, session: ReplaySession, viewing: ViewOptions, words: ReplayWords, steps: range) -> None:
        self._session, self._viewing, self._words = session, viewing, words
        self._steps = steps
        self._at = steps.start
        self._text: ReplayText | None = None
        self._size = (0, 0)
        self._message = ""
        self._searched = ""
        self._closed: list[ViewOptions] = []
        """How the graph was folded before each box that is open now was opened."""

    def play(self) -> None:
        """Show steps and obey keys until the user leaves."""
        with _alternate_screen():
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
                    _ACTIONS.get(key, Player._list_keys)(self)
                except GradvizError as error:
                    self._message = str(error)

    def _show(self) -> None:
        size = shutil.get_terminal_size()
        if self._text is None or size != self._size:
            self._size = size
            self._text = self._session.text_in_window(self._words, size.columns, size.lines - _BOTTOM_LINES)
        draw_screen(self._text.screen(self._at), before=_CLEAR)
        self._bottom_line(self._message or "→ next  ← back  g step  / search  o open  c close  q leave")

    def _bottom_line(self, words: str) -> None:
        if self._session.look.ascii:
            words = words.replace("→", "right").replace("←", "left").encode("ascii", "replace").decode()
        shown = words[: self._size[0] - 1]
        is_quiet = self._session.look.color and not self._message
        draw_screen(shown, before=f"\x1b[{self._size[1]};1H\x1b[2K", dim=is_quiet)

    # -- what keys do --------------------------------------------------------------------------------------------

    def _go_to(self, at: int) -> None:
        if not self._steps.start <= at < self._steps.stop:
            self._message = f"there is no step {at:,}: the steps are {self._steps.start:,} to {self._steps.stop - 1:,}"
            return
        self._at = at

    def _next(self) -> None:
        if self._at == self._steps.stop - 1:
            self._message = "this is the last step"
            return
        self._at += 1

    def _back(self) -> None:
        self._at = max(self._at - 1, self._steps.start)

    def _first(self) -> None:
        self._at = self._steps.start

    def _last(self) -> None:
        self._at = self._steps.stop - 1

    def _ask_for_step(self) -> None:
        answer = self._answer_to("go to step: ")
        if answer and answer.isdecimal():
            self._go_to(int(answer))
        elif answer:
            self._message = f"{answer!r} is not the number of a step"

    def _search(self) -> None:
        answer = self._answer_to("search: ")
        if answer is None:
            return
        self._searched = answer or self._searched
        if not self._searched:
            return
        found = nodes_to_show(self._words.graph, search(self._words.graph, self._searched))
        numbers = sorted({number for node in found if (number := self._words.replay.step_of_node(node)) is not None})
        numbers = [number for number in numbers if number in self._steps]
        if not numbers:
            self._message = f"no step matches {self._searched!r}"
            return
        self._at = next((number for number in numbers if number > self._at), numbers[0])

    def _answer_to(self, question: str) -> str | None:
        """What the user types in the bottom line; None if they press Escape."""
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
            self._message = "this step is not a box: there is nothing to open"
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
            self._message = "no box is open that was opened here"

    def _fold_as(self, viewing: ViewOptions) -> None:
        """Fold the graph in another way, and go to the step that runs the first node of the current step."""
        node = self._words.replay.step(self._at).nodes[0] if self._at else None
        self._viewing, self._words, self._text = viewing, self._session.words(viewing), None
        replay = self._words.replay
        self._steps = range(len(replay) + 1)
        self._at = START if node is None else replay.step_of_node(node) or START

    def _list_keys(self) -> None:
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
"""What terminals send for a key, and what it does. There are two codes for each arrow, four for Home and End."""


@contextmanager
def _alternate_screen() -> Iterator[None]:
    """Switch to the alternate screen, and back at the end."""
    draw_screen("", before=_ENTER_SCREEN)
    try:
        yield
    finally:
        draw_screen("", before=_LEAVE_SCREEN)
