"""A replay as pictures: the forward graph once for every step, in the same layout, so that only the gradient moves.

The running node is filled. A node that has run keeps an outline in the same colour. A wire that carries the gradient
points backwards and has its number beside it. Below each picture are the formulas of the step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gradviz.analysis.replay.steps import START, Step
from gradviz.graph.gradients import at_index
from gradviz.rendering.layout.graphlay_engine import lay_out
from gradviz.rendering.layout.link_label_positions import LinkLabel, find_link_label_positions
from gradviz.rendering.layout.title_positions import header_starts
from gradviz.rendering.look.geometry import Direction, Layout, Route
from gradviz.rendering.look.node_label import SMALL_SIZE, node_labels_of
from gradviz.rendering.look.palette import failed_item
from gradviz.rendering.look.shapes import number, rounded_route
from gradviz.rendering.look.text_metrics import text_width, wrap
from gradviz.rendering.replay.gradient_numbers import short_words
from gradviz.rendering.replay.step_words import ReplayWords
from gradviz.rendering.svg.formula_lines import FormulaLine
from gradviz.rendering.svg.items import header_markup, item_markup, open_box_markup
from gradviz.rendering.svg.links import label_markup
from gradviz.rendering.svg.xml_text import xml_text
from gradviz.rendering.words.gradient_words import LinkGradients
from gradviz.rendering.words.item_words import ItemText
from gradviz.rendering.words.value_words import short_nested_words
from gradviz.safe_text import one_line
from gradviz.view.model import Item, Link

MIN_WIDTH = 250.0
MAX_LINES = 9
"""Lines of words below a picture."""
_LINE = 15.0
_GAP_ABOVE_WORDS = 22.0
_HEAD = 34.0
_LONGEST_VALUE = 22
_WORDS_BEFORE = {"formula": "", "gradient out": "", ".grad": ".grad = ", "✗ failed": "✗ "}


class ReplayFrames:
    """The pictures of some steps of one replay. All have the same size and the same positions."""

    def __init__(self, words: ReplayWords, direction: Direction, steps: range) -> None:
        self._words, self._replay = words, words.replay
        subject = words.subject
        self._view = subject.view
        self._texts = [self._text(item) for item in self._view.items]
        self._node_labels = node_labels_of(subject.graph, self._view, tuple(self._texts))
        self._layout: Layout = lay_out(self._view, self._node_labels, direction)
        self._starts = header_starts(self._view, self._node_labels, self._layout)
        self._depths = self._view.depths()
        self._failed = failed_item(self._view, subject.graph)
        self._labels = self._link_labels()
        self.width = max(self._layout.width, MIN_WIDTH)
        self._captions = {at: self._caption(at) for at in steps}
        self.picture_height = _HEAD + self._layout.height
        """Of the heading and the graph, without the words below."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the layout."""
        return self._layout.notes

    def _text(self, item: Item) -> ItemText:
        """The words on an item in all frames: its name and its value."""
        text = self._words.names.texts[item.id]
        value = self._value(item)
        if item.is_open or not value:
            return replace(text, flag=None, numbers="", tooltip=())
        called = text.name if item.kind == "node" else ""
        return ItemText(
            text.title,
            text.subtitle,
            numbers=f"{called} = {value}".strip(),
            settings=text.settings,
            badge=text.badge,
            short_line=text.short_line,
        )

    def _value(self, item: Item) -> str:
        graph = self._words.graph
        if item.constant is not None:
            return short_nested_words(graph.constants[item.constant].value, _LONGEST_VALUE)
        if item.root is not None:
            root = graph.roots[item.root]
            values = graph.nodes[root.node].values
            return short_nested_words(at_index(values, root.output_nr), _LONGEST_VALUE)
        if item.node is None or len(self._replay.steps_of_item(item.id)) > 1:
            return ""
        values = graph.nodes[max(item.nodes, default=item.node)].values
        return short_nested_words(values[0], _LONGEST_VALUE) if len(values) == 1 else ""

    def _link_labels(self) -> list[LinkLabel]:
        gradients = LinkGradients(self._words.subject.facts)
        words = [self._number_on(link, gradients) for link in self._view.links]
        return find_link_label_positions(self._view, self._node_labels, self._layout, words, self._starts)

    def _number_on(self, link: Link, gradients: LinkGradients) -> str:
        """The gradient that flows back along a link; empty if several flow, one after the other."""
        branches = gradients.along(link)
        return short_words([branches[0].gradient]) if len(branches) == 1 else ""

    # -- one frame -----------------------------------------------------------------------------------------------

    def caption_height(self, at: int) -> float:
        """The height of the words below a frame."""
        return _GAP_ABOVE_WORDS + _LINE * len(self._captions[at])

    def frame(self, at: int) -> str:
        """Markup of one frame, with its upper left corner at the origin."""
        left = (self.width - self._layout.width) / 2
        y = self.picture_height + _GAP_ABOVE_WORDS
        caption = (line.markup(0, y + _LINE * index) for index, line in enumerate(self._captions[at]))
        return (
            f"{self._head(at)}"
            f'<g transform="translate({number(left)} {number(_HEAD)})">\n{"".join(self._picture(at))}</g>\n'
            f'<g class="f">{"".join(caption)}</g>\n'
        )

    def _head(self, at: int) -> str:
        """The number of the step in a circle, and the name of what runs."""
        words = "forward" if at == START else one_line(self._words.names.title(self._replay.step(at)))
        sign = str(at) if at else "→"
        width = text_width(sign, SMALL_SIZE, bold=True)
        return (
            f'<g class="f"><circle class="nc" cx="11" cy="11" r="11"/>'
            f'<text class="nt" x="{number(11 - width / 2)}" y="15">{xml_text(sign)}</text>'
            f'<text class="p" x="30" y="16.5">{xml_text(words)}</text></g>\n'
        )

    def _picture(self, at: int) -> Iterator[str]:
        for item, node_label, box in zip(self._view.items, self._node_labels, self._layout.boxes, strict=True):
            if item.is_open:
                yield open_box_markup(node_label, box, self._depths[item.id], failed=False)
        flows = [self._flow_state(link, at) for link in self._view.links]
        yield '<g class="l">\n'
        # Wires that carry the gradient are drawn above the other ones.
        for wanted in ("", "carried", "carries"):
            for link, route, state in zip(self._view.links, self._layout.routes, flows, strict=True):
                if route and state == wanted:
                    yield _wire(route, state, is_quiet=self._node_labels[link.source].role == "constant")
        yield "</g>\n"
        yield from self._items(at)
        yield '<g class="y">\n'
        for label in self._labels:
            if flows[label.link]:
                yield f'<g class="gl">{label_markup(label, self._depth_around(label))}</g>'
        yield "</g>\n"

    def _items(self, at: int) -> Iterator[str]:
        for item, node_label, box in zip(self._view.items, self._node_labels, self._layout.boxes, strict=True):
            text = self._texts[item.id]
            if item.is_open:
                depth, start = self._depths[item.id], self._starts[item.id]
                yield header_markup(item.id, node_label, text, box, start, depth, failed=False)
                continue
            state = self._replay.state_of(item, at)
            failed = item.id == self._failed and state in ("runs", "ran")
            yield f'<g class="is-{state}">{item_markup(item.id, node_label, text, box, failed=failed)}</g>\n'

    def _flow_state(self, link: Link, at: int) -> str:
        """Whether the gradient of a link flows in this step, or has flowed before."""
        source, target = self._view.items[link.source], self._view.items[link.target]
        if link.node is None or source.kind == "constant":
            return ""
        if target.root is not None:
            return "carries" if at == START else "carried"
        state = self._replay.state_of(target, at)
        if state == "runs":
            return "carries"
        numbers = self._replay.steps_of_item(target.id)
        return "carried" if numbers and numbers[0] < at else ""

    def _depth_around(self, label: LinkLabel) -> int | None:
        parent = self._view.items[self._view.links[label.link].source].parent
        return None if parent is None else self._depths[parent]

    # -- the words below the picture ---------------------------------------------------------------------------------

    def _caption(self, at: int) -> list[FormulaLine]:
        facts = self._words.sums.beginning() if at == START else self._facts(self._replay.step(at))
        lines = [line for words in facts for line in wrap(words, self.width, SMALL_SIZE)]
        shown = lines if len(lines) <= MAX_LINES else [*lines[: MAX_LINES - 1], "…"]
        return [FormulaLine(line, SMALL_SIZE) for line in shown]

    def _facts(self, step: Step) -> Iterator[str]:
        """The facts that the picture does not show."""
        yield from self._words.sums_in_short(step)
        for fact in self._words.facts(step):
            if fact.label in _WORDS_BEFORE:
                yield from (f"{_WORDS_BEFORE[fact.label]}{line}" for line in fact.lines)


def _wire(route: Route, state: str, *, is_quiet: bool) -> str:
    """A link: with the data, or backwards if the gradient flows or has flowed along it."""
    if state:
        return f'<path class="{state}" marker-end="url(#g-{state})" d="{rounded_route(route[::-1])}"/>\n'
    look = 'class="k" marker-end="url(#ak)"' if is_quiet else 'marker-end="url(#a)"'
    return f'<path {look} d="{rounded_route(route)}"/>\n'
