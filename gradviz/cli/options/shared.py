"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


MAX_WHOLE = 4096
"""Elements of a tensor that anybody would look at one by one."""


class _BackwardNumber(click.ParamType[int | str]):
    name = "N|last|all"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value in ("last", "all") or isinstance(value, int):
            return value  # type: ignore[no-any-return]
        if not str(value).isdecimal() or int(value) < 1:
            self.fail(f"{value!r} is neither a number from 1 on, nor 'last' or 'all'", param, ctx)
        return int(value)


_RECORDING = (
    click.option("-m", "module", metavar="MODULE", help="Run a module, as python -m does."),
    click.option(
        "--backward",
        type=_BackwardNumber(),
        metavar="N|last|all",
        help="Which backward() or grad() call to record; without it, the first.",
    ),
    click.option("--keep-going", is_flag=True, help="Let the script run to its end after the last wanted backward."),
    click.option("--root", metavar="NAME", help='Record what NAME was computed from, e.g. out["loss"], at the end.'),
    click.option(
        "--gradients/--no-gradients", default=True, help="Measure what flows along every edge while backward runs."
    ),
    click.option("--values", is_flag=True, help="Keep every number of small tensors, forward and back."),
    click.option(
        "--values-up-to",
        type=click.IntRange(min=1, max=MAX_WHOLE),
        metavar="N",
        help="The same for tensors of N elements or fewer; 64 without it.",
    ),
)

_PROGRAM = "SCRIPT|CAPTURE [-- ARGUMENTS]..."

_SELECTING = (
    click.option(
        "--path",
        nargs=2,
        metavar="FROM TO",
        help="Show only what lies between two names: a variable, parameter, module, operation or line (train.py:41).",
    ),
    click.option("--around", metavar="NAME", help="Show only what is near a name."),
    click.option(
        "--radius", type=click.IntRange(min=0), metavar="N", help="How many edges away --around goes; 2 without it."
    ),
    click.option("--only-trainable", is_flag=True, help="Show only parameters and what is computed from them."),
    click.option("--hide", multiple=True, metavar="REGEX", help="Leave out operations, leaves and data that match."),
    click.option(
        "--group-by",
        metavar="module|function|line",
        help="What boxes stand for; functions where no module ran, else modules.",
    ),
)

_OPENING = (
    click.option("--depth", type=click.IntRange(min=0), metavar="N", help="How many levels of boxes to open."),
    click.option("--unfold", multiple=True, metavar="PATH", help="Open this box; * stands for one name."),
    click.option("--fold", multiple=True, metavar="PATH", help="Keep this box folded."),
)

_SHOW_ALL = click.option("--all", "show_all", is_flag=True, help="Fold nothing.")

_DETAILS = (
    click.option("--plumbing", is_flag=True, help="Show views, transposes and other plumbing as operations."),
    click.option("--constants/--no-constants", default=True, help="Show inputs that need no gradient."),
    click.option(
        "--max-items",
        type=click.IntRange(min=1),
        metavar="N",
        default=60,
        show_default=True,
        help="Fold until there are about so many things to see.",
    ),
)


editor_option = click.option(
    "--editor",
    metavar="NAME|URL",
    envvar="GRADVIZ_EDITOR",
    help="Link to source lines, e.g. vscode; or a URL with {file} and {line}.",
)


check_option = click.option(
    "--check/--no-check",
    default=None,
    help="Run SCRIPT as gradviz check does, and mark what that finds; captures that it made are marked without asking.",
)
root_shares_option = click.option(
    "--root-shares",
    is_flag=True,
    help="Measure what each root, or each term of a loss that is a sum, gives to every parameter's gradient, and which "
    "of them pull against each other. Each costs a backward, and memory for the gradients of all parameters.",
)


def table_below_help(title: str, rows: Iterable[str]) -> str:
    """The epilog of a command's help, line by line."""
    # Click leaves a paragraph as it is that begins so.
    return "\n".join(["\b", title, *(f"  {row}" for row in rows)])


def recording_options(command: _Command) -> _Command:
    """What to run, and which backward to record: see `gradviz.cli.captures.source.SourceOptions`."""
    return _apply((*_RECORDING, _words(_PROGRAM)), command)


def optional_recording_options(command: _Command) -> _Command:
    """The same for a command that also works without any program."""
    return _apply((*_RECORDING, _words(f"[{_PROGRAM}]")), command)


def _words(metavar: str) -> Callable[[Any], Any]:
    return click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar=metavar)


def viewing_options(command: _Command) -> _Command:
    """What part of the graph to show, and how much of it: see `gradviz.cli.captures.views.view_options`."""
    return _apply((*_SELECTING, *_OPENING, _SHOW_ALL, *_DETAILS), command)


def viewing_options_without_all(command: _Command) -> _Command:
    """The same for a command in which ``--all`` says something else."""
    return _apply((*_SELECTING, *_OPENING, *_DETAILS), command)


def terminal_options(*, least_width: int) -> Callable[[_Command], _Command]:
    """How what is printed suits the terminal: see `gradviz.cli.terminal.terminal` and `gradviz.cli.terminal.paging`."""
    width = click.IntRange(min=least_width)
    options = (
        click.option("--width", type=width, metavar="N", help="Columns; the terminal's, or 100 in a pipe."),
        click.option(
            "--color",
            type=click.Choice(["auto", "always", "never"]),
            default="auto",
            help="auto: in a terminal, unless NO_COLOR is set.",
        ),
        click.option("--no-pager", is_flag=True, help="Do not page what is longer than the screen."),
    )
    return lambda command: _apply(options, command)


def _apply(options: tuple[Callable[[Any], Any], ...], command: _Command) -> _Command:
    for option in reversed(options):
        command = option(command)
    return command
