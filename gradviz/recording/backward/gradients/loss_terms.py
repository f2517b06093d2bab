"""Finds the losses of a backward call: its roots, or the terms of the sum if there is only one root.

A sum is followed from the root through sums, means of a `torch.stack`, and factors: in ``loss = (ce + 0.1 * kl) /
steps`` the terms are ``ce`` and ``kl``. A term that a variable holds is not split further.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import torch

from gradviz.graph.model import Edge, Graph
from gradviz.graph.query.operation_names import node_word
from gradviz.graph.query.own_line import line_words, own_lines
from gradviz.graph.query.root_names import root_names
from gradviz.graph.root_shares import LossTerm
from gradviz.recording.backward.gradients.gradient_sums import Slot
from gradviz.recording.walk.graph_walker import Walk

MAX_LOSSES = 8
"""Each costs a backward. Further losses are combined into one."""

_SUMS = frozenset({"AddBackward0", "SubBackward0", "StackBackward0", "CatBackward0"})
_FACTORS = frozenset({"MulBackward0", "DivBackward0", "NegBackward0", "ToCopyBackward0", "CloneBackward0"})
_SUMS_OF_MANY = frozenset({"SumBackward0", "SumBackward1", "MeanBackward0", "MeanBackward1"})


class Start(NamedTuple):
    """Where the backward of a loss starts, and with which gradient."""

    slot: Slot
    gradient: torch.Tensor


@dataclass
class Loss:
    """One loss, and where its backward starts."""

    name: str
    call_site: int | None
    starts: list[Start] = field(default_factory=list)

    @property
    def term(self) -> LossTerm:
        return LossTerm(self.name, tuple(dict.fromkeys(start.slot[0] for start in self.starts)), self.call_site)


def losses_of(walk: Walk, graph: Graph, gradients: Sequence[Any]) -> list[Loss]:
    """The losses of a call that starts at the graph's roots with these gradients; fewer than two cannot be compared.

    Runs without grad mode. Only nodes of sums and factors are called; no hook runs.
    """
    starts = [
        Start((root.node, root.output_nr), gradient) for root, gradient in zip(graph.roots, gradients, strict=False)
    ]
    if len(starts) > 1:
        sites = [graph.nodes[start.slot[0]].call_site for start in starts]
        named = zip(root_names(graph), sites, starts, strict=True)
        return _few([Loss(name, site, [start]) for name, site, start in named])
    return _few(_grouped(graph, _Sum(walk, graph).terms(starts[0]))) if starts else []


class _Sum:
    """The sum that a root is."""

    def __init__(self, walk: Walk, graph: Graph) -> None:
        self._walk = walk
        self._graph = graph
        self._uses = Counter(edge.target for edges in walk.edges for edge in edges if edge is not None)

    def terms(self, root: Start) -> Iterator[Start]:
        """The terms in the order of the program's text."""
        waiting = [root]
        while waiting:
            start = waiting.pop()
            parts = self._parts(start, is_root=start is root)
            if parts:
                waiting.extend(reversed(parts))
            else:
                yield start

    def _parts(self, start: Start, *, is_root: bool) -> list[Start]:
        """The terms that a node adds up, with the gradient that it sends to each; empty if it is a term itself."""
        node = self._graph.nodes[start.slot[0]]
        if node.hooks or len(node.outputs) != 1 or self._uses[node.id] > (not is_root):
            return []
        if not is_root and node.names_at(start.slot[1]):
            return []
        edges = [edge for edge in node.edges if edge is not None]
        is_opened = (
            (node.name in _SUMS and all(map(self._is_number, edges)))
            or (node.name in _FACTORS and len(edges) == 1 and self._is_number(edges[0]))
            or (node.name in _SUMS_OF_MANY and len(edges) == 1 and self._is_stack(edges[0]))
        )
        if not is_opened:
            return []
        sent = self._walk.wrappers[node.id](start.gradient)
        sent = sent if isinstance(sent, tuple) else (sent,)
        return [
            Start((edge.target, edge.input_nr), gradient)
            for edge, gradient in zip(node.edges, sent, strict=True)
            if edge is not None and gradient is not None
        ]

    def _is_number(self, edge: Edge) -> bool:
        facts = self._graph.nodes[edge.target].output(edge.input_nr)
        return facts is not None and prod(size for size in facts.shape if isinstance(size, int)) == 1

    def _is_stack(self, edge: Edge) -> bool:
        node = self._graph.nodes[edge.target]
        return node.name in _SUMS and all(self._is_number(each) for each in node.edges if each is not None)


def _grouped(graph: Graph, terms: Iterator[Start]) -> list[Loss]:
    """One loss for all terms of the same name, or from the same operation on the same line, such as a loop makes."""
    lines = own_lines(graph)
    groups: dict[tuple[str, int | None], Loss] = {}
    for start in terms:
        node = graph.nodes[start.slot[0]]
        name = next(iter(node.names_at(start.slot[1])), None)
        site = None if node.call_site is None else lines[node.call_site]
        key = (name, None) if name else (node_word(node), site)
        loss = groups.setdefault(key, Loss(key[0], site))
        loss.starts.append(start)
    _make_names_distinct(graph, list(groups.values()))
    return list(groups.values())


def _make_names_distinct(graph: Graph, losses: list[Loss]) -> None:
    """Losses of one name are named by their input, ``sum of pow``, by their line, or else are numbered."""
    for name_of in (_with_its_input, _with_its_line):
        words = Counter(loss.name for loss in losses)
        alike = [loss for loss in losses if words[loss.name] > 1]
        for loss in alike:
            loss.name = name_of(graph, loss)
    words = Counter(loss.name for loss in losses)
    numbers: Counter[str] = Counter()
    for loss in losses:
        if words[loss.name] > 1:
            numbers[loss.name] += 1
            loss.name = f"{loss.name} #{numbers[loss.name]}"


def _with_its_input(graph: Graph, loss: Loss) -> str:
    node = graph.nodes[loss.starts[0].slot[0]]
    edge = next((edge for edge in node.edges if edge is not None), None)
    if edge is None:
        return loss.name
    source = graph.nodes[edge.target]
    return f"{loss.name} of {next(iter(source.names_at(edge.input_nr)), None) or node_word(source)}"


def _with_its_line(graph: Graph, loss: Loss) -> str:
    return loss.name if loss.call_site is None else f"{loss.name} at {line_words(graph.call_sites[loss.call_site])}"


def _few(losses: list[Loss]) -> list[Loss]:
    """The losses; if there are many, those in one list are combined, and then the last ones."""
    if len(losses) <= MAX_LOSSES:
        return losses
    lists: dict[str, Loss] = {}
    for loss in losses:
        one = lists.setdefault(loss.name.partition("[")[0], Loss(loss.name.partition("[")[0], loss.call_site))
        one.starts.extend(loss.starts)
    few = list(lists.values())
    if len(few) > MAX_LOSSES:
        others = few[MAX_LOSSES - 1 :]
        rest = Loss(f"{len(others)} others", None, [start for loss in others for start in loss.starts])
        few = [*few[: MAX_LOSSES - 1], rest]
    return few
