"""``gradviz tree``: prints a script's graph in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gradviz.cli.options.shared import (
    NAMES_HELP,
    GroupedCommand,
    check_option,
    editor_option,
    recording_options,
    table_below_help,
    terminal_options,
    viewing_options,
)
from gradviz.cli.terminal.progress import working
from gradviz.rendering.tree.columns import COLUMNS

if TYPE_CHECKING:
    from gradviz.cli.captures.source import Source, SourceOptions
    from gradviz.cli.terminal.terminal import Terminal
    from gradviz.rendering.tree.tree import TreeRenderer
    from gradviz.view.build import ViewOptions


_COLUMNS = table_below_help(
    "Columns after the first one, the operation:",
    (f"{column.name:<10}{column.summary}" for column in COLUMNS),
)


@click.command("tree", cls=GroupedCommand, epilog=f"{NAMES_HELP}\n\n{_COLUMNS}")
@recording_options
@check_option
@click.option(
    "--find",
    metavar="REGEX",
    help="Show only matches, and where they are; exit code 1 without a match. Capital letters in REGEX make the search "
    "case-sensitive.",
)
@click.option("--from", "start", metavar="NAME", help="Show NAME and what it was computed from.")
@click.option("--reverse", is_flag=True, help="Leaves first, loss last; with --from: what was computed from NAME.")
@viewing_options
@click.option("--columns", metavar="LIST", help="Columns from the list below: shape,line; or +dtype, or all.")
@click.option("--ascii", is_flag=True, help="Use ASCII characters only.")
@editor_option
@terminal_options(min_width=20)
def tree_command(reverse: bool, no_pager: bool, **others: Any) -> int:
    """Run SCRIPT, and print the autograd graph of its first backward(), from the loss down to the leaves."""
    from gradviz.cli.captures.checked_source import open_for_drawing
    from gradviz.cli.captures.kept_recording import keeping_recording
    from gradviz.cli.captures.required_data import check_columns, check_columns_before_run
    from gradviz.cli.captures.source import report_early_stop
    from gradviz.cli.captures.views import source_options, view_options
    from gradviz.cli.terminal.paging import show
    from gradviz.cli.terminal.terminal import standard_output

    source_choice, viewing = source_options(others), view_options(others | {"downstream": reverse})
    terminal = standard_output(others["color"])
    renderer = _renderer(terminal, reverse, others, _columns(source_choice, others))
    check_columns_before_run(others["columns"], source_choice)
    source = open_for_drawing(source_choice, own_output=True)
    with keeping_recording(source, source_choice):
        check_columns(others["columns"], source, source_choice)
        text = _all_trees(source, viewing, renderer)
        show(text, terminal, use_pager=not no_pager)
    report_early_stop(source, source_choice)
    return source.exit_code


def _columns(source: SourceOptions, options: dict[str, Any]) -> str | None:
    """The columns to show: ``--values`` adds the columns of values."""
    if options["columns"] is not None or not (source.values or source.values_up_to):
        return options["columns"]  # type: ignore[no-any-return]
    return "+value,gradient" if source.gradients and source.root is None else "+value"


def _renderer(terminal: Terminal, reverse: bool, options: dict[str, Any], columns: str | None) -> TreeRenderer:
    from gradviz.rendering.tree.tree import TreeRenderer

    # A link to a file works only on the machine where the file is.
    editor = options["editor"] or ("file" if terminal.has_links else None)
    return TreeRenderer(
        width=options["width"] or terminal.width,
        color=terminal.has_colors,
        ascii=options["ascii"] or not terminal.has_unicode,
        columns=columns,
        reverse=reverse,
        editor=editor,
    )


def _all_trees(source: Source, viewing: ViewOptions, renderer: TreeRenderer) -> str:
    """A tree for each graph, or why it has none."""
    from gradviz.cli.captures.views import subjects_of, title_of
    from gradviz.errors import GradvizError

    trees = []
    for graph, subject in zip(source.graphs, subjects_of(source, viewing), strict=True):
        with working("drawing the tree"):
            tree = f"{subject.message}\n" if isinstance(subject, GradvizError) else renderer.render(subject)
        trees.append(f"{title_of(graph)}\n{tree}" if len(source.graphs) > 1 else tree)
    return "\n".join(trees)
