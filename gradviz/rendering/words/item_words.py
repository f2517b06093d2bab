"""Every word on an item, for all formats, so that two formats cannot use different names for the same thing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from gradviz.graph.model import CallSite, Constant, Node, RefusedRoot
from gradviz.graph.node_findings import CutEdge
from gradviz.graph.query.operation_names import autograd_name, constant_names, operation_word
from gradviz.graph.query.own_line import line_words
from gradviz.graph.query.root_names import refused_name
from gradviz.rendering.words import tooltips
from gradviz.rendering.words.box_words import box_badge, box_path, box_subtitle, box_title, relative_path
from gradviz.rendering.words.common_words import counted, listed, shape_words, short_line_words
from gradviz.rendering.words.flags import Flag, item_flag
from gradviz.rendering.words.repetition_shapes import carried_shapes, constant_shapes, leaving_shapes, operation_shapes
from gradviz.rendering.words.setting_words import setting_words
from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.rendering.words.value_words import item_numbers
from gradviz.view.model import Item


@dataclass(frozen=True, slots=True)
class ItemText:
    """The words of one item. All but the title may be empty."""

    title: str
    """The name in the user's terms: ``linear``, ``h.0 … h.11``, ``model.fc.weight``, ``loss``."""
    subtitle: str = ""
    """The autograd name or the class: ``AddmmBackward0``, ``GPT2Block``."""
    shape: str = ""
    """``[8, 64]``; with the dtype if it is not float32."""
    badge: str = ""
    """A short count: ``×12``, ``85.1M params``."""
    line: str = ""
    """The line of the user's code: ``train.py:41``."""
    tooltip: tuple[str, ...] = ()
    """All other facts, one on each line."""
    path: str = ""
    """For a module call, its title without a box around it: ``net.encoder.2 (call 2)``."""
    name: str = ""
    """The variable that holds the result of an operation: ``logits``."""
    source: tuple[str, int] | None = None
    """File and number of `line`."""
    short_line: str = ""
    """`line` if the script's name is above the picture: ``line 41``."""
    settings: str = ""
    """The arguments that decide what an operation does: ``dim=-1``."""
    flag: Flag | None = None
    """A finding, or a gradient that is zero, NaN or Inf."""
    numbers: str = ""
    """Its value and its gradient, if they are small and were recorded: ``↓ 10  ↑ 0.1``."""
    figure: str = ""
    """The measured figure, in a picture that is coloured by it."""
    says_it_twice: bool = False
    """Whether the subtitle says no more than the title: ``AddBackward0`` for ``add``."""
    line_is_said: bool = False
    """Whether the title of a box around it says the line."""


def item_texts(facts: SubjectFacts) -> tuple[ItemText, ...]:
    """The words for every item of a view, in order."""
    return tuple(item_text(facts, item) for item in facts.view.items)


class ItemTexts:
    """The same by the id of an item and without tooltips, for lines of text. They are made on request, because only a
    part of a large graph may be shown."""

    def __init__(self, facts: SubjectFacts) -> None:
        self._facts = facts
        self._known: dict[int, ItemText] = {}

    def __getitem__(self, item: int) -> ItemText:
        if item not in self._known:
            self._known[item] = item_label_text(self._facts, self._facts.view.items[item])
        return self._known[item]


def item_text(facts: SubjectFacts, item: Item) -> ItemText:
    """The words for one item."""
    tooltip = tuple(line for _, lines in item_sections(facts, item) for line in lines)
    return replace(item_label_text(facts, item), tooltip=tooltip)


def item_label_text(facts: SubjectFacts, item: Item) -> ItemText:
    """The same without the tooltip, which takes more time than the rest."""
    text, flag, numbers = _text_of(facts, item), item_flag(facts, item), item_numbers(facts, item)
    return text if flag is None and not numbers else replace(text, flag=flag, numbers=numbers)


def item_sections(facts: SubjectFacts, item: Item) -> Iterator[tooltips.Section]:
    """The tooltip of an item, under headings. A section without a heading says what the item is."""
    if item.kind == "carried":
        source, instead = (
            "" if of is None else _text_of(facts, facts.view.items[of]).title for of in (item.source, item.instead)
        )
        yield "", tooltips.carried(facts, item, source, instead)
    else:
        yield from tooltips.sections(facts, item)


def _text_of(facts: SubjectFacts, item: Item) -> ItemText:
    if item.kind == "box":
        return _box(facts, item)
    if item.kind == "constant":
        return _constant(facts, item)
    if item.kind == "root":
        return _root(facts, item)
    if item.kind == "refused":
        return _refused(facts, facts.graph.refused[item.refused or 0])
    if item.kind == "carried":
        return _carried(facts, item)
    if item.cut_edge is not None:
        edge = facts.graph.cut_edges[item.cut_edge]
        return _cut(facts, edge) if item.kind == "cut" else _cut_off(facts, item)
    assert item.node is not None, "an item of kind node has one"
    return _leaf(facts, item, item.node) if facts.graph.nodes[item.node].is_leaf else _operation(facts, item)


def _operation(facts: SubjectFacts, item: Item) -> ItemText:
    node = facts.graph.nodes[item.node or 0]
    title = facts.operation_title(node)
    return ItemText(
        title=title,
        subtitle=autograd_name(node),
        says_it_twice=title.rstrip("_") == operation_word(node.name),
        line_is_said=facts.line_is_said_around(item, node.call_site),
        badge=" · ".join(_peculiarities(node)),
        name=_variables(facts, facts.result_of(item, node)) or _variables(facts, node),
        shape=operation_shapes(facts, item, node),
        settings=setting_words(node),
        **_place(facts, node.call_site),
    )


def _variables(facts: SubjectFacts, node: Node) -> str:
    """The first name of each output of a node; a root shows its own name."""
    own = {root.name for root in facts.graph.roots if root.node == node.id}
    names = (next((name for name in tensor.names if name not in own), "") for tensor in node.held)
    return listed([name for name in names if name], 2)


def _peculiarities(node: Node) -> Iterator[str]:
    """What the program did with a tensor's gradient."""
    if any(tensor.retains_grad and not tensor.is_leaf for tensor in node.held):
        yield "retains grad"
    if node.hooks:
        yield counted(len(node.hooks), "hook")


def _other_rank(node: Node, direction: str) -> str:
    """``from rank 0``, ``to rank 1``, for the ends of a stage of a pipeline; empty for all other nodes."""
    return str(node.attributes.get(direction, "")).partition(",")[0]


def _gradient_from(node: Node) -> str:
    """``gradient from rank 1``, for a stage whose backward begins without the tensor that it sent."""
    rank = _other_rank(node, "gradient received")
    return rank and f"gradient {rank}"


def _leaf(facts: SubjectFacts, item: Item, node_id: int) -> ItemText:
    node = facts.graph.nodes[node_id]
    names = _nearest_first(facts, item, node.names)
    title = _within(facts, item, names[0]) if names else node.kind
    if names and title == names[0]:
        title = first_to_last([names[0], *_other_names(facts, item, node_id)])
    others = f" (= {_apart_from(names[0], names[1])}{', …' if names[2:] else ''})" if names[1:] else ""
    return ItemText(
        title=title + others,
        subtitle=autograd_name(node),
        badge=_other_rank(node, "received"),
        shape=_given_shape(facts, item, operation_shapes(facts, item, node)),
    )


def _other_names(facts: SubjectFacts, item: Item, node_id: int) -> list[str]:
    """The names of the other leaves that an item stands for, the one furthest away last."""
    nodes = item.nodes if item.nodes[:1] == (node_id,) else item.nodes[::-1]
    return [facts.graph.nodes[other].names[0] for other in nodes if other != node_id and facts.graph.nodes[other].names]


def first_to_last(names: Sequence[str]) -> str:
    """``weights['w0 … w18']``; only the first name where first and last differ in more than one word."""
    first, last = _WORDS.split(names[0]), _WORDS.split(names[-1])
    differing = [index for index, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]]
    if len(first) != len(last) or len(differing) != 1:
        return names[0]
    first[differing[0]] += f" … {last[differing[0]]}"
    return "".join(first)


_WORDS = re.compile(r"(\W+)")


def _nearest_first(facts: SubjectFacts, item: Item, names: Sequence[str]) -> list[str]:
    """The names of a tied parameter; the name in the module around the item is first."""
    path = facts.enclosing_path(item)
    return sorted(dict.fromkeys(names), key=lambda name: not (path and name.startswith(f"{path}.")))


def _apart_from(name: str, other: str) -> str:
    """`other` without the modules that it shares with `name`: ``lm_head.weight``."""
    shared = 0
    for one, another in zip(name.split(".")[:-1], other.split(".")[:-1], strict=False):
        if one != another:
            break
        shared += 1
    return ".".join(other.split(".")[shared:])


def _within(facts: SubjectFacts, item: Item, name: str) -> str:
    """A dotted name without the part that the box around it shows."""
    path = facts.enclosing_path(item)
    return relative_path(name, path) if path else name


def _constant(facts: SubjectFacts, item: Item) -> ItemText:
    constant = facts.graph.constants[item.constant or 0]
    words = {"data": "no gradient", "parameter": "frozen parameter", "buffer": "buffer"}[constant.kind]
    return ItemText(
        title=_within(facts, item, constant_names(constant)[0]),
        subtitle=_detached(constant) or words,
        shape=_given_shape(facts, item, constant_shapes(facts, item) or shape_words(constant.tensor)),
        settings="" if f"{constant.detached_from}.detach()" in constant_names(constant)[0] else _detached(constant),
    )


def _detached(constant: Constant) -> str:
    return f"detached from {constant.detached_from}" if constant.detached_from else ""


def _given_shape(facts: SubjectFacts, item: Item, shape: str) -> str:
    """The shape of a leaf or a constant, with a note if only the first repetition of a loop uses it."""
    first = "first only" if item.id in facts.only_first else ""
    return " · ".join(filter(None, (shape, first)))


def _root(facts: SubjectFacts, item: Item) -> ItemText:
    root = facts.graph.roots[item.root or 0]
    backward, node = facts.graph.backward, facts.graph.nodes[root.node]
    tensor = root.tensor or node.output(root.output_nr)
    return ItemText(
        title=facts.root_names[item.root or 0],
        badge=_other_rank(node, "sent") or _gradient_from(node),
        subtitle=f"{backward.function}()" if backward else "",
        shape=shape_words(tensor),
        **_place(facts, backward.call_site if backward else None),
    )


def _refused(facts: SubjectFacts, root: RefusedRoot) -> ItemText:
    backward = facts.graph.backward
    return ItemText(
        title=refused_name(root),
        subtitle="no grad_fn",
        settings="requires no grad",
        shape=shape_words(root.tensor),
        **_place(facts, backward.call_site if backward else None),
    )


def _carried(facts: SubjectFacts, item: Item) -> ItemText:
    """A result of an earlier repetition. Its name is that of its operation, because variables are reassigned."""
    assert item.source is not None, "something carried has a source"
    source = _text_of(facts, facts.view.items[item.source])
    return ItemText(
        title=_carried_title(source.title, item.repetitions_back),
        subtitle="from the repetition before" if item.repetitions_back == 1 else "from an earlier repetition",
        shape=carried_shapes(facts, facts.view.items[item.source], item.repetitions_back) or facts.shape_leaving(item),
    )


def _carried_title(source: str, repetitions_back: int) -> str:
    if repetitions_back == 1:
        return f"previous {source}"
    return f"{source}, {repetitions_back:,} repetitions ago" if repetitions_back else f"an earlier {source}"


def _cut(facts: SubjectFacts, edge: CutEdge) -> ItemText:
    return ItemText(
        title=edge.cut,
        subtitle="cuts the gradient",
        **_place_at(facts, CallSite(edge.file, edge.line) if edge.line else None),
    )


def _cut_off(facts: SubjectFacts, item: Item) -> ItemText:
    tensors = facts.cut_off_at(item)
    more = len(tensors) - 1
    return ItemText(
        title=_within(facts, item, tensors[0]) if tensors else "",
        settings=f"and {more:,} more" if more > 0 else "",
        subtitle="get no gradient" if more > 0 else "gets no gradient",
    )


def _box(facts: SubjectFacts, item: Item) -> ItemText:
    return ItemText(
        title=box_title(facts, item),
        subtitle=box_subtitle(facts, item),
        shape="" if item.is_open else leaving_shapes(facts, item),
        badge=box_badge(facts, item),
        path=box_path(facts, item),
        line_is_said=facts.line_is_said_around(item, facts.common_call_site(item)),
        **_place(facts, facts.common_call_site(item)),
    )


class _Place(TypedDict, total=False):
    """The three fields of `ItemText` for the location in the source."""

    line: str
    short_line: str
    source: tuple[str, int]


def _place(facts: SubjectFacts, call_site: int | None) -> _Place:
    return _place_at(facts, facts.own_site(call_site))


def _place_at(facts: SubjectFacts, site: CallSite | None) -> _Place:
    if site is None:
        return {}
    return {
        "line": line_words(site),
        "short_line": short_line_words(site, facts.capture.program.name),
        "source": (site.file, site.line),
    }
