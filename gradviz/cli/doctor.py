"""``gradviz doctor``: says what works on this machine and with this torch; what a bug report should contain."""

from __future__ import annotations

from typing import Any

import click

from gradviz.cli.options.shared import GroupedCommand, terminal_options

MIN_WIDTH = 60


@click.command("doctor", cls=GroupedCommand)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@terminal_options(min_width=MIN_WIDTH)
def doctor_command(as_json: bool, no_pager: bool, **options: Any) -> int:
    """Say what works here: versions, what gradviz takes from torch and whether it works, and what else it uses.

    A bug report should contain this. The exit code is 1 if something essential is missing: a package that gradviz
    needs, or a torch that can be recorded. Where torch is not installed at all, it is 0, as saved recordings can be
    shown.
    """
    from gradviz.cli.reports.examination import examined
    from gradviz.cli.terminal.paging import show
    from gradviz.cli.terminal.progress import working
    from gradviz.cli.terminal.terminal import standard_output
    from gradviz.rendering.reports.doctor_document import doctor_json
    from gradviz.rendering.reports.doctor_text import doctor_text

    terminal = standard_output(options["color"])
    with working("trying this torch"):
        document = examined()
    if as_json:
        text = doctor_json(document)
    else:
        width = options["width"] or (terminal.text_width(None, MIN_WIDTH) if terminal.is_interactive else 80)
        text = doctor_text(document, width, color=terminal.has_colors, only_ascii=not terminal.has_unicode)
    show(text, terminal, use_pager=not (no_pager or as_json))
    return 1 if document.problems else 0
