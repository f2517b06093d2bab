"""``gradviz diff``: what is different between two runs, and where it began."""

from __future__ import annotations

from typing import Any

import click

from gradviz.cli.options.shared import GroupedCommand, completed_file, terminal_options

MIN_WIDTH = 40


@click.command("diff", cls=GroupedCommand)
@click.argument("a", metavar="A", shell_complete=completed_file)
@click.argument("b", metavar="[B]", required=False, shell_complete=completed_file)
@click.option("--env", "env", multiple=True, metavar="NAME=VALUE", help="Set this variable for both scripts.")
@click.option("--env-b", multiple=True, metavar="NAME=VALUE", help="Set this variable for B only.")
@click.option("--args", "args", metavar="ARGUMENTS", help='Arguments of the scripts: --args "--lr 0.1".')
@click.option("--args-b", metavar="ARGUMENTS", help="Arguments of B, in place of --args.")
@click.option(
    "--backward", metavar="N|last|all", help="Which backward() or grad() call to record (default: the first)."
)
@click.option("--keep-going", is_flag=True, help="Run scripts to their end, not only to the recorded backward.")
@click.option(
    "--rtol",
    type=click.FloatRange(min=0),
    metavar="X",
    help="Largest distance of the same values, relative to their norm (default: by dtype, 1e-5 for float32).",
)
@click.option(
    "-o", "--output", metavar="OUT", help="Draw one graph of both, what differs marked: .svg, .png, .pdf or .html."
)
@click.option("--format", "format_name", type=click.Choice(["terminal", "json", "github"]), default="terminal")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json; see gradviz schema diff.")
@click.option("--all", "show_all", is_flag=True, help="List every difference and figure.")
@terminal_options(min_width=MIN_WIDTH)
def diff_command(a: str, b: str | None, **options: Any) -> int:
    """Compare two runs: say whether they are the same, or where they begin to differ, and on which line.

    A and B are recordings (run.gradviz, or run.gradviz#2 for its second backward call), scripts, or scripts as they
    were at a commit (train.py@HEAD~3). Without B, A is compared with itself: what is not deterministic. Exit code 0:
    the same; 1: different; 2: wrong usage.
    """
    from gradviz.analysis.diff.closeness import Tolerance
    from gradviz.analysis.diff.comparison import compare
    from gradviz.cli.captures.compared_sources import HowToRun, environment_of, source_of, words_of
    from gradviz.cli.terminal.paging import show
    from gradviz.cli.terminal.printing import print_document
    from gradviz.cli.terminal.progress import working
    from gradviz.cli.terminal.terminal import standard_output

    terminal = standard_output(options["color"])
    renderer = None if options["output"] is None else _renderer(options["output"], [a, b or a])
    environment = environment_of(options["env"], "--env")
    arguments = words_of(options["args"], "--args")
    arguments_b = arguments if options["args_b"] is None else words_of(options["args_b"], "--args-b")
    environment_b = {**environment, **environment_of(options["env_b"], "--env-b")}
    backward, keep_going = options["backward"], options["keep_going"]
    sources = source_of(a), source_of(a if b is None else b)
    one = sources[0].side(HowToRun(environment, arguments, backward, keep_going))
    other = sources[1].side(HowToRun(environment_b, arguments_b, backward, keep_going))
    with working("comparing"):
        compared = compare(one, other, Tolerance(options["rtol"]))
    difference = compared.difference
    if renderer is not None:
        _draw(compared, renderer, options["output"])
    format_name = "json" if options["as_json"] else options["format_name"]
    text = _text(difference, format_name, terminal.text_width(options["width"], MIN_WIDTH), terminal, options)
    if format_name == "terminal":
        show(text, terminal, use_pager=not options["no_pager"])
    else:
        print_document(text)
    return int(not difference.same)


def _renderer(path: str, inputs: list[str]) -> Any:
    """The painter for this file; raises `BadInput`, before anything runs, if it cannot be drawn or written."""
    from gradviz.diff_result import renderer_for
    from gradviz.errors import BadInput
    from gradviz.file_output import check_outputs

    if path == "-":
        raise BadInput("diff prints to standard output, so the picture cannot go there", hint="-o FILE.svg")
    renderer = renderer_for(path)
    check_outputs([path], inputs=inputs)
    return renderer


def _draw(compared: Any, renderer: Any, path: str) -> None:
    from gradviz.cli.terminal.progress import working
    from gradviz.file_output import write_output
    from gradviz.rendering.difference_picture import difference_subject

    with working(f"drawing {path}"):
        content = renderer.render(difference_subject(compared))
    write_output(path, content)


def _text(difference: Any, format_name: str, width: int, terminal: Any, options: dict[str, Any]) -> str:
    from gradviz.rendering.reports.diff_json import diff_github, diff_json
    from gradviz.rendering.reports.diff_text import diff_text

    if format_name == "json":
        return diff_json(difference)
    if format_name == "github":
        return diff_github(difference)
    return diff_text(difference, width, color=terminal.has_colors, show_all=options["show_all"])
