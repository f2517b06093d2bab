"""``gradviz replay``: shows the backward pass step by step, as introductions to autograd draw it by hand."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from gradviz.cli.options.shared import (
    GroupedCommand,
    WholeNumber,
    recording_options,
    terminal_options,
    viewing_options_without_all,
)
from gradviz.cli.terminal.progress import working

if TYPE_CHECKING:
    from gradviz.cli.captures.source import Source, SourceOptions
    from gradviz.cli.player.replay_session import ReplaySession
    from gradviz.cli.terminal.terminal import Terminal
    from gradviz.rendering.replay.frame_strip import StripLook
    from gradviz.rendering.replay.picture_files import ReplayOutput
    from gradviz.rendering.replay.step_text import TextLook
    from gradviz.rendering.replay.step_words import ReplayWords

MIN_WIDTH = 40
"""The narrowest text, in columns."""

_KEYS = "\n".join(
    [
        "\b",
        "Keys in a terminal:",
        "  right n space     next step",
        "  left p            previous step",
        "  home end          forward graph; last step",
        "  g NUMBER          step with this number",
        "  / REGEX           next step that matches",
        "  o c               open the box of this step; close it again",
        "  q                 leave",
    ]
)


@click.command("replay", cls=GroupedCommand, epilog=_KEYS)
@recording_options
@click.option("--all", "all_steps", is_flag=True, help="Print all steps; the default if the output is not a terminal.")
@click.option(
    "--from", "first", type=WholeNumber(min=0), metavar="N", help="First step to show; 0 is the forward graph."
)
@click.option("--to", "last", type=WholeNumber(min=0), metavar="N", help="Last step to show.")
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    help="Draw pictures: OUT.svg or OUT.png has all steps, OUT/ a file for each.",
)
@click.option("--direction", metavar="TB|LR", default="TB", help="For pictures: down (default), or to the right.")
@click.option("--theme", metavar="auto|light|dark", default="auto", help="For pictures; auto follows the browser.")
@click.option("--every-node", is_flag=True, help="Make a step of every autograd node: fold and merge nothing.")
@viewing_options_without_all
@click.option("--ascii", is_flag=True, help="Use ASCII characters only.")
@terminal_options(min_width=MIN_WIDTH)
def replay_command(no_pager: bool, every_node: bool, **others: Any) -> int:
    """Run SCRIPT, and show the backward pass of its first backward() step by step.

    Each step shows what the engine runs, the gradient that enters, how gradients are summed where branches meet, the
    formula, and the gradients that leave. A folded box is one step. The numbers of small tensors are recorded.
    """
    from gradviz.cli.captures.kept_recording import keeping_recording
    from gradviz.cli.captures.source import open_source, report_early_stop
    from gradviz.cli.captures.views import source_options, view_options
    from gradviz.cli.player.replay_session import ReplaySession
    from gradviz.cli.terminal.terminal import standard_output

    source_choice = _with_values(source_options(others))
    viewing = view_options(others | ({"show_all": True, "plumbing": True} if every_node else {}))
    _check(source_choice, others)
    pictures = _pictures(source_choice, others)
    if pictures is not None:
        source_choice = replace(source_choice, outputs=(str(pictures[0].first_file),))
    terminal = standard_output(others["color"])
    look = _text_look(terminal, others)
    source = open_source(source_choice, own_output=True)
    with keeping_recording(source, source_choice):
        session = ReplaySession(
            source.capture,
            source.graphs[0],
            _notes(source, source_choice),
            look,
            has_own_width=others["width"] is not None,
            how_recorded=_how_recorded(source_choice),
        )
        words = session.words(viewing)
        steps = words.replay.steps_between(others["first"] or 0, others["last"])
        if pictures is not None:
            _draw(session, words, steps, pictures)
        elif _has_keys(terminal, others["all_steps"]):
            from gradviz.cli.player.player import Player

            Player(session, viewing, words, steps).play()
        else:
            _print(session.all_steps(words, steps, is_asked_for=_is_chosen(others)), terminal, use_pager=not no_pager)
    report_early_stop(source, source_choice)
    return source.exit_code


def _with_values(source: SourceOptions) -> SourceOptions:
    """Record a script with numbers, which the steps show."""
    return source if source.is_capture else replace(source, values=True)


def _check(source: SourceOptions, options: dict[str, Any]) -> None:
    """Raise `BadInput` for wrong options before the script runs."""
    from gradviz.errors import BadInput

    first, last = options["first"], options["last"]
    if source.backward == "all":
        raise BadInput("replay shows one backward call at a time", hint="pick one with --backward N")
    if first is not None and last is not None and first > last:
        raise BadInput(f"--from {first} comes after --to {last}", hint="steps are counted as the engine runs them")
    if options["all_steps"] and options["output"] is not None:
        raise BadInput("--all prints steps, and -o draws pictures", hint="leave one of them out")


def _pictures(source: SourceOptions, options: dict[str, Any]) -> tuple[ReplayOutput, StripLook] | None:
    """Where to write pictures, and how they look; None for text."""
    if options["output"] is None:
        return None
    from gradviz.file_output import check_outputs
    from gradviz.rendering.replay.frame_strip import StripLook
    from gradviz.rendering.replay.picture_files import ReplayOutput

    output = ReplayOutput.of(options["output"])
    look = StripLook(options["direction"].upper(), options["theme"], embed_font=not output.is_png)
    check_outputs([output.first_file], inputs=source.inputs)
    return output, look


def _draw(session: ReplaySession, words: ReplayWords, steps: range, pictures: tuple[ReplayOutput, StripLook]) -> None:
    from gradviz.cli.terminal.printing import print_text
    from gradviz.file_output import write_output
    from gradviz.rendering.replay.picture_files import picture_files

    written = []
    with working("drawing the steps"):
        for path, content in picture_files(*pictures, words, steps, session.notes_on(words)):
            write_output(path, content)
            written.append(path)
    report = f"wrote {written[0]}" if len(written) == 1 else f"wrote {written[0]} to {written[-1].name}"
    shown = "the forward graph and " if not steps.start else ""
    count = len(steps) - (not steps.start)
    print_text(f"{report}\n  {shown}{count:,} of {len(words.replay):,} steps\n")


def _is_chosen(options: dict[str, Any]) -> bool:
    """Whether the user said which steps to print."""
    return bool(options["all_steps"]) or options["first"] is not None or options["last"] is not None


def _print(steps: Iterator[str], terminal: Terminal, *, use_pager: bool) -> None:
    """Print all steps through a pager; in a pipe one by one, so that the first appears at once."""
    from gradviz.cli.terminal.paging import show
    from gradviz.cli.terminal.printing import print_text

    if terminal.is_interactive:
        show("".join(steps), terminal, use_pager=use_pager)
        return
    for step in steps:
        if not print_text(step, is_styled=True):
            return


def _has_keys(terminal: Terminal, all_steps: bool) -> bool:
    """Whether a user can press keys, and the screen can be redrawn."""
    from gradviz.cli.terminal.terminal import is_terminal

    return not all_steps and terminal.is_interactive and is_terminal(sys.stdin) and os.environ.get("TERM") != "dumb"


def _text_look(terminal: Terminal, options: dict[str, Any]) -> TextLook:
    from gradviz.rendering.replay.step_text import TextLook

    return TextLook(
        width=terminal.text_width(options["width"], MIN_WIDTH),
        color=terminal.has_colors,
        ascii=options["ascii"] or not terminal.has_unicode,
    )


def _notes(source: Source, options: SourceOptions) -> tuple[str, ...]:
    """Notes on what this recording lacks, and how to record it."""
    from gradviz.analysis.flow.gradient_flow import has_gradients
    from gradviz.graph.gradients import holds_numbers

    graph = source.graphs[0]
    notes = []
    if len(source.graphs) > 1:
        others = [str(each.backward.number) for each in source.graphs[1:4] if each.backward is not None]
        other = f"--backward N shows another (N = {', '.join(others)})"
        notes.append(f"the first of {len(source.graphs):,} recorded backward calls; {other}")
    if not has_gradients(graph):
        why, remedy = ("no backward() ran", "call backward() in the script")
        if graph.backward is not None:
            why, remedy = "no gradients were recorded", "record it without --no-gradients"
        order = "the steps are in the order in which the engine would run them"
        notes.append(f"{why}: {order}; {remedy} to see gradients")
    elif options.is_capture and not any(holds_numbers(node.values) for node in graph.nodes):
        notes.append("recorded without numbers: record it again with --values to see them")
    return tuple(notes)


def _how_recorded(options: SourceOptions) -> str:
    if options.is_capture:
        return ""
    from gradviz.recording.run.recording_plan import MAX_VALUES

    most = options.values_up_to or MAX_VALUES
    return f"the script was recorded with --values: all numbers of tensors with at most {most:,} elements"
