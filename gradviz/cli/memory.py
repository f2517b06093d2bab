"""``gradviz memory``: which lines and modules hold the memory of a training step."""

from __future__ import annotations

import shutil
import sys
from typing import Any

import click

from gradviz.cli.options import recording_options


@click.command("memory")
@recording_options
@click.option("--by", metavar="line|module|operation|dtype|storage", help="One table; without it, lines and modules.")
@click.option("--rows", type=click.IntRange(min=1), metavar="N", default=10, show_default=True, help="Longest tables.")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON, on standard output.")
@click.option("--width", type=click.IntRange(min=40), metavar="N", help="Columns; the terminal's, or 100 in a pipe.")
def memory_command(by: str | None, rows: int, as_json: bool, width: int | None, **others: Any) -> int:
    """Run SCRIPT, and tell what its graph keeps in memory until its first backward() has run.

    Every storage is counted once, at the first line that keeps it.
    """
    from gradviz.analysis.memory_document import memory_json
    from gradviz.cli.memory_report import ReportOptions, checked_way, memory_report
    from gradviz.cli.output import write_output
    from gradviz.cli.rescue import recording_kept
    from gradviz.cli.source import open_source, tell_that_it_was_stopped
    from gradviz.cli.views import source_options
    from gradviz.errors import BadInput

    source_choice = source_options(others)
    is_terminal = sys.stdout.isatty()
    options = ReportOptions(
        checked_way(by), rows, width or (shutil.get_terminal_size().columns if is_terminal else 100), is_terminal
    )
    several = BadInput("--json takes one graph", hint="pick one with --backward N")
    if as_json and source_choice.backward == "all" and not source_choice.is_capture:
        raise several
    source = open_source(source_choice, own_output=True)
    with recording_kept(source, source_choice):
        if as_json and len(source.graphs) > 1:
            raise several
        reports = (
            memory_json(source.capture, graph) if as_json else memory_report(source.capture, graph, options)
            for graph in source.graphs
        )
        write_output("-", "\n".join(reports))
    tell_that_it_was_stopped(source, source_choice)
    return source.exit_code
