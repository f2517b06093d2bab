"""``gradviz memory``: shows which lines and modules hold the memory of a training step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from gradviz.cli.options.shared import GroupedCommand, WholeNumber, recording_options, terminal_options
from gradviz.cli.terminal.progress import working

if TYPE_CHECKING:
    from gradviz.analysis.memory.job_memory import JobMemory
    from gradviz.capture.capture import Capture
    from gradviz.graph.model import Graph


@click.command("memory", cls=GroupedCommand)
@recording_options
@click.option("--by", metavar="line|module|operation|dtype|storage", help="One table (default: lines and modules).")
@click.option("--rows", type=WholeNumber(min=1), metavar="N", default=10, show_default=True, help="Rows of a table.")
@click.option(
    "-o", "--output", metavar="OUT", help="Write a treemap to OUT.svg or OUT.png, or all figures to OUT.json."
)
@click.option("--json", "as_json", is_flag=True, help="Print all figures as JSON.")
@terminal_options(min_width=40)
def memory_command(output: str | None, as_json: bool, no_pager: bool, **chosen: Any) -> int:
    """Run SCRIPT, and show what its graph keeps in memory until its first backward() has run.

    Every storage is counted once, at the first line that keeps it.
    """
    from gradviz.analysis.memory.memory_document import memory_json
    from gradviz.analysis.ranks.rank_memory import job_memory
    from gradviz.cli.captures.compared_ranks import several_ranks
    from gradviz.cli.captures.kept_recording import keeping_recording
    from gradviz.cli.captures.source import open_source, report_early_stop
    from gradviz.cli.captures.views import source_options
    from gradviz.cli.terminal.paging import show
    from gradviz.cli.terminal.printing import tell
    from gradviz.cli.terminal.terminal import standard_output
    from gradviz.file_output import check_outputs, write_output
    from gradviz.rendering.reports.memory_report import (
        MIN_WIDTH,
        ReportOptions,
        check_knows_saved_tensors,
        memory_report,
    )
    from gradviz.rendering.reports.ranks_text import rank_memory_text

    source_choice, terminal = source_options(chosen), standard_output(chosen["color"])
    options = ReportOptions(
        chosen["by"], chosen["rows"], terminal.text_width(chosen["width"], MIN_WIDTH), terminal.has_colors
    )
    if output is not None:
        _check_suffix(output)
        check_outputs([output], inputs=source_choice.inputs)
        source_choice = replace(source_choice, outputs=(output,))
    if as_json:
        _check_no_table_is_chosen()
    takes_one = as_json or output is not None
    if takes_one and source_choice.backward == "all" and not source_choice.is_capture:
        raise _several()
    source = open_source(source_choice, own_output=True)
    with keeping_recording(source, source_choice):
        for graph in source.graphs:
            check_knows_saved_tensors(source.capture, graph)
        if takes_one and len(source.graphs) > 1:
            raise _several()
        with working("counting the memory"):
            others = several_ranks(source, source_choice)
            job = None if others is None else job_memory(others.summaries, others.world_size)
            if output is not None:
                write_output(output, _content(output, source.capture, source.graphs[0], job))
            reports = [
                memory_json(source.capture, graph, job) if as_json else memory_report(source.capture, graph, options)
                for graph in source.graphs
            ]
            if others is not None and not as_json:
                width, has_colors = options.width, options.color
                reports.append(rank_memory_text(others.summaries, others.world_size, width, color=has_colors))
        show("\n".join(reports), terminal, use_pager=not (no_pager or as_json))
    if output is not None:
        tell(f"wrote {output}")
    report_early_stop(source, source_choice)
    return source.exit_code


def _check_no_table_is_chosen() -> None:
    from gradviz.errors import BadInput

    for name in ("by", "rows"):
        if click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise BadInput(f"--{name} chooses a table, and --json prints everything", hint="leave out one of them")


def _several() -> Exception:
    from gradviz.errors import BadInput

    return BadInput("--json and -o take one graph", hint="pick one with --backward N")


def _check_suffix(path: str) -> None:
    from gradviz.errors import BadInput

    if Path(path).suffix.lower() not in (".svg", ".png", ".json"):
        raise BadInput(
            f"{path!r} does not end in .svg, .png or .json",
            hint="a treemap is an .svg or .png, the figures are a .json",
        )


def _content(path: str, capture: Capture, graph: Graph, job: JobMemory | None) -> str | bytes:
    from gradviz.analysis.memory.kept_memory import memory_of
    from gradviz.analysis.memory.memory_document import memory_json
    from gradviz.rendering.svg.treemap import TreemapRenderer

    if Path(path).suffix.lower() == ".json":
        return memory_json(capture, graph, job)
    renderer, title = TreemapRenderer(), capture.titled(" ".join([capture.program.name, *capture.program.arguments]))
    draw = renderer.png if Path(path).suffix.lower() == ".png" else renderer.render
    return draw(title, graph, memory_of(graph))
