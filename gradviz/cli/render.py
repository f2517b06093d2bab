"""``gradviz render``: writes a script's graph as pictures and data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradviz.capture.job_file import rank_path
from gradviz.cli.options.look import check_colors_are_recorded, look_options, renderers_for
from gradviz.cli.options.shared import (
    NAMES_HELP,
    GroupedCommand,
    check_option,
    recording_options,
    table_below_help,
    viewing_options,
)
from gradviz.cli.terminal.progress import working
from gradviz.rendering.formats import FORMATS, Format, Renderer, RendersTogether, Subject, format_named

if TYPE_CHECKING:
    from gradviz.capture.capture import Rank
    from gradviz.errors import GradvizError


@dataclass(frozen=True)
class _Output:
    """One file to write, or ``-``."""

    path: str
    format: Format

    def numbered(self, number: int) -> str:
        """The path for one of several graphs: ``net-3.svg``."""
        path = Path(self.path)
        suffix = self.format.suffix_of(path.name) or path.suffix
        return str(path.with_name(f"{path.name.removesuffix(suffix)}-{number}{suffix}"))

    def of_rank(self, rank: Rank | None) -> _Output:
        """The file for one rank of a job: ``net.rank1.svg``."""
        if rank is None or rank.world_size == 1 or self.path == "-":
            return self
        return replace(self, path=str(rank_path(Path(self.path), rank.number, rank.kind)))


_FORMATS = table_below_help(
    "Formats:", (f"{each.name:<16}{' '.join(each.suffixes):<22}{each.summary}" for each in FORMATS)
)


@click.command("render", cls=GroupedCommand, epilog=f"{NAMES_HELP}\n\n{_FORMATS}")
@recording_options
@check_option
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="OUT",
    help="File to write; its suffix determines the format. - is standard output. May be given several times.",
)
@click.option("--format", "formats", multiple=True, metavar="FORMAT", help="A name from the table below.")
@viewing_options
@look_options
def render_command(outputs: tuple[str, ...], formats: tuple[str, ...], **others: Any) -> int:
    """Run SCRIPT, and draw the autograd graph of its first backward().

    By default the file is SCRIPT's name with .svg, in the working directory.
    """
    from gradviz.cli.captures.checked_source import open_for_drawing, sources_of_ranks
    from gradviz.cli.captures.kept_recording import keeping_recording
    from gradviz.cli.captures.source import report_early_stop
    from gradviz.cli.captures.views import drawable_subjects, source_options, view_options
    from gradviz.file_output import check_outputs

    source_choice, viewing = source_options(others), view_options(others)
    wanted = _outputs(outputs, formats, source_choice.name)
    renderers = renderers_for([output.format for output in wanted], others)
    check_colors_are_recorded(others)
    check_outputs([output.path for output in wanted], inputs=source_choice.inputs)
    to_standard_output = any(output.path == "-" for output in wanted)
    if to_standard_output and source_choice.backward == "all" and not source_choice.is_capture:
        raise _several_to_standard_output()

    source_choice = replace(source_choice, outputs=tuple(output.path for output in wanted))
    source = open_for_drawing(source_choice, own_output=to_standard_output)
    several_ranks = source.job is not None and len(source.job.ranks) > 1 and source_choice.rank is None
    if to_standard_output and (len(source.graphs) > 1 or several_ranks):
        raise _several_to_standard_output()
    with keeping_recording(source, source_choice):
        subjects: list[Subject] = []
        written: list[str] = []
        refusals: list[GradvizError] = []
        for each in sources_of_ranks(source, source_choice):
            drawn = drawable_subjects(each, viewing)
            is_job = source.job is not None and source_choice.rank is None
            files = [output.of_rank(each.capture.rank) for output in wanted] if is_job else wanted
            paths, errors = _write_all(drawn, list(zip(files, renderers, strict=True)))
            subjects, written, refusals = subjects or drawn, written + paths, refusals + errors
        if written:
            from gradviz.cli.reports.summary import print_summary

            print_summary(source_choice, subjects, written)
        elif not refusals:
            report_early_stop(source, source_choice)
        _raise_first(refusals)
    return source.exit_code


def _write_all(
    subjects: Sequence[Subject], wanted: Sequence[tuple[_Output, Renderer]]
) -> tuple[list[str], list[GradvizError]]:
    """The paths that were written, and the errors of the others: one failure does not stop the rest."""
    from gradviz.errors import GradvizError
    from gradviz.file_output import write_output

    written: list[str] = []
    refusals: list[GradvizError] = []
    for path, render in _files(subjects, wanted):
        try:
            with working(f"drawing {path}"):
                content = render()
            write_output(path, content)
        except GradvizError as error:
            refusals.append(error)
            continue
        if path != "-":
            written.append(path)
    return written, refusals


def _files(
    subjects: Sequence[Subject], wanted: Sequence[tuple[_Output, Renderer]]
) -> Iterator[tuple[str, Callable[[], str | bytes]]]:
    """Each path, with the function that makes its content: one file for each graph, or one for all if possible."""
    if len(subjects) == 1:
        yield from ((output.path, partial(renderer.render, subjects[0])) for output, renderer in wanted)
        return
    for output, renderer in wanted:
        if isinstance(renderer, RendersTogether):
            yield output.path, partial(renderer.render_together, subjects)
            continue
        for number, subject in enumerate(subjects, 1):
            call = subject.graph.backward.number if subject.graph.backward else number
            yield output.numbered(call), partial(renderer.render, subject)


def _raise_first(refusals: Sequence[GradvizError]) -> None:
    if not refusals:
        return
    first, *others = refusals
    if others:
        first.add_hint(f"{len(others)} more could not be written")
    raise first


def _several_to_standard_output() -> GradvizError:
    from gradviz.errors import BadInput

    return BadInput("standard output takes only one graph", hint="pick one with --backward N, or use -o FILE")


def _outputs(paths: tuple[str, ...], formats: tuple[str, ...], name: str) -> list[_Output]:
    from gradviz.errors import BadInput
    from gradviz.file_output import output_format

    if paths and formats and len(formats) not in (1, len(paths)):
        raise BadInput(f"{len(paths)} outputs but {len(formats)} formats", hint="give one format for each, or none")
    if paths:
        explicit = formats if len(formats) == len(paths) else formats * len(paths)
        return [
            _Output(path, output_format(path, explicit[index] if explicit else None))
            for index, path in enumerate(paths)
        ]
    stem = Path(name).name.removesuffix(".py").removesuffix(".gradviz") or "graph"
    chosen = [format_named(each) for each in formats or ("svg",)]
    return [_Output(stem + each.suffixes[0], each) for each in chosen]
