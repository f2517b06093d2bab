"""What one looks at in Python: the graphs of a capture, as text, as pictures, as files and as data.

The keywords of all methods are the options of the command line: `gradviz.view.keywords` lists those that say
what is shown, and the fields of each renderer those that say how.
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
    from gradviz.checked import Checked
    from gradviz.public_graph import Graph
    from gradviz.recording.requested_backward import InspectedRoots
    from gradviz.rendering.notebook import SvgPicture, TreeText
    from gradviz.rendering.page.notebook_page import NotebookPage
    from gradviz.rendering.renderer import Format
    from gradviz.rendering.reports.memory_report import MemoryTable

MAX_TREES = 5
"""So many graphs are printed one below the other."""


class Inspection:
    """One or several recorded graphs to look at.

    It shows itself: as a tree in a terminal, as a page in a notebook. It holds data only, no tensors, so it keeps
    nothing of the program alive, and it can be saved and loaded where there is no torch.

    Keywords, the same for every method that shows the graph itself:

    ====================================== ==================================================================
    ``depth``, ``unfold``, ``fold``,       how many levels of modules are open, and which in particular
    ``show_all``, ``max_items``
    ``group_by``                           what boxes are: ``"module"``, ``"function"`` or ``"line"``
    ``path=("inputs", "loss")``,           only a part of the graph
    ``around="fc"``, ``radius``,
    ``start="fc"``, ``downstream``,
    ``only_trainable``, ``hide="dropout"``
    ``find="attn"``                        the way to what matches is open, whatever is folded
    ``plumbing``, ``constants``            whether views, and inputs without a gradient, are shown
    ``backward=2``                         the graph of that backward call; without it, the first, and in pages all
    ====================================== ==================================================================

    What was recorded with ``calls=True`` is drawn with what `check` finds on it.

    Notes and messages spell them as the command line does: ``--max-items`` is ``max_items``, ``--all`` is
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
        """One graph for each backward call that was recorded; none where there was nothing to record."""
        from gradviz.public_graph import public_graph

        return tuple(map(public_graph, self.capture.graphs))

    @property
    def graph(self) -> Graph:
        """The first graph, often the only one.

        Raises:
            NothingRecorded: there is none.
        """
        return self.graphs[self._drawn.number(None)]

    def backward(self, gradient: Any = None, *, values: int = 0, root_shares: bool = False) -> Inspection:
        """What a backward of the tensors that were inspected would send along every edge, measured now.

        The program is left as it was: every ``.grad``, the graph, version counters and random numbers. What backward
        itself runs of the program (hooks, custom functions, checkpoints) runs once more. For as long as it takes, all
        gradients of leaves are in memory, as ``.grad`` would be.

        Args:
            gradient: what it starts from: a tensor of the root's shape, or a list or dict with one (or None) for each
                of several roots, in their order; without it, ones, for roots of a single element.
            values: keep every number of gradients with so many elements or fewer.
            root_shares: measure, too, what each root, or each term of the only root, gives to every leaf's gradient:
                ``graph.root_shares``. Each costs a backward, and memory for its gradients of all leaves.

        Returns:
            A new inspection, with the gradients.

        Raises:
            BadInput: this is no inspection of tensors that are still there; their graph was freed or changed since; or
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
                "backward() measures tensors that are there, and this was recorded before",
                hint="call it on gradviz.inspect(loss); a recording holds the gradients of its own backward calls",
            )
        from gradviz.recording.run.plan import RecordingPlan

        plan = RecordingPlan(values_up_to=values, root_shares=root_shares)
        return Inspection(self._roots.measured(self._capture, gradient, plan))

    def check(self, *, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> Checked:
        """Why gradients are missing, zero, NaN or wrong: what ``gradviz check`` says.

        Of tensors that are there already, a backward is measured first, as `backward` does it; what was cut off on the
        way to them is only known where it was recorded: see ``calls`` of `gradviz.record`.

        Args:
            select: only these rules, by code, beginning of a code, or name.
            ignore: without these.

        Raises:
            BadInput: there is no such rule; or the tensors can have no backward now.

        Example:
            >>> import torch, gradviz
            >>> x = torch.zeros(2, requires_grad=True)
            >>> loss = x.sqrt().sum()
            >>> gradviz.inspect(loss).check().findings[0].severity
            'error'
        """
        from gradviz.analysis.flow.gradient_flow import has_gradients
        from gradviz.checked import checked, chosen

        # Before a backward is measured, which runs the program's hooks.
        rules = chosen(select, ignore, model_is_given=self._model_is_given)
        is_measured = any(has_gradients(graph) for graph in self.graphs)
        measured = self if is_measured or self._roots is None else self.backward()
        return checked(measured.capture, rules)

    def tree(self, **options: Any) -> TreeText:
        """The graph as a tree of text, from the loss down to what it was computed from.

        Args:
            options: the keywords above, and those of the tree: ``width`` in columns, ``color``, ``ascii``, ...

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
        """The graph as a picture.

        Args:
            options: the keywords above, and those of the picture: ``direction`` (``"TB"`` or ``"LR"``), ``theme``
                (``"auto"``, ``"light"`` or ``"dark"``), ``color_by`` (``"role"``, ``"gradient"``,
                ``"memory"``, ``"time"`` or ``"module"``), ``engine``, ...

        Returns:
            The text of an SVG file; a notebook shows it as a picture.
        """
        from gradviz.rendering.notebook import SvgPicture

        return SvgPicture(self.render("svg", **options))

    def html(self, **options: Any) -> NotebookPage:
        """The graph as a page to explore.

        Args:
            options: the keywords above, and those of the page: ``color_by``, ``theme``, ``arrows``, ``editor``.

        Returns:
            The text of an HTML file; a notebook shows it in a frame.
        """
        from gradviz.rendering.page.notebook_page import NotebookPage

        # Where the page cannot be shown there are no fonts either, mostly; so it takes a third of the room.
        return NotebookPage(
            str(self.render("html", **options)), lambda: str(self.render("svg", embed_font=False, **options))
        )

    def dot(self, **options: Any) -> str:
        """The graph as Graphviz source; `options` are the keywords above, and those of the format."""
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
        """What the graph keeps in memory until its backward has run, by line and module: ``gradviz memory`` as text.

        Args:
            by: one table only; without it, lines and modules, what the allocator says, and what would help.
            rows: of the longest tables.
            width: columns, at least 40; without it, 100.
            color: with the control characters that terminals take for bold and dim.
            backward: the graph of that call; without it, the first.

        Returns:
            Text that ends in a line feed; an interactive prompt shows it as it is.

        Raises:
            BadInput: an argument cannot be, or the graph was recorded before gradviz looked at saved tensors.
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
        """The backward pass step by step, a page for each: ``gradviz replay`` as text.

        Args:
            first: the step to begin with; 0 is the forward graph.
            last: the step to end with; without it, the last one.
            width: columns, at least 20; without it, 100.
            color: with the control characters that terminals take for colours.
            backward: the graph of that call; without it, the first.
            options: the keywords above that say what is shown: folded boxes run as one step.

        Returns:
            Text that ends in a line feed; an interactive prompt shows it as it is.

        Raises:
            BadInput: there is no such step or keyword.
        """
        from gradviz.analysis.replay.steps import Replay
        from gradviz.rendering.notebook import TreeText
        from gradviz.rendering.replay.text import PageLook, ReplayPages, replay_notes
        from gradviz.rendering.replay.words import ReplayWords
        from gradviz.rendering.subjects import subject_of
        from gradviz.view.keywords import view_options

        look = PageLook(100 if width is None else width, color)
        subject = subject_of(self.capture, self._drawn.graph(backward), view_options(options))
        replay = Replay(subject.graph, subject.view)
        pages = ReplayPages(ReplayWords(subject, replay), look, replay_notes(subject))
        return TreeText("".join(pages.joined(replay.steps_between(first, last))))

    def render(self, format: str, **options: Any) -> str | bytes:
        """The graph in any format that ``gradviz render`` writes, by name: ``"json"``, ``"mermaid"``, ``"png"``, ...

        Raises:
            BadInput: there is no such format or option, with near matches.
        """
        from gradviz.rendering.renderer import RendersTogether, format_named

        chosen = format_named(format)
        look, showing = _sorted_out(chosen, options)
        renderer = chosen.renderer(**look)
        backward = showing.pop("backward", None)
        if isinstance(renderer, RendersTogether) and backward is None and len(self.graphs) > 1:
            return renderer.render_together(self._drawn.subjects(showing))
        return renderer.render(self._drawn.subject(showing, backward))

    def save(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write a file in the format that the suffix of `path` says, such as ``net.svg``.

        ``net.gradviz`` keeps everything that was recorded, for `gradviz.load` and the command line. Folders that are
        missing are made; a file that gradviz did not make is never overwritten.

        Args:
            path: where to.
            options: the keywords above, and those of the format; ``format="json"`` where the suffix does not say it.

        Returns:
            The path.
        """
        from gradviz.capture.capture_file import CAPTURE_SUFFIX, write_capture
        from gradviz.output import check_outputs, output_format, write_output

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
        """Open the page of the graph in the browser: ``gradviz view``.

        It is written to a temporary file, which stays. Where there is no display or no browser, nothing is opened.

        Args:
            options: the keywords above, and those of the page: ``color_by``, ``theme``, ``arrows``, ``editor``.

        Returns:
            The path of the page.

        Raises:
            NothingRecorded: there is no graph.
            BadInput: there is no such option, or no room for a temporary file.
        """
        from gradviz.browser import open_in_browser, temporary_page

        path = temporary_page(self.capture.program.name, str(self.render("html", **options)))
        open_in_browser(path.as_uri())
        return path

    # -- showing itself ------------------------------------------------------------------------------------------

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
        """What a notebook shows: the page, the picture where nothing can run, or the tree where there is only text."""
        if not self.graphs:
            return {"text/plain": str(self)}
        page = self.html()
        if len(self.graphs) > 1 and not page.fits_in_a_notebook and (first := self.graph.backward) is not None:
            page = self.html(backward=first.number)
        return page._repr_mimebundle_() | {"text/plain": str(self)}

    @property
    def _drawn(self) -> DrawnGraphs:
        """What is drawn of the capture, which is another one where recording goes on."""
        if self._drawn_before is None or self._drawn_before.capture is not self.capture:
            self._drawn_before = DrawnGraphs(self.capture)
        return self._drawn_before


def _sorted_out(chosen: Format, options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options that belong to the renderer, and those that say what is shown."""
    from gradviz.view.keywords import KEYWORDS

    look_names, showing_names = chosen.option_names(), ("backward", *KEYWORDS)
    for name in options:
        if name not in look_names and name not in showing_names:
            hint = near_matches(name, [*look_names, *showing_names])
            raise BadInput(f"{chosen.name} has no option {name!r}", hint=hint)
    # What is searched for is both: opened by folding, and marked by the tree.
    look = {name: value for name, value in options.items() if name in look_names and value is not None}
    return look, {name: value for name, value in options.items() if name in showing_names}
