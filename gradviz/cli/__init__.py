"""The command line: the group of commands; it turns every error into one line and an exit code.

Exit codes: that of the script, if it failed; otherwise 0 success; 1 a search found nothing, a check found something or
`gradviz doctor` misses something essential; 2 wrong usage, or a check that found nothing to check; 70 a defect of
gradviz; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import click

from gradviz._version import __version__

COMMANDS = {
    "render": ("gradviz.cli.render", "Run a script and draw its autograd graph."),
    "view": ("gradviz.cli.view", "Run a script and explore its graph in the browser."),
    "tree": ("gradviz.cli.tree", "Run a script and print its autograd graph as a tree."),
    "check": ("gradviz.cli.check", "Run a script and say why gradients are missing, zero, NaN or wrong."),
    "diff": ("gradviz.cli.diff", "Say what is different between two runs, and where it began."),
    "rules": ("gradviz.cli.rules", "List what check looks for, or print the documentation of a rule."),
    "explain": ("gradviz.cli.explain", "Show how torch computes the gradient of an operation."),
    "flow": ("gradviz.cli.flow", "Run a script and print the gradient of every parameter."),
    "replay": ("gradviz.cli.replay", "Run a script and show its backward pass step by step."),
    "record": ("gradviz.cli.record", "Run a script and save the recording in a file."),
    "ranks": ("gradviz.cli.ranks", "Compare the processes of one job: graphs, gradients, replicas."),
    "memory": ("gradviz.cli.memory", "Run a script and show which lines hold its memory."),
    "compiled": ("gradviz.cli.compiled", "Run a script and print its graph breaks under torch.compile."),
    "demo": ("gradviz.cli.demo", "Show a first graph; needs no script and no torch."),
    "doctor": ("gradviz.cli.doctor", "Say what works on this machine and with this torch; for bug reports."),
    "schema": ("gradviz.cli.schema", "Print the JSON Schema of the files that gradviz writes."),
    "completion": ("gradviz.cli.completion", "Print what bash, zsh or fish needs to complete commands."),
}
"""For each command: the module that is imported when it is called, and its line in ``gradviz --help``."""


class _LazyGroup(click.Group):
    """Imports the module of a command when it is called, so that ``gradviz --help`` is fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(COMMANDS[cmd_name][0]), f"{cmd_name}_command")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS:
            from gradviz.errors import BadInput, near_matches

            hint = near_matches(args[0], COMMANDS)
            if args[0].endswith((".py", ".gradviz")):
                hint = f"did you mean 'gradviz render {args[0]}'?"
            raise BadInput(f"no such command: {args[0]!r}", hint=hint)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


def _print_versions(ctx: click.Context, param: click.Parameter, is_asked: bool) -> None:
    """Print the versions of gradviz and Python, and that of torch from what is installed, without importing it."""
    if not is_asked:
        return
    from importlib.metadata import PackageNotFoundError, version

    from gradviz.cli.terminal.printing import print_document

    try:
        torch = f"torch {version('torch')}"
    except PackageNotFoundError:
        torch = "no torch"
    python = ".".join(map(str, sys.version_info[:3]))
    print_document(f"gradviz {__version__} ({torch}, Python {python})\n")
    ctx.exit()


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_versions, help="Show versions."
)
def gradviz() -> None:
    """Show the autograd graph that backward() of a PyTorch script runs through.

    SCRIPT runs unchanged, as python would run it. A file that `gradviz record` wrote can take its place.

    The exit code is that of SCRIPT if it failed. Otherwise it is 0; 1 if a search matches nothing, check has findings
    or doctor misses something; 2 for wrong usage; 130 if interrupted.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    from gradviz.collector import spare_the_end

    spare_the_end()
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit code. An error is printed as one line on standard error."""
    from gradviz.errors import GradvizError

    try:
        result: Any = gradviz.main(arguments, prog_name="gradviz", standalone_mode=False)
    except GradvizError as error:
        return _refuse(str(error), error.exit_code)
    except click.exceptions.Exit as request:
        return request.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        from gradviz.cli.terminal.printing import tell_as_it_is

        tell_as_it_is(f"{error.ctx.get_help()}\n")
        return 2
    except click.ClickException as error:
        return _refuse(_one_line(error), 2)
    except (KeyboardInterrupt, click.Abort):
        return _refuse("interrupted", 130)
    except SyntaxError as error:
        return _refuse_syntax(error)
    except Exception as error:
        if os.environ.get("GRADVIZ_TRACEBACK"):
            raise
        what = f"{type(error).__name__}: {error}"
        return _refuse(f"a defect of gradviz: {what}; please report it {_with_traceback()}", 70)
    return result if isinstance(result, int) else 0


def _refuse(message: str, exit_code: int) -> int:
    from gradviz.cli.terminal.printing import tell

    tell(message)
    return exit_code


def _refuse_syntax(error: SyntaxError) -> int:
    import traceback

    from gradviz.cli.terminal.printing import tell_as_it_is

    tell_as_it_is("".join(traceback.format_exception_only(error)))
    return 2


def _with_traceback() -> str:
    """Write the traceback of the exception to a file: a defect may not show a second time."""
    import tempfile
    import traceback

    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="gradviz-defect-", suffix=".txt", delete=False, encoding="utf-8", errors="replace"
        ) as file:
            file.write(traceback.format_exc())
    except OSError:
        return "with the output of GRADVIZ_TRACEBACK=1"
    return f"with {file.name}, which has its traceback"


def _one_line(error: click.ClickException) -> str:
    if isinstance(error, click.NoSuchOption):
        wrong = f"no such option {error.option_name!r}"
        likely = _likely_options(error)
        tail = "arguments of the script itself go after --"
        return f"{wrong}; did you mean {likely}? ({tail})" if likely else f"{wrong}; {tail}"
    message = error.format_message().rstrip(".")
    return message[:1].lower() + message[1:]


def _likely_options(error: click.NoSuchOption) -> str:
    """Options with a similar name; dashes do not count, as all options have them."""
    from difflib import get_close_matches

    names = {known.lstrip("-"): known for known in error.possibilities or ()}
    likely = get_close_matches(error.option_name.lstrip("-"), names, cutoff=0.6)
    return " or ".join(repr(names[name]) for name in likely)
