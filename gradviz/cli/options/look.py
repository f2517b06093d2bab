"""Options for the look of pictures: every format takes those of them that its renderer has as fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from gradviz.cli.options.shared import editor_option

if TYPE_CHECKING:
    from gradviz.rendering.formats import Format, Renderer

_Command = TypeVar("_Command", bound=Callable[..., Any])

# Without defaults: those are the renderers' own, and a format can say that it has no such option.
_LOOK = {
    "direction": click.option("--direction", metavar="TB|LR", help="Top to bottom (default), or left to right."),
    "theme": click.option(
        "--theme", metavar="auto|light|dark", help="Colours; auto, for SVG and HTML, follows the reader's browser."
    ),
    "arrows": click.option(
        "--arrows", metavar="data|gradient", help="Which way arrows point; positions stay as they are."
    ),
    "color_by": click.option(
        "--color-by", metavar="role|gradient|memory|time|module", help="What colours mean; a legend has the scale."
    ),
    "editor": editor_option,
    "engine": click.option("--engine", metavar="graphlay|dot", help="What computes the positions."),
    "scale": click.option("--scale", type=float, metavar="X", help="Size of a PNG; 2 is the default."),
}


def look_options(command: _Command) -> _Command:
    """Every option for the look; each is called as the renderers' field."""
    for option in reversed(_LOOK.values()):
        command = option(command)
    return command


def page_options(command: _Command) -> _Command:
    """Those that the page has."""
    for name in ("editor", "color_by", "arrows", "theme"):
        command = _LOOK[name](command)
    return command


def renderers_for(formats: Sequence[Format], options: dict[str, Any]) -> list[Renderer]:
    """A renderer for each format; raises `BadInput` for an option that is wrong or that none of the formats has."""
    given = {name: options[name] for name in _LOOK if options.get(name) is not None}
    if "direction" in given:
        given["direction"] = given["direction"].upper()
    for name in given:
        _check_that_it_is_used(name, formats)
    return [_renderer_for(each, given) for each in formats]


def check_that_it_will_be_measured(options: Mapping[str, Any]) -> None:
    """Raise `BadInput` where colours are to mean what the recording is told to leave out."""
    from gradviz.errors import BadInput

    if options["color_by"] in ("gradient", "time") and not options["gradients"]:
        raise BadInput(f"--color-by {options['color_by']} needs what --no-gradients leaves out", hint="leave out one")


def _check_that_it_is_used(name: str, formats: Sequence[Format]) -> None:
    from gradviz.errors import BadInput
    from gradviz.rendering.formats import FORMATS

    if any(name in each.option_names() for each in formats):
        return
    if click.get_current_context().get_parameter_source(name) is not ParameterSource.COMMANDLINE:
        return  # A variable of the environment holds for all commands, also for those that have no use for it.
    asked = " and ".join(dict.fromkeys(each.name for each in formats))
    able = ", ".join(each.name for each in FORMATS if name in each.option_names())
    raise BadInput(f"--{name.replace('_', '-')} says nothing about {asked}", hint=f"it is for {able}")


def _renderer_for(chosen: Format, given: dict[str, Any]) -> Renderer:
    own = {name: given[name] for name in chosen.option_names() if name in given}
    if own.get("theme") == "auto" and chosen.name not in ("svg", "html"):
        del own["theme"]  # What is no page of a browser has a theme of its own.
    return chosen.renderer(**own)
