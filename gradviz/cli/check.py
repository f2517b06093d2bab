"""``gradviz check``: why a gradient is missing, zero, NaN or wrong, and on which line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradviz.cli.options.shared import (
    HAS_DASHES,
    GroupedCommand,
    inside_option,
    program_options,
    table_below_help,
    terminal_options,
)
from gradviz.rendering.reports.findings.formats import FINDING_FORMATS

if TYPE_CHECKING:
    from gradviz.analysis.case import Case
    from gradviz.analysis.check.baseline import Baseline
    from gradviz.analysis.check.report import Report
    from gradviz.cli.options.settings import CheckSettings
    from gradviz.cli.terminal.terminal import Terminal

MIN_WIDTH = 40
NOTHING_CHECKED = 2
"""The exit code where no backward ran: not the 0 of a healthy program."""

_FORMAT_ROWS = [f"{each.name:<10}{each.summary}" for each in FINDING_FORMATS]


@click.command("check", cls=GroupedCommand, epilog=table_below_help("Other formats:", _FORMAT_ROWS))
@program_options
@click.option("--select", multiple=True, metavar="RULE", help="Use only these rules: GV101, GV1 (a family), or a name.")
@click.option("--ignore", multiple=True, metavar="RULE", help="Leave out these rules.")
@click.option("--format", metavar="FORMAT", help="Output format (default: terminal).")
@click.option(
    "--fail-on", metavar="error|warning|note|never", help="Exit code 1 from this severity on (default: warning)."
)
@click.option("--baseline", metavar="FILE", help="Leave out the findings that are in this file.")
@click.option("--write-baseline", metavar="FILE", help="Write the findings of this run to a file for --baseline.")
@click.option(
    "-o", "--output", "outputs", multiple=True, metavar="OUT", help="Draw the graph with its findings: net.svg."
)
@click.option(
    "--seconds", type=float, metavar="S", help="Stop SCRIPT S seconds after its first backward (default: 60)."
)
@click.option(
    "--steps",
    type=int,
    metavar="N",
    help="Stop SCRIPT after N optimizer steps, or N backward calls.",
)
@inside_option
@click.option("--why", metavar="NAME", help="Print only which gradient this parameter or variable gets, and why.")
@click.option("--all-params-get-grad", is_flag=True, default=None, help="A parameter without a gradient is an error.")
@click.option("--allow-empty", is_flag=True, help="Exit code 0, not 2, if the script calls no backward().")
@click.option("--max-saved", metavar="SIZE", help="A graph that keeps more memory than this is an error: 2GiB.")
@terminal_options(min_width=MIN_WIDTH)
def check_command(
    words: tuple[str, ...],
    module: str | None,
    no_pager: bool,
    write_baseline: str | None,
    outputs: tuple[str, ...],
    **options: Any,
) -> int:
    """Run SCRIPT, at most 60 s after its first backward, and say why gradients are missing, zero, NaN or wrong."""
    from gradviz.analysis.case import Case
    from gradviz.analysis.check.baseline import baseline_of
    from gradviz.analysis.check.report import check_report
    from gradviz.cli.captures.checked_job import capture_of_rank, other_ranks, report_of_job
    from gradviz.cli.captures.checked_source import options_for_check, rules_of
    from gradviz.cli.captures.finding_pictures import FindingPictures
    from gradviz.cli.captures.kept_recording import keeping_recording
    from gradviz.cli.captures.source import SourceOptions, open_source
    from gradviz.cli.options.settings import CheckSettings, check_settings
    from gradviz.cli.terminal.paging import show
    from gradviz.cli.terminal.printing import print_document
    from gradviz.cli.terminal.terminal import standard_output
    from gradviz.file_output import check_outputs, write_output

    terminal = standard_output(options["color"])
    settings = check_settings(options, Path.cwd())
    chosen = SourceOptions(
        words, module, outputs=outputs, rank=options["rank"], ranks=options["ranks"],
        hang=options["hang"] or max(settings.seconds, CheckSettings.seconds), may_be_command=_has_dashes(),
        inside=options["inside"],
    )  # fmt: skip
    source_choice = replace(options_for_check(chosen, settings), for_pictures=bool(outputs))
    is_capture = source_choice.is_capture
    if is_capture:
        _check_no_limits(source_choice.name, options)
    rules = rules_of(settings)
    if options["why"] is not None:
        settings = replace(settings, format=_format_of_why(options["why"], options["format"], settings))
    baseline = None if is_capture else _baseline(settings.baseline, source_choice.name)
    pictures = FindingPictures.of(outputs)
    if write_baseline is not None:
        check_outputs([write_baseline], inputs=source_choice.inputs)
    check_outputs(outputs, inputs=source_choice.inputs)
    source = open_source(source_choice, own_output=True, needs_graph=False, tells_how_ranks_ended=True)
    if is_capture:  # Only the capture knows the name of its program.
        baseline = _baseline(settings.baseline, source.capture.program.name)
    with keeping_recording(source, source_choice):
        case = Case(source.capture)
        own_report = report = check_report(case, rules.rules, baseline, rules.unusable)
        others = other_ranks(source, source_choice)
        if others is not None:
            load = capture_of_rank(source, source_choice)
            report = report_of_job(own_report, source, others, load, rules, baseline)
        if write_baseline is not None:
            write_output(write_baseline, baseline_of(report.program, report.findings, report.source))
        text = _output(case, report, options, settings.format, terminal)
        if settings.format == "terminal":
            show(text, terminal, use_pager=not no_pager)
        else:
            print_document(text)
        # Last, so that the findings are printed even if a picture cannot be drawn.
        pictures.write(source.capture, own_report.findings)
    if report.is_empty and not options["allow_empty"] and options["why"] is None:
        return source.exit_code or NOTHING_CHECKED
    # Of a job, another process than the one that ends with this exit code may have failed.
    has_failed = source.job is not None and report.raised is not None and settings.threshold is not None
    return source.exit_code or int(has_failed or _is_failure(report, settings))


def _has_dashes() -> bool:
    return bool(click.get_current_context().meta.get(HAS_DASHES, True))


def _output(case: Case, report: Report, options: dict[str, Any], format_name: str, terminal: Terminal) -> str:
    from gradviz.rendering.reports.findings.formats import finding_format
    from gradviz.rendering.reports.findings.text import FindingsText

    if options["why"] is not None:
        return _why(case, report, options, format_name, terminal)
    if format_name != "terminal":
        return finding_format(format_name).renderer(report)
    return FindingsText(terminal.text_width(options["width"], MIN_WIDTH), terminal.has_colors).text(report)


def _why(case: Case, report: Report, options: dict[str, Any], format_name: str, terminal: Terminal) -> str:
    from gradviz.analysis.check.why import why
    from gradviz.rendering.reports.why_json import why_json
    from gradviz.rendering.reports.why_text import why_text

    answer = why(case, report.findings, options["why"])
    if format_name == "json":
        return why_json(answer, report.program, case.capture.sources)
    width = terminal.text_width(options["width"], MIN_WIDTH)
    return why_text(answer, case.capture.sources, width, color=terminal.has_colors)


def _format_of_why(name: str, asked: str | None, settings: CheckSettings) -> str:
    """Text or JSON; another format in the configuration file is ignored."""
    from gradviz.errors import BadInput

    if not name.strip():
        raise BadInput("--why needs the name of a parameter or variable", hint="such as fc.weight")
    if asked not in (None, "terminal", "json"):
        raise BadInput(f"--why prints text or json, not {asked}", hint="leave out --format")
    return "json" if settings.format == "json" else "terminal"


def _check_no_limits(name: str, options: dict[str, Any]) -> None:
    from gradviz.errors import BadInput

    for option in ("seconds", "steps"):
        if options[option] is not None:
            raise BadInput(f"--{option} needs a script to run; {name} is a recording")


def _baseline(path: str | None, program: str) -> Baseline | None:
    if path is None:
        return None
    from gradviz.analysis.check.baseline import read_baseline
    from gradviz.errors import BadInput

    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise BadInput(
            f"cannot read the baseline {path}: {error.strerror}", hint="write one with --write-baseline"
        ) from error
    return read_baseline(content, path, program)


def _is_failure(report: Report, settings: CheckSettings) -> bool:
    from gradviz.analysis.finding import is_at_least

    threshold = settings.threshold
    return threshold is not None and any(is_at_least(finding.severity, threshold) for finding in report.findings)
