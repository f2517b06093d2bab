"""Turns the options of a command into the source and the subjects to draw."""

from __future__ import annotations

from typing import Any

import click

from gradviz.capture.capture_file import CAPTURE_SUFFIX
from gradviz.cli.captures.source import Source, SourceOptions
from gradviz.cli.options.shared import HAS_DASHES
from gradviz.cli.terminal.printing import tell
from gradviz.cli.terminal.progress import working
from gradviz.errors import BadInput, GradvizError, NothingFound, NotInThisGraph
from gradviz.graph.model import Graph
from gradviz.rendering.formats import Subject
from gradviz.rendering.subjects import subject_of
from gradviz.view import keywords
from gradviz.view.build import ViewOptions


def source_options(options: dict[str, Any]) -> SourceOptions:
    """The options of a command that say what to run."""
    has_dashes = bool(click.get_current_context().meta.get(HAS_DASHES, True))
    if not has_dashes:
        _check_words(options["words"], options["module"])
    names = (
        "words",
        "module",
        "backward",
        "keep_going",
        "root",
        "gradients",
        "values",
        "values_up_to",
        "inside",
        "rank",
        "ranks",
        "hang",
    )
    more = {name: options[name] for name in ("root_shares", "check", "fingerprints") if name in options}
    return SourceOptions(**{name: options[name] for name in names}, may_be_command=has_dashes, **more)


def _check_words(words: tuple[str, ...], module: str | None) -> None:
    """Raise `BadInput` for a second script, which would only be an argument of the first one."""
    if module is not None:
        return
    for word in words[1:]:
        if word.endswith((".py", CAPTURE_SUFFIX)):
            raise BadInput(
                f"one script or recording at a time: {word!r} comes after {words[0]!r}",
                hint=f"to pass it to the script as an argument, write it after --: {words[0]} -- {word}",
            )


def view_options(options: dict[str, Any]) -> ViewOptions:
    """The options of a command that say what to show."""
    return keywords.view_options({name: options[name] for name in keywords.KEYWORDS if name in options})


def subjects_of(source: Source, options: ViewOptions) -> list[Subject | GradvizError]:
    """For each graph, what to show of it, or why nothing is shown: a graph may lack a name that another has.

    Raises `NotInThisGraph` or `NothingFound` if nothing can be shown of any graph.
    """
    shown: list[Subject | GradvizError] = []
    with working("folding the graph"):
        for graph in source.graphs:
            try:
                shown.append(subject_of(source.capture, graph, options, source.notes))
            except (NotInThisGraph, NothingFound) as refusal:
                shown.append(refusal)
    refusals = [each for each in shown if isinstance(each, GradvizError)]
    if len(refusals) == len(shown):
        raise refusals[0]
    return shown


def title_of(graph: Graph) -> str:
    """The title of one of several graphs; the number is that of ``--backward``."""
    return "graph" if graph.backward is None else f"backward {graph.backward.number}"


def drawable_subjects(source: Source, viewing: ViewOptions) -> list[Subject]:
    """A subject for each graph; for a graph without the wanted name, a line on standard error."""
    drawn = []
    for graph, subject in zip(source.graphs, subjects_of(source, viewing), strict=True):
        if isinstance(subject, GradvizError):
            tell(f"{title_of(graph)} is not drawn: {subject.message}")
        else:
            drawn.append(subject)
    return drawn
