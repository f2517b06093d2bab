"""``gradviz compiled``: prints what torch.compile made of a script, where it broke, and what it compiled again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from gradviz.cli.options.shared import GroupedCommand, WholeNumber, program_options, terminal_options

MIN_WIDTH = 40


@click.command("compiled", cls=GroupedCommand)
@program_options
@click.option(
    "--seconds", type=float, metavar="S", help="Stop SCRIPT S seconds after its first backward (default: 60)."
)
@click.option("--steps", type=WholeNumber(min=1), metavar="N", help="Stop SCRIPT after N optimizer steps.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@terminal_options(min_width=MIN_WIDTH)
def compiled_command(seconds: float | None, steps: int | None, as_json: bool, no_pager: bool, **others: Any) -> int:
    """Run SCRIPT, and print its graph breaks and recompilations under torch.compile, with line and reason."""
    from gradviz.analysis.compiled.compiled_functions import compiled_document, compiled_json
    from gradviz.cli.captures.kept_recording import keeping_recording
    from gradviz.cli.captures.source import SourceOptions, open_source
    from gradviz.cli.terminal.paging import show
    from gradviz.cli.terminal.terminal import standard_output
    from gradviz.errors import BadInput
    from gradviz.recording.run.recording_plan import RunLimits
    from gradviz.rendering.reports.compiled_text import CompiledText

    if seconds is not None and not 0 < seconds < float("inf"):
        raise BadInput(f"--seconds {seconds:g} is not a duration", hint="give a number above 0")
    choice = SourceOptions(others["words"], others["module"], rank=others["rank"], ranks=others["ranks"])
    if choice.is_capture:
        for name, given in (("--seconds", seconds), ("--steps", steps)):
            if given is not None:
                raise BadInput(f"{name} needs a script to run; {choice.name} is a recording")
    else:
        choice = replace(
            choice, gradients=False, backward="last", keep_going=True, limits=RunLimits(seconds or 60.0, steps)
        )
    terminal = standard_output(others["color"])
    source = open_source(choice, own_output=True, needs_graph=False)
    with keeping_recording(source, choice):
        if as_json:
            text = compiled_json(source.capture)
        else:
            width = terminal.text_width(others["width"], MIN_WIDTH)
            text = CompiledText(width, terminal.has_colors).text(compiled_document(source.capture))
        show(text, terminal, use_pager=not (no_pager or as_json))
    return source.exit_code
