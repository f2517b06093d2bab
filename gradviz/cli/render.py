"""``gradviz render``: pictures and data of a script's graph."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradviz.cli.options import folding_options, recording_options

if TYPE_CHECKING:
    from gradviz.rendering.renderer import Format, Renderer


@dataclass(frozen=True)
class _Output:
    """One file to write, or ``-``."""

    path: str
    format: Format

    def numbered(self, number: int) -> str:
        """The path for one of several graphs: ``net-3.svg``."""
        path = Path(self.path)
        return str(path.with_name(f"{path.stem}-{number}{path.suffix}"))


@click.command("render")
@recording_options
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="OUT",
    help="File to write; its suffix says the format; - is standard output; may be given several times.",
)
@click.option("--format", "formats", multiple=True, metavar="FORMAT", help="svg, png, dot, json or tree.")
@folding_options
@click.option("--direction", default="TB", metavar="TB|LR", help="Top to bottom, or left to right.")
@click.option("--theme", default="auto", metavar="auto|light|dark", help="Colours; auto follows the reader's browser.")
@click.option("--engine", default="graphlay", metavar="graphlay|dot", help="What computes the positions.")
@click.option("--scale", type=click.FloatRange(min=0.05, max=16), metavar="X", default=2.0, help="Size of a PNG.")
def render_command(
    outputs: tuple[str, ...],
    formats: tuple[str, ...],
    direction: str,
    theme: str,
    engine: str,
    scale: float,
    **others: Any,
) -> int:
    """Run SCRIPT, and draw the autograd graph that its first backward() walks.

    Without -o the picture goes to SCRIPT's name with .svg, in the working directory.
    """
    from gradviz.cli.output import check_outputs, write_output
    from gradviz.cli.rescue import recording_kept
    from gradviz.cli.source import open_source, tell_that_it_was_stopped
    from gradviz.cli.views import fold_options, source_options, subject_of
    from gradviz.rendering.graphviz_engine import check_that_dot_is_there

    source_choice, folding = source_options(others), fold_options(others)
    wanted = _outputs(outputs, formats, source_choice.name)
    look: dict[str, object] = {"direction": direction.upper(), "theme": theme, "engine": engine, "scale": scale}
    renderers = [_renderer_for(output.format, look) for output in wanted]
    if engine == "dot":
        check_that_dot_is_there()
    check_outputs([output.path for output in wanted], inputs=source_choice.inputs)
    to_standard_output = any(output.path == "-" for output in wanted)

    if to_standard_output and source_choice.backward == "all" and not source_choice.is_capture:
        raise _several_to_standard_output()

    source = open_source(source_choice, own_output=to_standard_output)
    if to_standard_output and len(source.graphs) > 1:
        raise _several_to_standard_output()
    several = len(source.graphs) > 1
    written = []
    with recording_kept(source, source_choice):
        subjects = [subject_of(source.capture, graph, folding) for graph in source.graphs]
        for number, subject in enumerate(subjects, 1):
            call = subject.graph.backward.number if subject.graph.backward else number
            for output, renderer in zip(wanted, renderers, strict=True):
                path = output.numbered(call) if several and output.path != "-" else output.path
                write_output(path, renderer.render(subject))
                if path != "-":
                    written.append(path)
    if written:
        from gradviz.cli.summary import print_summary

        print_summary(source_choice, subjects, written)
    else:
        tell_that_it_was_stopped(source, source_choice)
    return source.exit_code


def _several_to_standard_output() -> Exception:
    from gradviz.errors import BadInput

    return BadInput(
        "several graphs do not go to one standard output", hint="pick one with --backward N, or use -o FILE"
    )


def _outputs(paths: tuple[str, ...], formats: tuple[str, ...], name: str) -> list[_Output]:
    from gradviz.cli.output import output_format
    from gradviz.errors import BadInput
    from gradviz.rendering.renderer import format_named

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


def _renderer_for(chosen: Format, look: dict[str, object]) -> Renderer:
    """The renderer with those of the options that its format has."""
    own = {name: look[name] for name in chosen.option_names() if name in look}
    if own.get("theme") == "auto" and chosen.name != "svg":
        own["theme"] = "light"  # Only SVG can follow the reader's browser.
    return chosen.renderer(**own)
