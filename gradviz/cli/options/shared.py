"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from gradviz.cli.options.examples import EXAMPLES

_Command = TypeVar("_Command", bound=Callable[..., Any])


MAX_VALUES_UP_TO = 4096
"""Larger tensors are too large to read number by number."""


class WholeNumber(click.IntRange):
    """A number between bounds; for click, what is none "is not a valid integer range"."""

    name = "integer"


# Before click 8.4 the class took no type.
class _BackwardNumber(click.ParamType):  # type: ignore[type-arg]
    name = "N|last|all"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value in ("last", "all") or isinstance(value, int):
            return value  # type: ignore[no-any-return]
        if not str(value).isdecimal() or int(value) < 1:
            self.fail(f"{value!r} is neither a number from 1 on, nor 'last' or 'all'", param, ctx)
        return int(value)


_MODULE = click.option("-m", "module", metavar="MODULE", help="Run a module, as python -m does.")


class _RankNumbers(click.ParamType):  # type: ignore[type-arg]
    name = "N,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        parts = str(value).split(",")
        if not all(part.strip().isdecimal() for part in parts):
            self.fail(f"{value!r} is not a list of ranks, such as 0,3", param, ctx)
        return tuple(sorted({int(part) for part in parts}))


_RANKS = (
    click.option("--ranks", type=_RankNumbers(), metavar="N,...", help="Of a job of many ranks, use only these: 0,3."),
    click.option(
        "--hang",
        type=click.FloatRange(min=0, min_open=True),
        metavar="S",
        help="End a job of many ranks if none of them gets on for S seconds, and say where each stands (check: 60).",
    ),
    click.option("--rank", type=WholeNumber(min=0), metavar="N", help="Of a job, show this rank (default: 0)."),
)

inside_option = click.option(
    "--inside",
    is_flag=True,
    help="Measure gradients inside code of torch.compile, too: runs it a second time, and holds its inputs until then.",
)

_RECORDING = (
    _MODULE,
    *_RANKS,
    click.option(
        "--backward",
        type=_BackwardNumber(),
        metavar="N|last|all",
        help="Which backward() or grad() call to record (default: the first).",
    ),
    click.option("--keep-going", is_flag=True, help="Run the script to its end, not only to the recorded backward."),
    click.option("--root", metavar="NAME", help='Record the graph of a tensor at the script\'s end: out["loss"].'),
    click.option(
        "--gradients/--no-gradients", default=True, help="Measure the gradient along every edge (default: yes)."
    ),
    click.option("--values", is_flag=True, help="Record the numbers of small tensors, in forward and backward."),
    click.option(
        "--values-up-to",
        type=WholeNumber(min=1, max=MAX_VALUES_UP_TO),
        metavar="N",
        help="Record the numbers of tensors with N elements or fewer; --values means 64.",
    ),
    inside_option,
)

_PROGRAM = "SCRIPT|RECORDING [-- ARGUMENTS]... | -- COMMAND [ARGUMENTS]..."

_SELECTING = (
    click.option(
        "--path",
        nargs=2,
        metavar="FROM TO",
        help="Show only what lies between two names.",
    ),
    click.option("--around", metavar="NAME", help="Show only what is near NAME."),
    click.option(
        "--radius", type=WholeNumber(min=0), metavar="N", help="How many edges --around follows (default: 2)."
    ),
    click.option("--only-trainable", is_flag=True, help="Show only parameters and what is computed from them."),
    click.option("--hide", multiple=True, metavar="REGEX", help="Hide operations, leaves and inputs that match."),
    click.option(
        "--group-by",
        metavar="module|function|line",
        help="What a box is (default: module; function if no module ran).",
    ),
)

_OPENING = (
    click.option("--depth", type=WholeNumber(min=0), metavar="N", help="How many levels of boxes to open."),
    click.option("--unfold", multiple=True, metavar="PATH", help="Open this box; * matches one name."),
    click.option("--fold", multiple=True, metavar="PATH", help="Close this box."),
)

_SHOW_ALL = click.option("--all", "show_all", is_flag=True, help="Fold nothing.")

_DETAILS = (
    click.option("--plumbing", is_flag=True, help="Show views, transposes and the like as operations."),
    click.option("--constants/--no-constants", default=True, help="Show inputs that need no gradient (default: yes)."),
    click.option(
        "--max-items",
        type=WholeNumber(min=1),
        metavar="N",
        default=60,
        show_default=True,
        help="Close boxes until about N items are visible.",
    ),
)


editor_option = click.option(
    "--editor",
    metavar="NAME|URL",
    envvar="GRADVIZ_EDITOR",
    help="Link source lines to an editor, such as vscode; or a URL with {file} and {line}.",
)


check_option = click.option(
    "--check/--no-check",
    default=None,
    help="Run SCRIPT as gradviz check does, and mark its findings (default: only for recordings of a check).",
)
root_shares_option = click.option(
    "--root-shares",
    is_flag=True,
    help="Measure what each root, or each term of a loss that is a sum, adds to every parameter's gradient, and which "
    "of them conflict. Each costs a backward, and memory for the gradients of all parameters.",
)


NAMES_HELP = (
    "NAME, FROM and TO can be a variable, parameter, module, operation, grad_fn or line (train.py:41); with --check, "
    "also the place where a gradient was cut. A unique ending is enough: fc.weight."
)


_SECTIONS = {
    "Findings": "select ignore fail_on baseline write_baseline why all_params_get_grad allow_empty max_saved",
    "Recording": "module env env_b args args_b seconds steps rank ranks hang backward keep_going root gradients values "
    "values_up_to inside check root_shares",
    "What to show": "path around radius only_trainable hide group_by depth unfold fold show_all plumbing constants "
    "max_items",
    "Look": "direction shape theme arrows color_by engine scale editor ascii only_ascii width color no_pager",
}
"""Sections of a command's help, with the names of their options."""


HAS_DASHES = "gradviz.has_dashes"
"""Whether the user wrote ``--``, which click removes; in the context of the command."""


class GroupedCommand(click.Command):
    """A command whose help begins with examples, then lists its own options, and shared options in sections."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[HAS_DASHES] = "--" in args
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        from gradviz.cli.terminal.printing import tell
        from gradviz.file_output import noting_new_folders

        with noting_new_folders(lambda folder: tell(f"made the folder {str(folder)!r}")):
            return super().invoke(ctx)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            examples = EXAMPLES[self.name or ""]
            widest = max(len(line) for line, _ in examples)
            for line, words in examples:
                row = f"  {line.ljust(widest)}  {words}"
                formatter.write(f"{row}\n" if len(row) <= formatter.width else f"  {line}\n      {words}\n")
        super().format_help_text(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        titles = {name: title for title, names in _SECTIONS.items() for name in names.split()}
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in ("Options", *_SECTIONS)}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                sections[titles.get(parameter.name or "", "Options")].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def table_below_help(title: str, rows: Iterable[str]) -> str:
    """The epilog of a command's help, line by line."""
    # With this first line, click does not wrap the paragraph.
    return "\n".join(["\b", title, *(f"  {row}" for row in rows)])


def program_options(command: _Command) -> _Command:
    """Options that say what to run."""
    return _apply((_MODULE, *_RANKS, _words(_PROGRAM)), command)


def recording_options(command: _Command) -> _Command:
    """Options that say what to run and what to record: see `gradviz.cli.captures.source.SourceOptions`."""
    return _apply((*_RECORDING, _words(_PROGRAM)), command)


def script_options(command: _Command) -> _Command:
    """The same for a command that takes no capture."""
    return _apply((*_RECORDING, _words("SCRIPT [-- ARGUMENTS]... | -- COMMAND [ARGUMENTS]...")), command)


def optional_recording_options(command: _Command) -> _Command:
    """The same for a command that also works without a program."""
    return _apply((*_RECORDING, _words(f"[{_PROGRAM}]")), command)


def _words(metavar: str) -> Callable[[Any], Any]:
    return click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar=metavar, shell_complete=completed_file)


def completed_file(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Leaves it to the shell to complete the name of a file."""
    return [CompletionItem(incomplete, type="file")]


def viewing_options(command: _Command) -> _Command:
    """Options that say which part of the graph to show, and how: see `gradviz.cli.captures.views.view_options`."""
    return _apply((*_SELECTING, *_OPENING, _SHOW_ALL, *_DETAILS), command)


def viewing_options_without_all(command: _Command) -> _Command:
    """The same for a command in which ``--all`` has another meaning."""
    return _apply((*_SELECTING, *_OPENING, *_DETAILS), command)


def terminal_options(*, min_width: int) -> Callable[[_Command], _Command]:
    """Options for printed text: see `gradviz.cli.terminal.terminal` and `gradviz.cli.terminal.paging`."""
    width = WholeNumber(min=min_width)
    options = (
        click.option(
            "--width",
            type=width,
            metavar="N",
            help="Columns (default: those of the terminal; in a pipe $COLUMNS, or 100).",
        ),
        click.option(
            "--color",
            type=click.Choice(["auto", "always", "never"]),
            default="auto",
            help="auto: colours in a terminal, unless NO_COLOR is set.",
        ),
        click.option("--no-pager", is_flag=True, help="Print long text without a pager."),
    )
    return lambda command: _apply(options, command)


def _apply(options: tuple[Callable[[Any], Any], ...], command: _Command) -> _Command:
    for option in reversed(options):
        command = option(command)
    return command
