"""The words on links: what flows there, if the items at its ends do not show it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from gradviz.graph.compilations import GraphBreak
from gradviz.graph.gradients import TensorFigures, at_index
from gradviz.graph.model import Graph, Node, TensorFacts
from gradviz.graph.query.operation_names import autograd_name, call_of
from gradviz.graph.query.own_line import line_words_of
from gradviz.graph.traversal import scopes_around
from gradviz.rendering.words.common_words import counted, full_tensor_words, listed, shape_words
from gradviz.rendering.words.gradient_tooltips import link_gradients
from gradviz.rendering.words.gradient_words import LinkGradients
from gradviz.rendering.words.item_words import ItemText
from gradviz.rendering.words.repetition_shapes import is_of_several
from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.rendering.words.value_words import link_numbers
from gradviz.view.model import Item, Link

MAX_CALLS = 3
"""The maximum number of calls named on the path from a cut to a root."""
_SEPARATORS = re.compile(" · |× ")
"""Between the shape of an item and its other facts."""


@dataclass(frozen=True, slots=True)
class LinkText:
    """The words of one link."""

    label: str = ""
    """``width``, ``output 1``, ``hidden [8, 64]``; empty if the items at both ends show it."""
    tooltip: tuple[str, ...] = ()
    """All facts, one on each line."""


def link_texts(facts: SubjectFacts, gradients: LinkGradients, texts: Sequence[ItemText]) -> tuple[LinkText, ...]:
    """The words for every link of a view, in order; `texts` are those of its items."""
    words = LinkWords(facts, gradients, texts)
    return tuple(map(words.of, facts.view.links))


class LinkWords:
    """The words for links, one by one."""

    def __init__(self, facts: SubjectFacts, gradients: LinkGradients, texts: Sequence[ItemText]) -> None:
        """`texts` are those of the items of the view, in order."""
        self._facts, self._gradients, self._texts = facts, gradients, texts

    def of(self, link: Link) -> LinkText:
        """The words for one link."""
        source, target = self._texts[link.source], self._texts[link.target]
        ends = f"{source.path or source.title} → {target.path or target.title}"
        if link.node is None:
            return LinkText(_dead_words(self._facts, link), (ends, "no gradient flows here"))
        flow = _flow_along(self._facts, link, link.node)
        tooltip = tuple(line for line in _tooltip(link, flow) if line != target.title)
        branches = self._gradients.along(link)
        numbers = link_numbers(flow.value, branches, is_needed=flow.is_one_of_several and link.edge_count == 1)
        broken = _graph_break_along(self._facts, link, flow)
        label = "  ".join(filter(None, (_place_of(broken), _label(self._facts, link, flow, source), numbers)))
        return LinkText(label, (ends, *tooltip, *_break_words(broken), *link_gradients(link, branches)))


def _dead_words(facts: SubjectFacts, link: Link) -> str:
    """Name and shape of the tensor that an operation took after a cut: it may have been computed from the cut tensor.

    For a refused root: the calls that computed it, which made no nodes.
    """
    source, target = facts.view.items[link.source], facts.view.items[link.target]
    if source.kind != "cut" or source.cut_edge is None:
        return ""
    edges, nodes = facts.graph.cut_edges, frozenset(target.nodes)
    origin = edges[source.cut_edge].origin
    if target.kind == "refused":
        path = next(edge.path for edge in edges if edge.origin == origin and edge.refused == target.refused)
        return f"through {listed(path, MAX_CALLS)}" if path else ""
    taken = (
        facts.graph.constants[edge.constant]
        for edge in edges
        if edge.constant is not None and edge.node in nodes and edge.origin == origin
    )
    constant = next(taken, None)
    return "" if constant is None else " ".join((*constant.names[:1], shape_words(constant.tensor)))


@dataclass(frozen=True, slots=True)
class _Flow:
    """What flows along a link: one output of a node, through views that are not drawn."""

    node: Node
    maker: Node
    """The operation before the views; `node` itself if there are none."""
    output_nr: int
    views: tuple[Node, ...]

    @property
    def tensor(self) -> TensorFacts | None:
        output_nr = 0 if self.views else self.output_nr
        return self.node.output(output_nr)

    @property
    def value(self) -> TensorFigures | None:
        output_nr = 0 if self.views else self.output_nr
        return at_index(self.node.values, output_nr)

    @property
    def name(self) -> str:
        output_nr = 0 if self.views else self.output_nr
        return next(iter(self.node.names_at(output_nr)), "")

    @property
    def is_one_of_several(self) -> bool:
        used = (tensor for tensor in self.maker.outputs if tensor is not None)
        return len(list(islice(used, 2))) > 1


def _flow_along(facts: SubjectFacts, link: Link, last: int) -> _Flow:
    """Follow the views at the end of a link back to the operation that its source shows.

    Views that the target makes for itself, as a batched matmul does, are part of the target.
    """
    nodes, items = facts.graph.nodes, facts.view.items
    views: list[Node] = []
    node, output_nr = nodes[last], link.output_nr
    while not _is_shown_by(items[link.source], node):
        edge = node.edges[0] if node.edges else None
        if edge is None:
            return _Flow(nodes[last], nodes[last], link.output_nr, ())
        if views or not _is_made_by(facts.graph, items[link.target], node):
            views.append(node)
        node, output_nr = nodes[edge.target], edge.input_nr
    return _Flow(views[0] if views else node, node, output_nr, tuple(reversed(views)))


def _is_made_by(graph: Graph, item: Item, view: Node) -> bool:
    """Whether a view belongs to the call of an operation, or to the module call of a box."""
    if item.kind != "box":
        return item.node is not None and call_of(graph.nodes[item.node]) == call_of(view)
    return item.scope is not None and item.scope in scopes_around(graph.scopes, view.scope)


def _is_shown_by(item: Item, node: Node) -> bool:
    return node.id == item.node if item.node is not None else node.id in item.nodes


def _label(facts: SubjectFacts, link: Link, flow: _Flow, source: ItemText) -> str:
    """Roots show their own shape; links of repetitions that differ in shape have none; a parameter changes at most by
    the transpose that belongs to its operation."""
    items = facts.view.items
    if items[link.target].kind == "root" or flow.maker.kind == "parameter" or is_of_several(source.shape):
        return ""
    shape, said = shape_words(flow.tensor), _SEPARATORS.split(source.shape)
    is_worth_naming = flow.is_one_of_several and items[link.source].kind == "node"
    which = ", ".join(_output_words(flow, _outputs_taken(facts, link, flow))) if is_worth_naming else ""
    is_news = shape not in said
    name = flow.name if is_news and flow.name not in (source.title, source.name) else ""
    return " ".join(filter(None, (which or name, shape if is_news else "")))


def _graph_break_along(facts: SubjectFacts, link: Link, flow: _Flow) -> GraphBreak | None:
    """The graph break behind which a link goes on: it leaves a region that ends there."""
    region = flow.maker.region
    target = facts.view.items[link.target]
    if region is None or target.kind == "root":
        return None
    nodes = facts.graph.nodes
    goes_on = any(nodes[each].region == region for each in target.nodes)
    return None if goes_on else facts.graph.regions[region].graph_break


def _place_of(broken: GraphBreak | None) -> str:
    if broken is None:
        return ""
    return "graph break" if broken.is_of_torch or not broken.line else f"graph break, line {broken.line}"


def _break_words(broken: GraphBreak | None) -> Iterator[str]:
    if broken is not None:
        where = f" at {line_words_of(broken.file, broken.line)}" if broken.line else ""
        yield f"graph break of torch.compile{where}: {broken.reason.partition(chr(10))[0]}"


def _outputs_taken(facts: SubjectFacts, link: Link, flow: _Flow) -> list[int]:
    """The outputs that flow along a link: one operation may use several outputs of another."""
    target = facts.view.items[link.target].node
    if link.edge_count == 1 or target is None:
        return [flow.output_nr]
    edges = (edge for edge in facts.graph.nodes[target].edges if edge is not None)
    taken = sorted({edge.input_nr for edge in edges if edge.target == flow.maker.id})
    return taken or [flow.output_nr]


def _output_words(flow: _Flow, output_nrs: Sequence[int]) -> Iterator[str]:
    """The names of outputs in the program, or their numbers."""
    names = {tensor.output_nr: tensor.names[0] for tensor in reversed(flow.maker.held) if tensor.names}
    for output_nr in output_nrs:
        yield names.get(output_nr, f"output {output_nr}")


def _tooltip(link: Link, flow: _Flow) -> Iterator[str]:
    if flow.name:
        yield flow.name
    if flow.tensor is not None:
        yield full_tensor_words(flow.tensor)
    if flow.is_one_of_several:
        yield f"output {flow.output_nr} of {autograd_name(flow.maker)}"
    if flow.views:
        yield f"through {listed([autograd_name(view) for view in flow.views])}"
    if link.edge_count > 1:
        yield f"stands for {counted(link.edge_count, 'edge')}"
