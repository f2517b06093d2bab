"""``gradviz record``: writes a recording to a file, to be shown later or elsewhere."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from gradviz.cli.options.shared import GroupedCommand, root_shares_option, script_options
from gradviz.cli.terminal.progress import working


@click.command("record", cls=GroupedCommand)
@script_options
@root_shares_option
@click.option(
    "--fingerprints",
    is_flag=True,
    help="Keep a fingerprint of every tensor and every torch call, so that gradviz diff can compare values.",
)
@click.option("-o", "--output", metavar="OUT", help="File to write (default: SCRIPT's name with .gradviz).")
def record_command(output: str | None, **others: Any) -> int:
    """Run SCRIPT, and write the recording to a file, which other commands take in place of a script."""
    from gradviz.capture.capture_file import CAPTURE_SUFFIX, write_capture
    from gradviz.cli.captures.kept_recording import keeping_recording
    from gradviz.cli.captures.source import open_source, report_early_stop
    from gradviz.cli.captures.views import source_options
    from gradviz.cli.captures.written_job import written_job
    from gradviz.cli.reports.run_log import is_run_log_file
    from gradviz.cli.terminal.printing import print_text
    from gradviz.errors import BadInput
    from gradviz.file_output import check_outputs, write_output
    from gradviz.rendering.words.common_words import counted

    source_choice = source_options(others)
    if is_run_log_file(source_choice):
        raise BadInput(f"{source_choice.name} is a run log of gradviz.watch()", hint="gradviz flow shows it")
    if source_choice.is_capture:
        raise BadInput(f"{source_choice.name} is a recording already", hint="gradviz render or gradviz tree shows it")
    path = output or Path(source_choice.name).name.removesuffix(".py") + CAPTURE_SUFFIX
    if path != "-" and Path(path).suffix != CAPTURE_SUFFIX:
        raise BadInput(f"{path!r}: a recording's name ends in {CAPTURE_SUFFIX}", hint=f"use {path}{CAPTURE_SUFFIX}")
    check_outputs([path], inputs=source_choice.inputs)
    source_choice = replace(source_choice, outputs=(path,))
    source = open_source(source_choice, own_output=path == "-", needs_graph=False)
    if source.job is not None:
        print_text(written_job(source, source_choice, path))
        return source.exit_code
    path = path.replace("%r", "")
    if not source.graphs and path != "-" and Path(path).exists():
        # This run failed before it recorded a graph; the older file may have taken hours to make.
        print_text(f"{path} is unchanged: this run recorded no graph\n")
        return source.exit_code
    with keeping_recording(source, source_choice):
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
        print_text(report)
    report_early_stop(source, source_choice)
    return source.exit_code
