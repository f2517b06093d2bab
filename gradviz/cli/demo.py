"""``gradviz demo``: shows a first graph, from a recording that comes with the package."""

from __future__ import annotations

from itertools import dropwhile
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gradviz.capture.capture import Capture
    from gradviz.inspection import Inspection

DEMO = Path(__file__).with_name("demo.gradviz")
"""The recording of ``samples/mlp.py``; ``make demo-capture`` writes it."""

_INTRODUCTION = """\
gradviz runs a PyTorch script, unchanged, and shows the autograd graph of its backward().
This graph was recorded from {name}, one training step of a small network:

{lines}

Read the tree from the top: it begins with the loss, as backward() does.

"""

_NEXT = """
next:  gradviz demo -o demo.svg   draws this graph
       gradviz tree train.py      prints the graph of your own script
       gradviz render train.py    draws it
in Python:
       gradviz.inspect(loss)                     shows an existing tensor
       with gradviz.record() as recording: ...   also shows lines and modules
"""


@click.command("demo")
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="OUT",
    help="Draw the graph to a file.",
)
def demo_command(outputs: tuple[str, ...]) -> int:
    """Show the recorded graph of a small network. Nothing is run, and torch is not needed."""
    from gradviz.capture.capture_file import load_capture
    from gradviz.cli.terminal.printing import print_text
    from gradviz.errors import BadInput
    from gradviz.file_output import check_outputs, output_format, write_output
    from gradviz.inspection import Inspection

    if "-" in outputs:
        raise BadInput("the demo draws to files only", hint="name one, such as demo.svg; without -o it prints the tree")
    check_outputs(outputs)
    formats = [output_format(path) for path in outputs]
    demo = Inspection(load_capture(DEMO))
    if not outputs:
        print_text(_shown(demo))
    for path, chosen in zip(outputs, formats, strict=True):
        write_output(path, demo.render(chosen.name))
        print_text(f"wrote {path}\n")
    return 0


def _shown(demo: Inspection) -> str:
    from gradviz.cli.terminal.terminal import standard_output

    screen = standard_output()
    tree = demo.tree(width=screen.width, color=screen.has_colors, ascii=not screen.has_unicode)
    return _INTRODUCTION.format(name=demo.capture.program.name, lines=_lines(demo.capture)) + tree + _NEXT


def _lines(capture: Capture) -> str:
    """The lines of the program that the graph came from."""
    rows = [(line, text) for lines in capture.sources.values() for line, text in lines.items()]
    return "\n".join(f"  {line:>3}  {text}".rstrip() for line, text in dropwhile(lambda row: not row[1].strip(), rows))
