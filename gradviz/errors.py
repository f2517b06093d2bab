"""Everything gradviz raises on purpose.

::

    GradvizError            message, hint, exit code 2 (wrong usage) unless a leaf says otherwise
    |-- BadInput            a script, option, name or output path that cannot be used
    |   `-- NotInThisGraph  a name or part that one graph does not have; another one may
    |-- BadCapture          a capture file that cannot be read
    |-- NothingRecorded     the script ran, but there is no graph to show
    |-- NothingFound        a search that fits nothing: exit code 1, as of grep
    |-- CheckFailed         a training step has findings that are to end the training
    `-- MissingDependency   torch or an optional program is not there

The core raises; only the command line prints, one line each.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class GradvizError(Exception):
    """Something the user can act on: `message` says what was wrong and the value, `hint` what to do."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class BadInput(GradvizError):
    """A script, option, name or output path that cannot be used."""


class NotInThisGraph(BadInput):
    """A name or part that one graph does not have; another one may."""


class BadCapture(GradvizError):
    """A capture file that cannot be read."""


class NothingRecorded(GradvizError):
    """The script ran, but there is no graph to show."""


class NothingFound(GradvizError):
    """A search that fits nothing."""

    exit_code = 1


class CheckFailed(GradvizError):
    """A training step has findings that are to end the training."""

    exit_code = 1


class MissingDependency(GradvizError):
    """A package or program that this command needs is not installed."""


MAX_CHOICES = 14
"""So many are listed where none is like what was written."""


def check_choice(option: str, value: object, choices: Iterable[str]) -> None:
    """Raise `BadInput`, with near matches, unless `value` is one of `choices`."""
    known = tuple(choices)
    if value not in known:
        raise BadInput(f"unknown {option} {value!r}", hint=near_matches(value, known))


def near_matches(wrong: object, choices: Iterable[str], *, limit: int = 3) -> str:
    """Words for a hint: the choices most like `wrong`, or else the first of them, so give the likeliest first."""
    # A set has no order that would be the same in every run.
    known = sorted(choices) if isinstance(choices, (set, frozenset)) else list(dict.fromkeys(choices))
    close = get_close_matches(str(wrong), known, n=limit, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(repr(choice) for choice in close) + "?"
    if not known:
        return "there are none here"
    more = f" and {len(known) - MAX_CHOICES:,} more" if len(known) > MAX_CHOICES else ""
    return f"choose from {', '.join(known[:MAX_CHOICES])}{more}"
