"""``gradviz replay``: the backward pass step by step, as introductions to autograd draw it by hand."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from gradviz.cli.options.shared import recording_options, terminal_options, viewing_options_without_all
from gradviz.cli.terminal.progress import working

if TYPE_CHECKING:
    from gradviz.cli.captures.source import Source, SourceOptions
    from gradviz.cli.player.stage import Stage
    from gradviz.cli.terminal.terminal import Terminal
    from gradviz.rendering.replay.picture_files import ReplayOutput
    from gradviz.rendering.replay.frame_strip import StripLook
    from gradviz.rendering.replay.step_text import TextLook
    from gradviz.rendering.replay.step_words import ReplayWords

NARROWEST = 40
"""Columns that a page needs."""

_KEYS = "\n".join(
    [
        "\b",
        "Keys, where somebody looks at a terminal:",
        "  right n space     the next step",
        "  left p            the one before",
        "  home end          before the first step; the last",
        "  g NUMBER          that step",
        "  / REGEX           the next step of what matches",
        "  o c               open the box that runs; close it again",
        "  q                 leave",
    ]
)


@click.command("replay", epilog=_KEYS)
@recording_options
@click.option("--all", "all_pages", is_flag=True, help="Print every step as a page; unasked where no terminal is.")
@click.option(
    "--from", "first", type=click.IntRange(min=0), metavar="N", help="Begin with this step; 0 is the forward graph."
)
@click.option("--to", "last", type=click.IntRange(min=0), metavar="N", help="End with this step.")
@click.option(
    "-o", "--output", metavar="OUT", help="Draw it: OUT.svg or OUT.png shows all steps; OUT/ gets a file for each."
)
@click.option("--direction", metavar="TB|LR", default="TB", help="Of the pictures: down (default), or to the right.")
@click.option("--theme", metavar="auto|light|dark", default="auto", help="Of the pictures; auto follows the browser.")
@click.option("--every-node", is_flag=True, help="A step for every autograd node: nothing folded, nothing merged.")
@viewing_options_without_all
@click.option("--ascii", is_flag=True, help="No lines and signs beyond ASCII.")
@terminal_options(least_width=NARROWEST)
def replay_command(no_pager: bool, every_node: bool, **others: Any) -> int:
    """Run SCRIPT, and play the backward pass of its first backward() step by step.

    Each step shows what the engine runs, the gradient that enters, how it is summed where branches meet, the formula,
    and the gradients that leave. Folded boxes run as one step. SCRIPT is recorded with the numbers of small tensors.
    """
    from gradviz.cli.captures.rescue import recording_kept
    from gradviz.cli.captures.source import open_source, tell_that_it_was_stopped
    from gradviz.cli.captures.views import source_options, view_options
    from gradviz.cli.player.stage import Stage
    from gradviz.cli.terminal.terminal import standard_output

    source_choice = _with_values(source_options(others))
    viewing = view_options(others | ({"show_all": True, "plumbing": True} if every_node else {}))
    _check(source_choice, others)
    pictures = _pictures(source_choice, others)
    terminal = standard_output(others["color"])
    look = _page_look(terminal, others)
    source = open_source(source_choice, own_output=True)
    with recording_kept(source, source_choice):
        stage = Stage(
            source.capture,
            source.graphs[0],
            _notes(source, source_choice),
            look,
            has_own_width=others["width"] is not None,
            how_recorded=_how_recorded(source_choice),
        )
        words = stage.words(viewing)
        steps = words.replay.steps_between(others["first"] or 0, others["last"])
        if pictures is not None:
            _draw(stage, words, steps, pictures)
        elif _is_played(terminal, others["all_pages"]):
            from gradviz.cli.player.player import Player

            Player(stage, viewing, words, steps).play()
        else:
            _print(stage.all_pages(words, steps, is_asked_for=_is_chosen(others)), terminal, use_pager=not no_pager)
    tell_that_it_was_stopped(source, source_choice)
    return source.exit_code


def _with_values(source: SourceOptions) -> SourceOptions:
    """A script is recorded with its numbers: without them there is little to play."""
    return source if source.is_capture else replace(source, values=True)


def _check(source: SourceOptions, options: dict[str, Any]) -> None:
    """Whatever can be told to be wrong before the script runs."""
    from gradviz.errors import BadInput

    first, last = options["first"], options["last"]
    if source.backward == "all":
        raise BadInput("replay plays one backward call at a time", hint="pick one with --backward N")
    if first is not None and last is not None and first > last:
        raise BadInput(f"--from {first} comes after --to {last}", hint="steps are counted as the engine runs them")
    if options["all_pages"] and options["output"] is not None:
        raise BadInput("--all prints pages, and -o draws pictures", hint="leave one of them out")


def _pictures(source: SourceOptions, options: dict[str, Any]) -> tuple[ReplayOutput, StripLook] | None:
    """Where pictures are to go, and how they look; None for pages of text."""
    if options["output"] is None:
        return None
    from gradviz.output import check_outputs
    from gradviz.rendering.replay.picture_files import ReplayOutput
    from gradviz.rendering.replay.frame_strip import StripLook

    output = ReplayOutput.of(options["output"])
    look = StripLook(options["direction"].upper(), options["theme"], embed_font=not output.is_png)
    check_outputs([output.first_file], inputs=source.inputs)
    return output, look


def _draw(stage: Stage, words: ReplayWords, steps: range, pictures: tuple[ReplayOutput, StripLook]) -> None:
    from gradviz.output import write_output
    from gradviz.rendering.replay.picture_files import picture_files

    written = []
    with working("drawing the steps"):
        for path, content in picture_files(*pictures, words, steps, stage.notes_on(words)):
            write_output(path, content)
            written.append(path)
    told = f"wrote {written[0]}" if len(written) == 1 else f"wrote {written[0]} to {written[-1].name}"
    shown = "the forward graph and " if not steps.start else ""
    count = len(steps) - (not steps.start)
    write_output("-", f"{told}\n  {shown}{count:,} of {len(words.replay):,} steps\n")


def _is_chosen(options: dict[str, Any]) -> bool:
    """Whether the reader said which steps they want."""
    return bool(options["all_pages"]) or options["first"] is not None or options["last"] is not None


def _print(pages: Iterator[str], terminal: Terminal, *, use_pager: bool) -> None:
    """All of them through a pager; in a pipe one by one, so that the first is there at once."""
    from gradviz.cli.terminal.paging import show
    from gradviz.output import write_output

    if terminal.is_interactive:
        show("".join(pages), terminal, use_pager=use_pager)
        return
    for page in pages:
        if not write_output("-", page):
            return


def _is_played(terminal: Terminal, all_pages: bool) -> bool:
    """Whether there is somebody to press keys, and a screen that can be drawn anew."""
    from gradviz.cli.terminal.terminal import is_terminal

    return not all_pages and terminal.is_interactive and is_terminal(sys.stdin) and os.environ.get("TERM") != "dumb"


def _page_look(terminal: Terminal, options: dict[str, Any]) -> TextLook:
    from gradviz.rendering.replay.step_text import TextLook

    return TextLook(
        width=options["width"] or max(terminal.width, NARROWEST),
        color=terminal.has_colors,
        ascii=options["ascii"] or not terminal.has_unicode,
    )


def _notes(source: Source, options: SourceOptions) -> tuple[str, ...]:
    """What this recording holds of what a replay shows, and how to record the rest."""
    from gradviz.analysis.flow.gradient_flow import has_gradients
    from gradviz.graph.gradients import holds_numbers

    graph = source.graphs[0]
    notes = []
    if len(source.graphs) > 1:
        others = [str(each.backward.number) for each in source.graphs[1:4] if each.backward is not None]
        told = f"--backward N plays another (N = {', '.join(others)})"
        notes.append(f"the first of {len(source.graphs):,} recorded backward calls; {told}")
    if not has_gradients(graph):
        why, remedy = ("no backward() ran", "call backward() in the script")
        if graph.backward is not None:
            why, remedy = "no gradients were recorded", "record it without --no-gradients"
        order = "the order is the one in which the engine would run the nodes"
        notes.append(f"{why}: {order}; {remedy} to see gradients")
    elif options.is_capture and not any(holds_numbers(node.values) for node in graph.nodes):
        notes.append("recorded without numbers: record it again with --values to see them")
    return tuple(notes)


def _how_recorded(options: SourceOptions) -> str:
    if options.is_capture:
        return ""
    from gradviz.recording.run.plan import MAX_VALUES

    most = options.values_up_to or MAX_VALUES
    return f"the script was recorded with --values: every number of tensors of up to {most:,} elements"
