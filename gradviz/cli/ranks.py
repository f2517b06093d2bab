"""``gradviz ranks``: the ranks of one job compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from gradviz.cli.options.shared import HAS_DASHES, GroupedCommand, program_options, terminal_options

MIN_WIDTH = 60


@click.command("ranks", cls=GroupedCommand)
@program_options
@click.option("-o", "--output", metavar="OUT", help="Write a page to OUT.html, or everything to OUT.json.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@terminal_options(min_width=MIN_WIDTH)
def ranks_command(
    words: tuple[str, ...], module: str | None, output: str | None, as_json: bool, no_pager: bool, **options: Any
) -> int:
    """Compare the ranks of a job: steps, graphs, parameters, gradients, and whether replicas have drifted apart.

    RECORDING is what 'gradviz record --backward all --keep-going -- COMMAND' wrote. The exit code is 1 if something is
    likely to be wrong.
    """
    from gradviz.analysis.ranks.rank_comparison import compared_ranks
    from gradviz.cli.captures.compared_ranks import recorded_ranks
    from gradviz.cli.captures.kept_recording import keeping_recording
    from gradviz.cli.captures.source import SourceOptions, open_source
    from gradviz.cli.terminal.paging import show
    from gradviz.cli.terminal.printing import print_document, tell
    from gradviz.cli.terminal.progress import working
    from gradviz.cli.terminal.terminal import standard_output
    from gradviz.file_output import check_outputs, write_output
    from gradviz.rendering.job_page.page import ranks_page
    from gradviz.rendering.reports.ranks_json import ranks_json
    from gradviz.rendering.reports.ranks_text import ranks_text, told_in_short

    terminal = standard_output(options["color"])
    choice = SourceOptions(
        words,
        module,
        rank=options["rank"],
        ranks=options["ranks"],
        hang=options["hang"],
        may_be_command=bool(click.get_current_context().meta.get(HAS_DASHES, True)),
    )
    if output is not None:
        _check_suffix(output)
        check_outputs([output], inputs=choice.inputs)
        choice = replace(choice, outputs=(output,))
    if not choice.is_capture:
        choice = replace(choice, backward="all", keep_going=True, values_up_to=1)  # the loss
    source = open_source(choice, own_output=True, needs_graph=False)
    with keeping_recording(source, choice):
        ranks = recorded_ranks(source, choice)
        with working("comparing the ranks"):
            comparison = compared_ranks(ranks.summaries, ranks.world_size, ranks.load, ranks.disclosures, ranks.ends)
        if output is not None:
            write_output(output, ranks_json(comparison) if _is_json(output) else ranks_page(comparison))
            tell(f"wrote {output}: {told_in_short(comparison)}")
        if as_json:
            print_document(ranks_json(comparison))
        elif output is None:
            text = ranks_text(comparison, terminal.text_width(options["width"], MIN_WIDTH), color=terminal.has_colors)
            show(text, terminal, use_pager=not no_pager)
    return source.exit_code or int(comparison.has_alarm)


def _is_json(path: str) -> bool:
    return path.lower().endswith(".json")


def _check_suffix(path: str) -> None:
    from gradviz.errors import BadInput

    if not path.lower().endswith((".html", ".htm", ".json")):
        raise BadInput(f"{path!r} does not end in .html or .json", hint="a page is an .html, all figures are a .json")
