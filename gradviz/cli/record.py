"""``gradviz record``: run now, look later, anywhere."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from gradviz.cli.options.shared import recording_options, root_shares_option
from gradviz.cli.terminal.progress import working


@click.command("record")
@recording_options
@root_shares_option
@click.option("-o", "--output", metavar="OUT", help="Capture to write; SCRIPT's name with .gradviz.")
def record_command(output: str | None, **others: Any) -> int:
    """Run SCRIPT and write what was recorded to one file, which every other command takes in place of a script."""
    from gradviz.capture.capture_file import CAPTURE_SUFFIX, write_capture
    from gradviz.cli.captures.rescue import recording_kept
    from gradviz.cli.captures.source import open_source, tell_that_it_was_stopped
    from gradviz.cli.captures.views import source_options
    from gradviz.cli.reports.run_log import is_run_log_file
    from gradviz.errors import BadInput
    from gradviz.output import check_outputs, write_output
    from gradviz.rendering.words.common_words import counted

    source_choice = source_options(others)
    if is_run_log_file(source_choice):
        raise BadInput(f"{source_choice.name} is a run log of gradviz.watch()", hint="gradviz flow shows it")
    if source_choice.is_capture:
        raise BadInput(f"{source_choice.name} is a capture already", hint="render or tree show it")
    path = output or Path(source_choice.name).name.removesuffix(".py") + CAPTURE_SUFFIX
    if path != "-" and Path(path).suffix != CAPTURE_SUFFIX:
        raise BadInput(f"{path!r}: a capture's name ends in {CAPTURE_SUFFIX}", hint=f"use {path}{CAPTURE_SUFFIX}")
    check_outputs([path], inputs=source_choice.inputs)
    source = open_source(source_choice, own_output=path == "-", needs_graph=False)
    if not source.graphs and path != "-" and Path(path).exists():
        # An earlier run may have taken hours; this one failed before there was anything to keep.
        write_output("-", f"left {path} as it was: this run recorded no graph\n")
        return source.exit_code
    with recording_kept(source, source_choice):
        with working(f"writing {path}"):
            content = write_capture(source.capture)
        write_output(path, content)
    if path != "-":
        nodes = sum(len(graph.nodes) for graph in source.graphs)
        graphs = counted(len(source.graphs), "graph")
        report = f"wrote {path}: {graphs}, {nodes:,} nodes\n"
        if source.graphs:
            name = shlex.quote(path)
            report += f"next:  gradviz render {name}   or   gradviz tree {name}\n"
        write_output("-", report)
    tell_that_it_was_stopped(source, source_choice)
    return source.exit_code
