"""`Inspection` shows the graphs of a capture in Python: as text, pictures, files and data.

Its methods take the options of the command line as keywords: `gradviz.view.keywords` lists those that say what is
shown, and the fields of each renderer those that say how.
"""

from __future__ import annotations

import os
import shutil
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradviz.drawn_graphs import DrawnGraphs
from gradviz.errors import BadInput, near_matches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradviz.capture.capture import Capture
    from gradviz.check_result import Checked
    from gradviz.public_graph import Graph
    from gradviz.recording.requested_backward import InspectedRoots
    from gradviz.rendering.formats import Format
    from gradviz.rendering.notebook import SvgPicture, TreeText
    from gradviz.rendering.page.notebook import NotebookPage
    from gradviz.rendering.reports.memory_report import MemoryTable

MAX_TREES = 5
"""How many graphs are printed, one below the other."""


class Inspection:
    """One or several recorded graphs.

    A terminal shows it as a tree, a notebook as a page. It holds data and no tensors: it keeps nothing of the program
    alive, and it can be saved, and loaded without torch.

    Every method that shows the graph takes these keywords:

    ====================================== ==================================================================
    ``depth``, ``unfold``, ``fold``,       how many levels of modules are open, and which modules
    ``show_all``, ``max_items``
    ``group_by``                           what a box is: a ``"module"``, ``"function"`` or ``"line"``
    ``path=("inputs", "loss")``,           show only a part of the graph
    ``around="fc"``, ``radius``,
    ``start="fc"``, ``downstream``,
    ``only_trainable``, ``hide="dropout"``
    ``find="attn"``                        open every box that holds a match
    ``plumbing``, ``constants``            whether views, and inputs without a gradient, are shown
    ``backward=2``                         the graph of this backward call; by default the first, in pages all
    ====================================== ==================================================================

    A graph that was recorded with ``calls=True`` is drawn with the findings of `check`.

    Notes and messages write keywords as command-line options: ``--max-items`` is ``max_items``, ``--all`` is
    ``show_all``, ``--from`` is ``start``, and ``--from`` with ``--reverse`` is ``start`` with ``downstream``.
    """

    _roots: InspectedRoots | None = None
    _drawn_before: DrawnGraphs | None = None
    _model_is_given = False

    def __init__(self, capture: Capture, roots: InspectedRoots | None = None, *, model_is_given: bool = False) -> None:
        self._capture = capture
        self._roots = roots
        self._model_is_given = model_is_given

    @property
    def capture(self) -> Capture:
        """Everything that was recorded, as data."""
        return self._capture

    @cached_property
    def graphs(self) -> tuple[Graph, ...]:
        """One graph for each recorded backward call; empty if nothing was recorded."""
        from gradviz.public_graph import public_graph

        return tuple(map(public_graph, self.capture.graphs))

    @property
    def graph(self) -> Graph:
        """The first graph, often the only one.

        Raises:
            NothingRecorded: there is no graph.
        """
        return self.graphs[self._drawn.number(None)]

    def backward(self, gradient: Any = None, *, values: int = 0, root_shares: bool = False) -> Inspection:
        """Measure the gradient that a backward of the inspected tensors would send along every edge.

        The program is left as it was: every ``.grad``, the graph, version counters and random numbers. Code of the
        program that backward runs (hooks, custom functions, checkpoints) runs once more. During the measurement the
        gradients of all leaves are in memory, as ``.grad`` would be.

        Args:
            gradient: the gradient of the root: a tensor of its shape. For several roots: a list or dict with one
                tensor (or None) for each, in their order. By default ones, for roots of a single element.
            values: keep all numbers of gradients with at most this many elements.
            root_shares: also measure what each root, or each term of the only root, adds to every leaf's gradient:
                ``graph.root_shares``. Each root or term costs one backward, and memory for its gradients of all leaves.

        Returns:
            A new inspection, with the gradients.

        Raises:
            BadInput: this is not an inspection of tensors that still exist; or their graph was freed or changed; or
                `gradient` does not fit.

        Example:
            >>> import torch, gradviz
            >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
            >>> y = x * x
            >>> measured = gradviz.inspect(y).backward(torch.tensor([1.0, 0.0]), values=2)
            >>> measured.graph.find("x")[0].arrived[0].values, x.grad
            ((2.0, 0.0), None)
        """
        if self._roots is None:
            raise BadInput(
                "backward() measures existing tensors, and this is a recording",
                hint="call it on gradviz.inspect(loss); a recording holds the gradients of its own backward calls",
            )
        from gradviz.recording.run.recording_plan import RecordingPlan

        plan = RecordingPlan(values_up_to=values, root_shares=root_shares)
        return Inspection(self._roots.measured(self._capture, gradient, plan))

    def check(self, *, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> Checked:
        """Find out why gradients are missing, zero, NaN or wrong, as ``gradviz check`` does.

        For existing tensors, it first measures a backward as `backward` does. Where gradients were cut off before
        these tensors is known only in a recording: see ``calls`` of `gradviz.record`.

        Args:
            select: use only these rules, given by code, beginning of a code, or name.
            ignore: leave out these rules.

        Raises:
            BadInput: there is no such rule; or no backward of the tensors is possible now.

        Example:
            >>> import torch, gradviz
            >>> x = torch.zeros(2, requires_grad=True)
            >>> loss = x.sqrt().sum()
            >>> gradviz.inspect(loss).check().findings[0].severity
            'error'
        """
        from gradviz.analysis.flow.gradient_flow import has_gradients
        from gradviz.check_result import checked, selected_rules

        # First, because measuring a backward runs hooks of the program.
        rules = selected_rules(select, ignore, model_is_given=self._model_is_given)
        is_measured = any(has_gradients(graph) for graph in self.graphs)
        measured = self if is_measured or self._roots is None else self.backward()
        return checked(measured.capture, rules)

    def tree(self, **options: Any) -> TreeText:
        """Return the graph as a tree of text, from the loss down to the leaves.

        Args:
            options: the keywords of this class, and those of the tree: ``width`` in columns, ``color``, ``ascii``, ...

        Returns:
            Text that ends in a line feed; an interactive prompt shows it as it is.

        Example:
            >>> import torch, gradviz
            >>> model = torch.nn.Linear(3, 1)
            >>> with gradviz.record() as recording:
            ...     loss = model(torch.ones(2, 3)).sum()
            ...     loss.backward()
            >>> recording.tree(constants=False)  # doctest: +ELLIPSIS
            operation   shape   grad_fn         line
            ◆ loss      scalar  backward()      ...
            ● sum       scalar  SumBackward0    ...
            │ in model (Linear) · 4 params
            ● linear    [2, 1]  AddmmBackward0  ...
            ├─○ weight  [1, 3]  AccumulateGrad
            └─○ bias    [1]     AccumulateGrad
            ...
        """
        from gradviz.rendering.notebook import TreeText

        return TreeText(self.render("tree", **options))

    def svg(self, **options: Any) -> SvgPicture:
        """Return the graph as a picture.

        Args:
            options: the keywords of this class, and those of the picture: ``direction`` (``"TB"`` or ``"LR"``),
                ``theme`` (``"auto"``, ``"light"`` or ``"dark"``), ``color_by`` (``"kind"``, ``"gradient"``,
                ``"memory"``, ``"time"``, ``"module"`` or ``"none"``), ``shape`` (``"auto"``, ``"tall"``,
                ``"wide"`` or ``"page"``), ``engine``, ...

        Returns:
            The text of an SVG file; a notebook shows it as a picture.
        """
        from gradviz.rendering.notebook import SvgPicture

        return SvgPicture(self.render("svg", **options))

    def html(self, **options: Any) -> NotebookPage:
        """Return the graph as an HTML page to explore.

        Args:
            options: the keywords of this class, and those of the page: ``color_by``, ``theme``, ``arrows``, ``editor``.

        Returns:
            The text of an HTML file; a notebook shows it in a frame.
        """
        from gradviz.rendering.page.notebook import NotebookPage

        # What cannot show the page has mostly no use for a font; without it the picture is a third as large.
        return NotebookPage(
            str(self.render("html", **options)), lambda: str(self.render("svg", embed_font=False, **options))
        )

    def dot(self, **options: Any) -> str:
        """Return the graph as Graphviz source; `options` are the keywords of this class and those of the format."""
        return str(self.render("dot", **options))

    def memory(
        self,
        *,
        by: MemoryTable | None = None,
        rows: int = 10,
        width: int | None = None,
        color: bool = False,
        backward: int | None = None,
    ) -> TreeText:
        """Return what the graph keeps in memory until its backward has run, by line and module, as ``gradviz memory``.

        Args:
            by: print only this table; by default tables of lines and modules, the allocator's figures and advice.
            rows: the maximum length of a table.
            width: columns, at least 40; by default 100.
            color: use control characters for bold and dim text.
            backward: the graph of this backward call; by default the first.

        Returns:
            Text that ends in a line feed; an interactive prompt shows it as it is.

        Raises:
            BadInput: an argument is not valid, or the gradviz that recorded the graph did not record saved tensors.
        """
        from gradviz.rendering.notebook import TreeText
        from gradviz.rendering.reports.memory_report import ReportOptions, memory_report

        options = ReportOptions(by, rows, 100 if width is None else width, color)
        return TreeText(memory_report(self.capture, self._drawn.graph(backward), options))

    def replay(
        self,
        *,
        first: int = 0,
        last: int | None = None,
        width: int | None = None,
        color: bool = False,
        backward: int | None = None,
        **options: Any,
    ) -> TreeText:
        """Return the steps of the backward pass as text, as ``gradviz replay`` prints them.

        Args:
            first: the first step to print; 0 is the forward graph.
            last: the last step to print; by default the last of all.
            width: columns, at least 20; by default 100.
            color: use control characters for colours.
            backward: the graph of this backward call; by default the first.
            options: the keywords of this class that say what is shown; a folded box is one step.

        Returns:
            Text that ends in a line feed; an interactive prompt shows it as it is.

        Raises:
            BadInput: there is no such step or keyword.
        """
        from gradviz.analysis.replay.steps import Replay
        from gradviz.rendering.notebook import TreeText
        from gradviz.rendering.replay.step_text import ReplayText, TextLook, replay_notes
        from gradviz.rendering.replay.step_words import ReplayWords
        from gradviz.rendering.subjects import subject_of
        from gradviz.view.keywords import view_options

        look = TextLook(100 if width is None else width, color)
        subject = subject_of(self.capture, self._drawn.graph(backward), view_options(options))
        replay = Replay(subject.graph, subject.view)
        screens = ReplayText(ReplayWords(subject, replay), look, replay_notes(subject))
        return TreeText("".join(screens.joined(replay.steps_between(first, last))))

    def render(self, format: str, **options: Any) -> str | bytes:
        """Return the graph in a format that ``gradviz render`` writes, such as ``"json"``, ``"mermaid"`` or ``"png"``.

        Raises:
            BadInput: there is no such format or option; the message names similar ones.
        """
        from gradviz.rendering.formats import RendersTogether, format_named

        chosen = format_named(format)
        look, showing = _split(chosen, options)
        renderer = chosen.renderer(**look)
        backward = showing.pop("backward", None)
        if isinstance(renderer, RendersTogether) and backward is None and len(self.graphs) > 1:
            return renderer.render_together(self._drawn.subjects(showing))
        return renderer.render(self._drawn.subject(showing, backward))

    def save(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write a file; the suffix of `path` determines the format, such as ``net.svg``.

        ``net.gradviz`` keeps everything that was recorded, for `gradviz.load` and the command line. Missing folders
        are made; a file that gradviz did not write is never overwritten.

        Args:
            path: the file to write.
            options: the keywords of this class, and those of the format; ``format="json"`` names one that the
                suffix does not determine.

        Returns:
            The path.
        """
        from gradviz.capture.capture_file import CAPTURE_SUFFIX, write_capture
        from gradviz.file_output import check_outputs, output_format, write_output

        if not isinstance(path, (str, os.PathLike)):
            raise BadInput(f"save() takes the path of a file, not an object of type {type(path).__name__}")
        target = Path(path)
        check_outputs([target])
        if target.suffix == CAPTURE_SUFFIX:
            if options:
                raise BadInput(f"{target.name!r} keeps everything", hint=f"leave out {', '.join(options)}")
            write_output(target, write_capture(self.capture))
        else:
            chosen = output_format(target, options.pop("format", None))
            write_output(target, self.render(chosen.name, **options))
        return target

    def show(self, **options: Any) -> Path:
        """Open the page of the graph in the browser, as ``gradviz view`` does.

        The page is a temporary file, which is not removed. Without a display or a browser, it is only written.

        Args:
            options: the keywords of this class, and those of the page: ``color_by``, ``theme``, ``arrows``, ``editor``.

        Returns:
            The path of the page.

        Raises:
            NothingRecorded: there is no graph.
            BadInput: there is no such option, or a temporary file cannot be written.
        """
        from gradviz.browser import open_in_browser, temporary_page

        path = temporary_page(self.capture.program.name, str(self.render("html", **options)))
        open_in_browser(path.as_uri())
        return path

    # -- how prompts and notebooks show it ---------------------------------------------------------------------------

    def __str__(self) -> str:
        if not self.graphs:
            return f"<gradviz.{type(self).__name__} without a graph: {self._drawn.why_there_is_none}>"
        calls = [graph.backward.number if graph.backward is not None else None for graph in self.graphs]
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        if len(calls) == 1:
            return self.tree(width=width).rstrip("\n")
        trees = [f"backward {call}\n{self.tree(width=width, backward=call)}" for call in calls[:MAX_TREES]]
        if len(calls) > MAX_TREES:
            more = len(calls) - MAX_TREES
            trees.append(f"and {more:,} more backward calls: tree(backward={calls[MAX_TREES]}) shows the next")
        return "\n".join(trees).rstrip("\n")

    def __repr__(self) -> str:
        return str(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What a notebook shows: the page, the picture if scripts cannot run, or the tree if only text is possible."""
        if not self.graphs:
            return {"text/plain": str(self)}
        page = self.html()
        if len(self.graphs) > 1 and not page.fits_in_a_notebook and (first := self.graph.backward) is not None:
            page = self.html(backward=first.number)
        return page._repr_mimebundle_() | {"text/plain": str(self)}

    @property
    def _drawn(self) -> DrawnGraphs:
        """The drawn graphs of the capture; made anew if the capture is another one."""
        if self._drawn_before is None or self._drawn_before.capture is not self.capture:
            self._drawn_before = DrawnGraphs(self.capture)
        return self._drawn_before


def _split(chosen: Format, options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of the renderer, and the options that say what is shown."""
    from gradviz.view.keywords import KEYWORDS

    look_names, showing_names = chosen.option_names(), ("backward", *KEYWORDS)
    for name in options:
        if name not in look_names and name not in showing_names:
            hint = near_matches(name, [*look_names, *showing_names])
            raise BadInput(f"{chosen.name} has no option {name!r}", hint=hint)
    # `find` is in both: folding opens the boxes that hold matches, and the tree marks the matches.
    look = {name: value for name, value in options.items() if name in look_names and value is not None}
    return look, {name: value for name, value in options.items() if name in showing_names}
