"""``gradviz flow``: prints the gradient of every parameter, and where gradients vanish."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gradviz.cli.options.shared import (
    GroupedCommand,
    WholeNumber,
    recording_options,
    root_shares_option,
    terminal_options,
)

if TYPE_CHECKING:
    from gradviz.cli.captures.source import Source, SourceOptions
    from gradviz.rendering.reports.terminal_tables import TableLook


MIN_WIDTH = 40
"""The narrowest table, in columns."""


@click.command("flow", cls=GroupedCommand)
@recording_options
@root_shares_option
@click.option("--depth", type=WholeNumber(min=0), metavar="N", help="How many levels of modules to open.")
@click.option("--all", "show_all", is_flag=True, help="Print a row for every parameter.")
@click.option("--over-steps", is_flag=True, help="Show all steps of a run log, which gradviz.watch() writes.")
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    help="Draw the gradient of every parameter as a chart: OUT.svg or OUT.png; with --over-steps, all steps.",
)
@click.option("--to-tensorboard", metavar="DIR", help="Write the steps of a run log as TensorBoard events.")
@click.option("--json", "as_json", is_flag=True, help="Print all figures of every parameter as JSON.")
@click.option("--ascii", "only_ascii", is_flag=True, help="Use ASCII characters only.")
@terminal_options(min_width=MIN_WIDTH)
def flow_command(depth: int | None, show_all: bool, as_json: bool, no_pager: bool, **others: Any) -> int:
    """Run SCRIPT, and print the gradient that its first backward() gives to every parameter, in the model's order."""
    from gradviz.analysis.flow.flow_document import flow_json
    from gradviz.cli.captures.kept_recording import keeping_recording
    from gradviz.cli.captures.required_data import check_gradients
    from gradviz.cli.captures.source import open_source, report_early_stop
    from gradviz.cli.captures.views import source_options
    from gradviz.cli.reports.run_log import RunLogOptions, is_run_log_file, show_run_log
    from gradviz.cli.terminal.paging import show
    from gradviz.cli.terminal.terminal import standard_output
    from gradviz.rendering.reports.flow_table import FlowTable
    from gradviz.rendering.reports.terminal_tables import TableLook

    source_choice, terminal = source_options(others), standard_output(others["color"])
    _check(source_choice, depth, show_all=show_all, as_json=as_json)
    run_log_options = RunLogOptions(others["over_steps"], others["output"], others["to_tensorboard"])
    is_log = is_run_log_file(source_choice)
    if not is_log:
        run_log_options.refuse(source_choice)
        _check_output(others["output"], source_choice, as_json=as_json)
    look = TableLook(
        width=terminal.text_width(others["width"], MIN_WIDTH),
        color=terminal.has_colors,
        only_ascii=others["only_ascii"] or not terminal.has_unicode,
        depth=depth,
        show_all=show_all,
    )
    if is_log:
        text = show_run_log(source_choice, run_log_options, look, as_json=as_json)
        show(text, terminal, use_pager=not (no_pager or as_json))
        return 0
    source = open_source(source_choice, own_output=True)
    with keeping_recording(source, source_choice):
        check_gradients(source, source_choice)
        recorded = source.capture, source.graphs
        text = flow_json(*recorded) if as_json else FlowTable(look).text(*recorded)
        if others["output"] is not None:
            text = _drawn(source, others["output"], look)
        show(text, terminal, use_pager=not (no_pager or as_json))
    report_early_stop(source, source_choice)
    return source.exit_code


def _check_output(path: str | None, source: SourceOptions, *, as_json: bool) -> None:
    """Raise `BadInput` for a chart that cannot be written, before the script runs."""
    from gradviz.errors import BadInput
    from gradviz.file_output import check_outputs

    if path is None:
        return
    if as_json:
        raise BadInput("-o and --json exclude each other", hint="-o draws a picture, --json prints figures")
    if not path.lower().endswith((".svg", ".png")):
        raise BadInput(f"{path!r} does not end in .svg or .png", hint="'gradviz render -o OUT' draws the graph")
    if source.backward == "all" and not source.is_capture:
        raise BadInput("-o draws one backward call", hint="pick one with --backward N")
    check_outputs([path], inputs=source.inputs)


def _drawn(source: Source, path: str, look: TableLook) -> str:
    """Write the chart of the only graph; returns the report for standard output."""
    from gradviz.errors import BadInput
    from gradviz.file_output import write_output
    from gradviz.rendering.svg.flow_bars import FlowBarsRenderer

    if len(source.graphs) > 1:
        raise BadInput("-o draws one backward call", hint="pick one with --backward N")
    renderer = FlowBarsRenderer(depth=look.depth, show_all=look.show_all)
    draw = renderer.png if path.lower().endswith(".png") else renderer.render
    write_output(path, draw(source.capture, source.graphs[0]))
    return f"wrote {path}\n"


def _check(source: SourceOptions, depth: int | None, *, show_all: bool, as_json: bool) -> None:
    from gradviz.errors import BadInput

    if depth is not None and show_all:
        raise BadInput("--depth and --all exclude each other", hint="--all opens every level")
    if depth is not None and as_json:
        raise BadInput("--json has every parameter, so --depth has no effect on it", hint="leave out --depth")
    if not source.gradients:
        raise BadInput("flow shows gradients: --no-gradients leaves nothing to show")
    if source.root is not None:
        raise BadInput(
            "--root records a graph without backward, so there are no gradients", hint="pick a call with --backward N"
        )
