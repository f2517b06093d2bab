"""``--color-by``: colours for items by kind of operation, gradient, memory, time or module, and the scale of them.

An item has one *tint* for each repetition that it represents, so that a fade within twelve layers drawn once is
visible. `ink_of` returns the colours of a tint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from gradviz.analysis.flow.gradient_flow import has_gradients
from gradviz.analysis.memory.kept_memory import keeps_unknown, kept_bytes
from gradviz.analysis.numbers.gradient_origins import BROKEN, state_of
from gradviz.errors import BadInput
from gradviz.graph.model import Graph
from gradviz.graph.number_words import seconds_words
from gradviz.graph.query.engine_times import has_own_time
from gradviz.graph.query.operation_kinds import OperationKind, kind_of_operation, kind_of_several
from gradviz.graph.query.root_names import why_it_did_not_begin
from gradviz.rendering.formats import Subject
from gradviz.rendering.look.color_ramps import CATEGORIES, COLOURED_KINDS, STEPS, ColorBy, Ink, Quantity
from gradviz.rendering.look.node_label import NodeLabel, node_labels_of, tinted
from gradviz.rendering.look.palette import Theme
from gradviz.rendering.look.scales import Scale, scale_for
from gradviz.rendering.words.difference_words import FIRST_DIFFERENCE, NODE_STATES, common_state, marks_in
from gradviz.rendering.words.gradient_words import (
    STATE_WORDS,
    Gradients,
    arrived_by_repetition,
    gradient_words,
    norm_of,
)
from gradviz.rendering.words.item_words import ItemText
from gradviz.rendering.words.memory_words import kept_words
from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.view.model import CUT_KINDS, Item, View

Tint = str
"""``step3``, ``category1``, ``others``, ``plain``, ``unknown`` or ``broken``; also its class in style sheets."""
Reading = float | Tint
"""A measured figure, or the tint of an item that is not on the scale."""

QUANTITY_WORDS: dict[Quantity, str] = {
    "gradient": "norm of the gradient that arrived",
    "memory": "kept in memory for backward",
    "time": "engine time",
}


@dataclass(frozen=True)
class Colouring:
    """The colours of the items of one view."""

    by: ColorBy | Literal["state"]
    """``state`` is not the user's choice: a graph of two runs is coloured by what differs."""
    tints: tuple[tuple[Tint, ...], ...]
    """For each item, one tint or one for each repetition that it represents; none for an open box, for a root, and
    where the colours of its role stay."""
    figures: tuple[str, ...]
    """For each item, the measured figure in words; empty if there is none."""
    scale: Scale | None = None
    categories: tuple[tuple[Tint, str], ...] = field(default=())
    """Tints without an order, with their names."""

    @property
    def present(self) -> set[Tint]:
        """Every tint that appears."""
        return {tint for tints in self.tints for tint in tints}

    @property
    def legend(self) -> list[tuple[Tint, str]]:
        """Tints and their words, in order, for formats whose legend is a list. Of a scale, the two ends."""
        entries = list(self.categories)
        if self.by in QUANTITY_WORDS and self.scale is not None:
            what = QUANTITY_WORDS[self.by]
            entries += [("step0", f"{what}: {self.scale.low_words}"), (f"step{STEPS - 1}", self.scale.high_words)]
        others = (("unknown", "not measured"), ("broken", "NaN or Inf"))
        return entries + [other for other in others if other[0] in self.present]

    @property
    def keeps_roles(self) -> bool:
        """Whether items without a tint have the colours of their roles, which legends must then explain."""
        return self.by == "kind"

    def with_figures(self, view: View, texts: Sequence[ItemText]) -> tuple[ItemText, ...]:
        """The words of items, with their figures."""
        return tuple(
            _with_figure(item, text, figure) for item, text, figure in zip(view.items, texts, self.figures, strict=True)
        )


def colouring_of(subject: Subject, by: ColorBy) -> Colouring | None:
    """The colouring by `by`; None for the colours of roles. Raises `BadInput` if its figures were not recorded."""
    facts = subject.facts
    if facts.marks is not None:
        return _colouring_by_state(facts)
    if by == "none":
        return None
    if by == "kind":
        return _colouring_by_kind(facts)
    if by == "module":
        categories, chosen = module_categories(facts)
        tints: tuple[tuple[Tint, ...], ...] = tuple(
            () if item.is_open or item.root is not None else (tint or "plain",)
            for item, tint in zip(subject.view.items, chosen, strict=True)
        )
        return Colouring(by, tints, ("",) * len(tints), categories=categories)
    check_that_it_was_measured(subject.graph, by)
    found = [measured(facts, item, by) for item in subject.view.items]
    scale = common_scale(found, by)
    return Colouring(by, tuple(each.tints(scale) for each in found), tuple(each.figure for each in found), scale)


@dataclass(frozen=True, slots=True)
class Measured:
    """The measured figures of one item, one for each repetition that it represents, and the same in words."""

    readings: tuple[Reading, ...] = ()
    figure: str = ""

    @property
    def largest(self) -> float | None:
        """The largest figure; None if nothing was measured."""
        return max((reading for reading in self.readings if not isinstance(reading, str)), default=None)

    def tints(self, scale: Scale | None) -> tuple[Tint, ...]:
        """The tints of the figures on a scale."""
        return tuple(_tint(reading, scale) for reading in self.readings)


def measured(facts: SubjectFacts, item: Item, by: Quantity) -> Measured:
    """The measured figures of `item`; none for an open box, and no tint for a root."""
    if item.is_open:
        return Measured()
    readings = () if item.root is not None else _MEASURES[by](facts, item)
    return Measured(readings, _IN_WORDS[by](facts, item, readings))


def common_scale(found: Iterable[Measured], by: Quantity) -> Scale | None:
    """A scale that holds all measured figures."""
    return scale_for(by, [reading for each in found for reading in each.readings if not isinstance(reading, str)])


def drawn_colouring(
    subject: Subject, by: ColorBy, texts: tuple[ItemText, ...]
) -> tuple[Colouring | None, tuple[NodeLabel, ...]]:
    """The colouring and the node labels of a view whose items have these words."""
    colouring = colouring_of(subject, by)
    if colouring is None:
        return None, node_labels_of(subject.graph, subject.view, texts)
    node_labels = node_labels_of(subject.graph, subject.view, colouring.with_figures(subject.view, texts))
    return colouring, tinted(node_labels, colouring.tints)


def middle_tint(node_label: NodeLabel) -> Tint | None:
    """The only tint of an item, or the middle one; None if it has the colours of its role."""
    return node_label.tints[len(node_label.tints) // 2] if node_label.tints else None


def ink_of(tint: Tint, by: ColorBy | Literal["state"], theme: Theme) -> Ink:
    """The colours of a tint."""
    tints = theme.tints
    if by == "state":
        return _state_ink(tint, theme)
    if tint == "broken":
        return theme.failed
    if tint.startswith("step") and by in ("gradient", "memory", "time"):
        return tints.ramps[by][int(tint.removeprefix("step"))]
    if tint.startswith("category"):
        inks = tints.kinds if by == "kind" else tints.categories
        return inks[int(tint.removeprefix("category"))]
    if tint == "others":
        return tints.others
    return tints.unknown if tint == "unknown" else tints.plain


_HOW_TO_MEASURE = "record a script that calls backward(), or use gradviz.inspect(...).backward()"
_HOW_TO_RECORD = "record it again without --no-gradients"


def was_measured(graph: Graph, by: Quantity) -> bool:
    """Whether the figures for this colouring were recorded with the graph."""
    return graph.knows_saved_tensors if by == "memory" else has_gradients(graph)


def check_that_it_was_measured(graph: Graph, by: Quantity) -> None:
    """Raise `BadInput` if they were not."""
    if was_measured(graph, by):
        return
    if by == "memory":
        raise BadInput("this was recorded before gradviz looked at saved tensors", hint="record it again")
    refusal = why_it_did_not_begin(graph)
    if refusal is not None:
        raise BadInput(f"nothing can be coloured by {by}, as {refusal}", hint="gradviz check says why")
    what = "gradients" if by == "gradient" else "engine times"
    raise BadInput(
        f"no {what} were recorded with this graph, so nothing can be coloured by {by}",
        hint=_HOW_TO_MEASURE if graph.backward is None else _HOW_TO_RECORD,
    )


def _tint(reading: Reading, scale: Scale | None) -> Tint:
    if isinstance(reading, str):
        return reading
    return f"step{scale.step(reading)}" if scale is not None and reading > 0 else "plain"


def _gradients(facts: SubjectFacts, item: Item) -> tuple[Reading, ...]:
    if item.kind in ("constant", "carried", *CUT_KINDS):
        return ("plain",)
    return tuple(_gradient(arrived) for arrived in arrived_by_repetition(facts, item)) or ("unknown",)


def _gradient(arrived: Gradients) -> Reading:
    state, norm = state_of(arrived), norm_of(arrived)
    if state in BROKEN:
        return "broken"
    return "unknown" if state is None or norm is None else norm


def _bytes(facts: SubjectFacts, item: Item) -> tuple[Reading, ...]:
    size = kept_bytes(facts.graph, item.nodes)
    return ("unknown",) if not size and keeps_unknown(facts.graph, item.nodes) else (float(size),)


def _seconds(facts: SubjectFacts, item: Item) -> tuple[Reading, ...]:
    if not item.nodes:
        return ("plain",)
    ran = [node for node in (facts.graph.nodes[node] for node in item.nodes) if node.run is not None]
    if not ran or not all(map(has_own_time, ran)):
        return ("unknown",)
    return (sum(node.run.seconds for node in ran if node.run is not None),)


def _gradient_in_words(facts: SubjectFacts, item: Item, _readings: Sequence[Reading]) -> str:
    return gradient_words(facts, item)


def _bytes_in_words(facts: SubjectFacts, item: Item, _readings: Sequence[Reading]) -> str:
    return kept_words(facts.graph, item.nodes)


def _seconds_in_words(_facts: SubjectFacts, _item: Item, readings: Sequence[Reading]) -> str:
    return "".join(seconds_words(seconds) for seconds in readings if not isinstance(seconds, str))


_MEASURES: dict[Quantity, Callable[[SubjectFacts, Item], tuple[Reading, ...]]] = {
    "gradient": _gradients,
    "memory": _bytes,
    "time": _seconds,
}
_IN_WORDS: dict[Quantity, Callable[[SubjectFacts, Item, Sequence[Reading]], str]] = {
    "gradient": _gradient_in_words,
    "memory": _bytes_in_words,
    "time": _seconds_in_words,
}


_SHOWN_BY_FLAGS = frozenset(STATE_WORDS.values())


def _with_figure(item: Item, text: ItemText, figure: str) -> ItemText:
    if not figure or (text.flag is not None and figure in _SHOWN_BY_FLAGS):
        return text
    return replace(text, figure=pill_words(item.repeat, figure))


def pill_words(repeat: int, figure: str) -> str:
    """``×12 · 0.0312``: what stands beside a title in place of the number of parameters; empty without a figure."""
    return f"×{repeat:,} · {figure}" if figure and repeat > 1 else figure


# Colours by kind of operation.

KIND_WORDS: dict[OperationKind, str] = {
    "linear": "linear, matmul, recurrent",
    "pooling": "pooling, resampling",
    "elementwise": "elementwise, reduction",
}
"""Kinds whose name in the legend says more than their own."""


def _colouring_by_kind(facts: SubjectFacts) -> Colouring | None:
    """None if no item has a kind with a colour."""
    tints = tuple(kind_tints(facts, item) for item in facts.view.items)
    present = {tint for own in tints for tint in own}
    categories = tuple((tint, words) for tint, words in KIND_CATEGORIES if tint in present)
    return Colouring("kind", tints, ("",) * len(tints), categories=categories) if categories else None


KIND_CATEGORIES: tuple[tuple[Tint, str], ...] = tuple(
    (f"category{index}", KIND_WORDS.get(kind, kind)) for index, kind in enumerate(COLOURED_KINDS)
)
"""The tint of each kind with a colour of its own, and its words in legends."""


def kind_tints(facts: SubjectFacts, item: Item) -> tuple[Tint, ...]:
    """The tint of an item by its kind; none where the colours of its role stay: on leaves, roots, custom functions and
    boxes that hold several kinds."""
    nodes = facts.graph.nodes
    if item.is_open or item.kind not in ("box", "node"):
        return ()
    is_box = item.kind == "box" or item.node is None
    kind = _kind_of_box(facts, item) if is_box else kind_of_operation(nodes[item.node or 0])
    if kind not in COLOURED_KINDS:
        return ()
    return (f"category{COLOURED_KINDS.index(kind)}",)


def _kind_of_box(facts: SubjectFacts, item: Item) -> OperationKind | None:
    """The kind of a box; of a module whose class is named so, normalisation: ``LlamaRMSNorm`` computes it by hand."""
    scope = None if item.scope is None else facts.graph.scopes[item.scope]
    if scope is not None and scope.kind == "module" and scope.class_name.endswith("Norm"):
        return "normalisation"
    return kind_of_several(facts.graph.nodes[node] for node in item.nodes)


# Colours by module.

MAX_ALIKE = 3
"""Names of modules with the same colour in the legend."""


def module_categories(facts: SubjectFacts) -> tuple[tuple[tuple[Tint, str], ...], list[Tint | None]]:
    """The colours of module paths with the paths, and the tint of each item.

    The paths are as long as they can be without becoming too many. If even their first names are too many, the colours
    are dealt in the order of the computation, again and again, so that neighbours always differ. A box that represents
    several modules is counted by its first one, with which its other ones are drawn.
    """
    paths = [_path(facts, item) for item in facts.view.items]
    sizes = _sizes(facts)
    depth = _depth(sizes)
    names = list(dict.fromkeys(_head(path, depth) for path in sizes))
    tints = {name: f"category{index % CATEGORIES}" for index, name in enumerate(names)}
    legend = tuple((f"category{index}", _alike_in_words(names[index::CATEGORIES])) for index in range(CATEGORIES))
    modules = (None if path is None else _head(path, depth) for path in paths)
    tinted = [None if module is None else tints.get(module, "others") for module in modules]
    more = (("others", "other modules"),) if "others" in tinted else ()
    return (*(entry for entry in legend if entry[1]), *more), tinted


def _alike_in_words(names: Sequence[str]) -> str:
    """``h.0, h.8, h.16 and 4 more``."""
    more = f" and {len(names) - MAX_ALIKE:,} more" if len(names) > MAX_ALIKE else ""
    return f"{', '.join(names[:MAX_ALIKE])}{more}"


def _sizes(facts: SubjectFacts) -> Counter[str]:
    """The number of nodes that each module call made, by path, in the order of the computation."""
    scopes = facts.graph.scopes
    found: Counter[str] = Counter()
    for node in facts.graph.nodes:
        if node.scope is not None and scopes[node.scope].kind == "module":
            found[scopes[node.scope].path] += 1
    return found


def _depth(paths: Sequence[str] | Counter[str]) -> int:
    """How many names of each path to keep: as many as the number of colours allows, but at least two."""
    deepest = max((path.count(".") + 1 for path in paths), default=1)
    counts = [len({_head(path, depth) for path in paths}) for depth in range(1, deepest + 1)]
    fitting = [depth for depth, count in enumerate(counts, 1) if 1 < count <= CATEGORIES]
    return max(fitting, default=next((depth for depth, count in enumerate(counts, 1) if count > 1), 1))


def _head(path: str, depth: int) -> str:
    return ".".join(path.split(".")[:depth])


def _path(facts: SubjectFacts, item: Item) -> str | None:
    """The path of the module that an item belongs to; for a leaf, the module around it."""
    scopes = facts.graph.scopes
    scope = item.scope
    if scope is None and item.node is not None:
        scope = facts.graph.nodes[item.node].scope
    if scope is not None and scopes[scope].kind == "module":
        return scopes[scope].path
    return facts.enclosing_path(item) or None


# What differs between two runs.

_STATE_INKS = {"only_a": 1, "only_b": 0, "changed": 6}
"""Ochre, blue and violet, which users with any one colour blindness tell apart; outlines differ, too."""


def _colouring_by_state(facts: SubjectFacts) -> Colouring:
    tints = tuple(state_tints(facts, item) for item in facts.view.items)
    present = {tint for own in tints for tint in own}
    categories = tuple(entry for entry in STATE_CATEGORIES if entry[0] in present)
    return Colouring("state", tints, ("",) * len(tints), categories=categories)


STATE_CATEGORIES: tuple[tuple[Tint, str], ...] = (
    *NODE_STATES.items(),
    ("first", f"✗ {FIRST_DIFFERENCE}"),
    ("plain", "the same in both"),
)
"""The tint of each state, and its words in legends."""


def state_tints(facts: SubjectFacts, item: Item) -> tuple[Tint, ...]:
    """The tint of an item in a graph of two runs, by what differs; none for an open box and a root."""
    if item.is_open or item.root is not None:
        return ()
    if any(mark.is_first for mark in marks_in(facts, item)):
        return ("first",)
    return (common_state(facts, item) or "plain",)


def _state_ink(tint: Tint, theme: Theme) -> Ink:
    if tint == "first":
        return theme.failed
    return theme.tints.categories[_STATE_INKS[tint]] if tint in _STATE_INKS else theme.tints.unknown
