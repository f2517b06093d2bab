"""Options for the look of pictures. A format takes those that are fields of its renderer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from gradviz.cli.options.shared import editor_option

if TYPE_CHECKING:
    from gradviz.rendering.formats import Format, Renderer

_Command = TypeVar("_Command", bound=Callable[..., Any])

# The defaults are in the renderers; an option that is not given may be one that the format does not have.
_LOOK = {
    "direction": click.option("--direction", metavar="TB|LR", help="Top to bottom (default), or left to right."),
    "shape": click.option(
        "--shape",
        metavar="auto|tall|wide|page",
        help="Fold a long picture into columns: auto keeps its sides within about 1:2, tall folds nothing.",
    ),
    "theme": click.option(
        "--theme", metavar="auto|light|dark", help="Colours; auto, for SVG and HTML, follows the browser."
    ),
    "arrows": click.option(
        "--arrows", metavar="data|gradient", help="Direction of the arrows; positions do not change."
    ),
    "color_by": click.option(
        "--color-by",
        metavar="kind|gradient|memory|time|module|none",
        help="What colours show (default: the kind of operation); the legend explains them.",
    ),
    "editor": editor_option,
    "engine": click.option("--engine", metavar="graphlay|dot", help="Program that computes the positions."),
    "scale": click.option("--scale", type=float, metavar="X", help="Size of a PNG (default: 2)."),
}


def look_options(command: _Command) -> _Command:
    """All options for the look; each is named like the field of the renderers."""
    for option in reversed(_LOOK.values()):
        command = option(command)
    return command


def page_options(command: _Command) -> _Command:
    """The options of the HTML page."""
    for name in ("editor", "color_by", "arrows", "theme"):
        command = _LOOK[name](command)
    return command


def renderers_for(formats: Sequence[Format], options: dict[str, Any]) -> list[Renderer]:
    """A renderer for each format; raises `BadInput` for an option that is wrong or that no format has."""
    given = {name: options[name] for name in _LOOK if options.get(name) is not None}
    if "direction" in given:
        given["direction"] = given["direction"].upper()
    for name in given:
        _check_has_effect(name, formats)
    return [_renderer_for(each, given) for each in formats]


def check_colors_are_recorded(options: Mapping[str, Any]) -> None:
    """Raise `BadInput` if ``--color-by`` needs figures that are not recorded."""
    from gradviz.errors import BadInput

    if options["color_by"] in ("gradient", "time") and not options["gradients"]:
        raise BadInput(
            f"--color-by {options['color_by']} needs gradients; --no-gradients records none",
            hint="leave out one",
        )


def _check_has_effect(name: str, formats: Sequence[Format]) -> None:
    from gradviz.errors import BadInput
    from gradviz.rendering.formats import FORMATS

    if any(name in each.option_names() for each in formats):
        return
    if click.get_current_context().get_parameter_source(name) is not ParameterSource.COMMANDLINE:
        return  # An environment variable is for all commands; some have no use for it.
    asked = " and ".join(dict.fromkeys(each.name for each in formats))
    able = ", ".join(each.name for each in FORMATS if name in each.option_names())
    raise BadInput(f"--{name.replace('_', '-')} has no effect on {asked}", hint=f"it is for {able}")


def _renderer_for(chosen: Format, given: dict[str, Any]) -> Renderer:
    from gradviz.errors import UnknownChoice

    own = {name: given[name] for name in chosen.option_names() if name in given}
    if own.get("theme") == "auto" and chosen.name not in ("svg", "html"):
        del own["theme"]  # Only a browser can switch themes; other formats use their own default.
    try:
        return chosen.renderer(**own)
    except UnknownChoice as error:
        raise error.of_option(f"--{error.option.replace('_', '-')}") from None
