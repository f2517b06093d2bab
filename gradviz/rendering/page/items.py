"""The items of the page: their outlines, words and colours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field

from msgspec.structs import replace

from gradviz.graph.model import Graph
from gradviz.graph.query.operation_names import constant_names
from gradviz.rendering.formats import Subject
from gradviz.rendering.look.color_by import QUANTITY_WORDS, Measured, common_scale, measured, was_measured
from gradviz.rendering.look.color_ramps import STEPS, Quantity
from gradviz.rendering.look.geometry import Rect
from gradviz.rendering.look.node_label import SMALL_SIZE, NodeLabel, TextLine, badge_width, line_width
from gradviz.rendering.look.node_label_positions import positioned_words
from gradviz.rendering.look.palette import ROLE_STYLES
from gradviz.rendering.look.scales import Scale
from gradviz.rendering.look.shapes import inner_lines, outline
from gradviz.rendering.look.text_metrics import text_width
from gradviz.rendering.page.color_categories import PageCategories
from gradviz.rendering.page.document import Lines, PageChip, PageItem, PageLegend, PageLine
from gradviz.rendering.page.level import Level
from gradviz.rendering.svg.items import sheets_of
from gradviz.rendering.svg.legend import PLAIN_WORDS
from gradviz.rendering.words.flags import worst_finding
from gradviz.rendering.words.source_links import source_link
from gradviz.safe_text import printable
from gradviz.view.model import Item

MAX_NAMES = 400
"""Names that can be searched for, of all nodes that one item represents."""
MAX_CHARACTERS = 2000
"""A longer line is cut: the start of a name of a megabyte says enough."""
QUANTITIES: tuple[Quantity, ...] = ("gradient", "memory", "time")

Shape = tuple[str, ...]
Tints = dict[int, dict[str, Lines]]
"""By the number of an item and the name of the colouring."""


@dataclass
class PageItems:
    """Collects the items of a graph, level by level."""

    subject: Subject
    link_template: str | None
    _items: dict[int, PageItem] = field(default_factory=dict)
    _measured: dict[int, dict[Quantity, Measured]] = field(default_factory=dict)
    _shapes: dict[Shape, int] = field(default_factory=dict)
    _lines: dict[PageLine, int] = field(default_factory=dict)
    graph: Graph = field(init=False)
    _categories: PageCategories = field(init=False)
    _quantities: list[Quantity] = field(init=False)

    def __post_init__(self) -> None:
        self.graph = self.subject.graph
        self._categories = PageCategories(self.graph)
        # The figures of two runs have no common scale.
        is_of_one_run = self.subject.marks is None
        self._quantities = [by for by in QUANTITIES if is_of_one_run and was_measured(self.graph, by)]

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Every outline, with the lines inside it and the sheets behind it."""
        return tuple(self._shapes)

    @property
    def lines(self) -> tuple[PageLine, ...]:
        """All lines on items; many items have the same."""
        return tuple(self._lines)

    def add(self, level: Level) -> None:
        """Add the items that a level shows first."""
        self._categories.add(level)
        for item in level.closed:
            number = level.number(item.id)
            self._items[number] = self._page_item(level, item)
            self._measured[number] = {by: measured(level.facts, item, by) for by in self._quantities}
        self._add_boxes_with_each(level)

    def _add_boxes_with_each(self, level: Level) -> None:
        """A closed box that can show each repetition looks as it does when it shows only the first one."""
        for item in level.showing_each:
            number = level.number(item.id)
            run = level.identities.runs[number]
            self._items[number] = replace(self._items[run], each_of=run)
            self._measured[number] = self._measured[run]

    def finished(
        self, shown_first: Set[int]
    ) -> tuple[tuple[PageItem, ...], tuple[dict[str, Lines], ...], dict[str, PageLegend]]:
        """All items in the order of their numbers, all combinations of tints, and the legends.

        The scales hold the figures of the items that are `shown_first`: those of folded ones, which can be smaller by
        many decades, would leave one colour for everything that is seen.
        """
        tints, legends = self._tints(shown_first)
        numbered: dict[tuple[tuple[str, Lines], ...], int] = {}
        items = tuple(
            replace(
                self._items[number],
                tints=numbered.setdefault(tuple(tints[number].items()), len(numbered)),
                figures={by: each.figure for by, each in self._measured[number].items() if each.figure},
                numbers={by: each.largest for by, each in self._measured[number].items() if each.largest is not None},
            )
            for number in sorted(self._items)
        )
        return items, tuple(map(dict, numbered)), legends

    def _tints(self, shown_first: Set[int]) -> tuple[Tints, dict[str, PageLegend]]:
        tints: Tints = {number: {} for number in self._items}
        legends: dict[str, PageLegend] = {}
        for by in QUANTITIES:
            found = {number: own[by] for number, own in self._measured.items() if by in own}
            shown = common_scale((each for number, each in found.items() if number in shown_first), by)
            scale = shown or common_scale(found.values(), by)
            if scale is not None:
                for number, each in found.items():
                    tints[number][by] = each.tints(scale)
                legends[by] = _legend_of_scale(by, scale, tints)
        for category, tinted, legend in self._categories.finished():
            legends[category] = legend
            for number, own in tinted.items():
                tints[number][category] = own
        return tints, legends

    def _page_item(self, level: Level, item: Item) -> PageItem:
        node_label, text = level.node_labels[item.id], level.texts[item.id]
        lines, chips = _words(node_label)
        worst = worst_finding(level.facts, item)
        failed = self.graph.failed_node
        return PageItem(
            role=node_label.role,
            width=round(node_label.width, 1),
            height=round(node_label.height, 1),
            shape=self._shapes.setdefault(_shape(node_label), len(self._shapes)),
            title=cut(text.title),
            parent=level.number_of(item.parent),
            is_leaf=node_label.is_leaf,
            lines=tuple(self._lines.setdefault(line, len(self._lines)) for line in lines),
            chips=chips,
            subtitle=cut(text.subtitle),
            path=cut(text.path),
            shape_words=cut(text.shape),
            line=cut(text.line),
            source=text.source and (cut(text.source[0]), text.source[1]),
            link=(self.link_template and text.source and source_link(self.link_template, *text.source)) or "",
            names=tuple(_names(self.graph, item)),
            nodes=() if item.kind == "box" else item.nodes,
            node_count=len(item.nodes),
            repeat=item.repeat,
            finding="" if worst is None else worst.severity,
            is_failed=failed is not None and (item.node == failed or failed in item.nodes),
        )


def cut(text: str) -> str:
    """`text` as it can be shown: without control characters, and at most `MAX_CHARACTERS` long."""
    clean = printable(text)
    return clean if len(clean) <= MAX_CHARACTERS else f"{clean[:MAX_CHARACTERS]}…"


def _legend_of_scale(by: Quantity, scale: Scale, tints: Tints) -> PageLegend:
    """The steps, and the tints that are not on the scale if they appear."""
    present = {tint for own in tints.values() for tint in own.get(by, ())}
    others = (("plain", PLAIN_WORDS[by]), ("unknown", "not measured"), ("broken", "NaN or Inf"))
    steps = ((f"step{step}", "") for step in range(STEPS))
    log = ", log scale" if scale.is_log else ""
    words = f"{QUANTITY_WORDS[by]}: {scale.low_words} … {scale.high_words}{log}"
    ends = (scale.low, scale.high) if by == "gradient" else None
    return PageLegend(words, (*steps, *(other for other in others if other[0] in present)), is_scale=True, ends=ends)


def _shape(node_label: NodeLabel) -> Shape:
    front, behind = sheets_of(node_label, Rect(0, 0, node_label.width, node_label.height))
    shape = ROLE_STYLES[node_label.role].shape
    return outline(shape, front), inner_lines(shape, front), *(outline(shape, sheet) for sheet in behind)


def _words(node_label: NodeLabel) -> tuple[tuple[PageLine, ...], tuple[PageChip, ...]]:
    front, _ = sheets_of(node_label, Rect(0, 0, node_label.width, node_label.height))
    label_words = positioned_words(node_label, front)
    return (
        tuple(line_on(line, css_class, left, baseline) for line, css_class, left, baseline in label_words.lines),
        tuple(chip_on(chip.text, chip.left, chip.baseline, chip.level) for chip in label_words.chips),
    )


def chip_on(text: str, left: float, baseline: float, level: str = "") -> PageChip:
    """A chip as wide as its words."""
    return PageChip(text, round(left, 1), round(baseline, 1), round(badge_width(text), 1), level)


def line_on(line: TextLine, css_class: str, left: float, baseline: float) -> PageLine:
    """A line of a label with the left end of its baseline. Quiet words end where the line ends."""
    aside_x = left + line_width(line) - text_width(line.aside, SMALL_SIZE) if line.aside else 0.0
    return PageLine(line.text, css_class, round(left, 1), round(baseline, 1), line.aside, round(aside_x, 1))


def _names(graph: Graph, item: Item) -> Iterable[str]:
    """Names of tensors, and the modules that a row of repetitions represents."""
    names: dict[str, None] = {}
    if item.kind != "box":
        for node in item.nodes[:MAX_NAMES]:
            names.update(dict.fromkeys(graph.nodes[node].names))
        for constant in item.constants[:MAX_NAMES]:
            names.update(dict.fromkeys(constant_names(graph.constants[constant])))
    elif item.scope is not None:
        names.update(dict.fromkeys(_modules(graph, item, item.scope)))
    return [cut(name) for name in list(names)[:MAX_NAMES]]


def _modules(graph: Graph, item: Item, first: int) -> Iterator[str]:
    """The paths of all calls that a box represents."""
    last = first if item.last_scope is None else item.last_scope
    parent = graph.scopes[first].parent
    for scope in graph.scopes[first : last + 1]:
        if scope.parent == parent:
            yield scope.path
