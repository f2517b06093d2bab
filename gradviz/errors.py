"""The errors that gradviz raises on purpose.

::

    GradvizError            message, hint, exit code 2 (wrong usage)
    |-- BadInput            a script, option, name or output path that cannot be used
    |   `-- NotInThisGraph  a name or part that this graph does not have; another graph may have it
    |-- BadCapture          a capture file that cannot be read
    |-- NothingRecorded     the script ran, but there is no graph to show
    |-- NothingFound        a search without a match: exit code 1, as for grep
    |-- CheckFailed         a training step has findings that must end the training: exit code 1
    `-- MissingDependency   torch or an optional program is not installed

The library raises them; only the command line prints them, each as one line.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from gradviz.safe_text import printable


class GradvizError(Exception):
    """An error that the user can correct: `message` says what is wrong, with the value; `hint` says what to do."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = printable(message)
        super().__init__(self.message)
        self.hint = hint

    def add_hint(self, more: str) -> None:
        """Add a phrase to the hint."""
        gap = " " if self.hint and self.hint.endswith("?") else "; "
        self.hint = f"{self.hint}{gap}{more}" if self.hint else more

    def __str__(self) -> str:
        return f"{self.message}; {printable(self.hint)}" if self.hint else self.message


class BadInput(GradvizError):
    """A script, option, name or output path that cannot be used."""


class NotInThisGraph(BadInput):
    """A name or part that this graph does not have; another graph may have it."""


class BadCapture(GradvizError):
    """A capture file that cannot be read."""


class NothingRecorded(GradvizError):
    """The script ran, but there is no graph to show."""


class NothingFound(GradvizError):
    """A search without a match."""

    exit_code = 1


class CheckFailed(GradvizError):
    """A training step has findings that must end the training."""

    exit_code = 1


class MissingDependency(GradvizError):
    """A package or program that this command needs is not installed."""


MAX_CHOICES = 14
"""How many choices are listed if none is similar to the given value."""


class UnknownChoice(BadInput):
    """A value that is none of an option's choices."""

    def __init__(self, option: str, value: object, choices: tuple[str, ...]) -> None:
        super().__init__(f"unknown {option} {value!r}", hint=near_matches(value, choices))
        self.option, self._value, self._choices = option, value, choices

    def of_option(self, name: str) -> UnknownChoice:
        """The same error about the option as the user wrote it: ``--color-by`` for ``color_by``."""
        return UnknownChoice(name, self._value, self._choices)


def check_choice(option: str, value: object, choices: Iterable[str]) -> None:
    """Raise `BadInput`, with near matches, unless `value` is one of `choices`."""
    known = tuple(choices)
    if value not in known:
        raise UnknownChoice(option, value, known)


def near_matches(
    wrong: object, choices: Iterable[str], *, limit: int = 3, ending: str = "", also: Iterable[str] = ()
) -> str:
    """A hint with the choices most similar to `wrong`; if none is similar, with the first choices.

    Args:
        also: other names of the same choices, which are only told where they are similar.
        ending: what the choices end with, such as ``.py``, which makes none of them similar.
    """
    # The order of a set differs from run to run.
    known = sorted(choices) if isinstance(choices, (set, frozenset)) else list(dict.fromkeys(choices))
    compared = {choice.removesuffix(ending): choice for choice in (*known, *also)}
    found = get_close_matches(str(wrong).removesuffix(ending), compared, n=limit, cutoff=0.5)
    close = [compared[each] for each in found]
    if close:
        return "did you mean " + " or ".join(repr(choice) for choice in close) + "?"
    if not known:
        return "there are none here"
    more = f" and {len(known) - MAX_CHOICES:,} more" if len(known) > MAX_CHOICES else ""
    return f"choose from {', '.join(known[:MAX_CHOICES])}{more}"
