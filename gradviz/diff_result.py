"""The difference of two recordings in Python: data that prints itself as ``gradviz diff`` does."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradviz.errors import BadInput

if TYPE_CHECKING:
    from gradviz.analysis.diff.comparison import Compared, Side
    from gradviz.analysis.diff.difference import Change, Difference, Figure, Origin
    from gradviz.rendering.formats import Renderer

_WIDTH = 100


class Differed:
    """What is different between two recordings. It prints as text, and is true if something is different."""

    def __init__(self, compared: Compared) -> None:
        self.compared = compared
        """The pairs of operations and nodes, too."""

    @property
    def difference(self) -> Difference:
        """Everything that was found."""
        return self.compared.difference

    @property
    def same(self) -> bool:
        """Whether structure, shapes, values and gradients are the same within the tolerance; names may differ."""
        return self.difference.same

    @property
    def first(self) -> Origin | None:
        """Where the two begin to differ; None if they are the same."""
        return self.difference.first

    @property
    def changes(self) -> tuple[Change, ...]:
        """Differences in structure."""
        return self.difference.changes

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Figures of both, those that changed most first."""
        return self.difference.figures

    def text(self, *, width: int = _WIDTH, color: bool = False, show_all: bool = False) -> str:
        """The text that ``gradviz diff`` prints."""
        from gradviz.rendering.reports.diff_text import diff_text

        return diff_text(self.difference, width, color=color, show_all=show_all)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Draw one graph of both, with what differs marked: a picture (.svg, .png, .pdf), or a page (.html).

        Returns:
            The path.
        """
        from gradviz.file_output import check_outputs, write_output
        from gradviz.rendering.difference_picture import difference_subject

        if not isinstance(path, (str, os.PathLike)):
            raise BadInput(f"save() takes the path of a file, not an object of type {type(path).__name__}")
        target = Path(path)
        renderer = renderer_for(target)
        check_outputs([target])
        write_output(target, renderer.render(difference_subject(self.compared)))
        return target

    def __bool__(self) -> bool:
        return not self.same

    def __str__(self) -> str:
        width = shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else _WIDTH
        return self.text(width=width).rstrip("\n")

    def __repr__(self) -> str:
        return str(self)


def renderer_for(path: str | os.PathLike[str]) -> Renderer:
    """The renderer for a picture or page of two runs; raises `BadInput` for another format."""
    from gradviz.file_output import output_format
    from gradviz.rendering.difference_picture import check_that_it_is_a_picture

    chosen = output_format(Path(path))
    check_that_it_is_a_picture(chosen)
    return chosen.renderer()


def differed(a: Any, b: Any, *, rtol: float | None = None) -> Differed:
    """Compare two recordings: each an `Inspection`, or the path of a capture, with ``#2`` for its second graph."""
    from gradviz.analysis.diff.closeness import Tolerance
    from gradviz.analysis.diff.comparison import compare

    if rtol is not None and not rtol >= 0:
        raise BadInput(f"rtol={rtol!r} is not a number from 0 on", hint="such as 1e-5; leave it out to go by dtype")
    return Differed(compare(_side(a, "A"), _side(b, "B"), Tolerance(rtol)))


def _side(given: Any, name: str) -> Side:
    from gradviz.analysis.diff.comparison import Side
    from gradviz.capture.job_file import named_capture
    from gradviz.inspection import Inspection

    if isinstance(given, Inspection):
        return Side(f"{given.capture.program.name} ({name})", given.capture)
    if not isinstance(given, (str, os.PathLike)):
        raise BadInput(
            f"diff() takes recordings or paths of their files, not an object of type {type(given).__name__}",
            hint="gradviz.record(fingerprints=True) makes a recording",
        )
    path, number = split_number(os.fspath(given))
    if Path(path).suffix == ".py":
        raise BadInput(f"{path!r} is a script, not a recording", hint=f"run 'gradviz diff {path} ...' in a shell")
    capture = named_capture(path).capture
    return Side(os.fspath(given), capture, graph_index(capture, number, os.fspath(given)))


def split_number(name: str) -> tuple[str, int | None]:
    """``run.gradviz#2`` without the number, and the number; a file with such a name comes first."""
    path, sign, digits = name.rpartition("#")
    if not sign or not digits.isdecimal() or Path(name).exists():
        return name, None
    return path, int(digits)


def graph_index(capture: Any, number: int | None, name: str) -> int | None:
    """The index of the graph of that backward call; raises `BadInput` if the recording does not have it."""
    if number is None:
        return None
    numbers = [graph.backward.number if graph.backward is not None else None for graph in capture.graphs]
    if number not in numbers:
        known = ", ".join(str(each) for each in numbers if each is not None) or "none"
        raise BadInput(f"{name}: backward {number} is not in the recording", hint=f"it has {known}")
    return numbers.index(number)
