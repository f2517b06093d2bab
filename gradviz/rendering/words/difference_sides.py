"""The facts about one node of a graph of two runs, for both runs side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isinf

from gradviz.analysis.diff.closeness import Apart, figures_apart
from gradviz.analysis.diff.merged_graph import Counterparts
from gradviz.analysis.diff.runs import Operand, Operation, Run
from gradviz.analysis.diff.wording import argument_name
from gradviz.analysis.memory.kept_memory import kept_bytes
from gradviz.graph.gradients import TensorFigures, at_index
from gradviz.graph.model import Node, TensorFacts
from gradviz.graph.number_words import byte_words, counted
from gradviz.graph.query.operation_names import autograd_name
from gradviz.rendering.words.common_words import shape_words_of

ABSENT = "–"


@dataclass(frozen=True, slots=True)
class SideRow:
    """One fact in both runs; without words of the sides, a fact about the two together."""

    what: str
    a: str = ""
    b: str = ""


class DifferenceSides:
    """Finds the facts of both runs for nodes of their merged graph."""

    def __init__(self, counterparts: Counterparts) -> None:
        self._counterparts = counterparts
        self._compared = counterparts.compared
        self._a = _Side(self._compared.a, counterparts.in_a)
        self._b = _Side(self._compared.b, counterparts.in_b)

    def of_node(self, node: int) -> Iterator[SideRow]:
        """Rows about one node; the facts that only one run has stand beside a dash."""
        a, b = self._a.facts_of(node), self._b.facts_of(node)
        for what in dict.fromkeys((*a, *b)):
            yield SideRow(what, a.get(what, ABSENT), b.get(what, ABSENT))
        operation = self._a.operation_of(node)
        if operation is not None and operation.index in self._compared.results:
            yield from _apart_row("results", self._compared.results[operation.index])
        arrived = self._a.arrived_at(node), self._b.arrived_at(node)
        yield from _apart_row("gradients", figures_apart(*arrived, self._compared.tolerance))

    def of_nodes(self, nodes: Iterable[int]) -> Iterator[SideRow]:
        """Rows about everything in a box."""
        members = list(nodes)
        counts = [side.counts_of(members) for side in (self._a, self._b)]
        for what in counts[0]:
            yield SideRow(what, counts[0][what], counts[1][what])
        pairs = {operation.index for node in members if (operation := self._a.operation_of(node)) is not None}
        differing = sum(self._compared.results[index].differs for index in pairs if index in self._compared.results)
        if differing:
            yield SideRow(f"{counted(differing, 'result')} in it differ in value")


def _apart_row(what: str, found: Apart) -> Iterator[SideRow]:
    if found.level == "same":
        yield SideRow(f"{what} are the same bit for bit" if found.distance == 0 else f"{what} are the same")
    elif found.differs and found.distance is not None:
        how_far = "not comparable" if isinf(found.distance) else f"{found.distance:.1e} of the norm apart"
        within = ", within the tolerance" if found.level == "rounding" else ""
        yield SideRow(f"{what} are {how_far}{within}")


class _Side:
    """One of the runs, asked by nodes of the merged graph."""

    def __init__(self, run: Run, own: Mapping[int, int]) -> None:
        self._run = run
        self._own = own

    def facts_of(self, merged: int) -> dict[str, str]:
        """By what they are about; empty if the run does not have the node."""
        node = self._node(merged)
        if node is None:
            return {}
        operation = self.operation_of(merged)
        return dict(self._facts(node, operation))

    def _facts(self, node: Node, operation: Operation | None) -> Iterator[tuple[str, str]]:
        yield "grad_fn", autograd_name(node)
        value = self._value_of_leaf(node) if operation is None else None
        result = operation.results[0] if operation is not None and operation.results else value
        facts = result.facts if result is not None and result.facts is not None else node.output(0)
        if operation is not None:
            yield "operation", operation.word
            line = self._run.line_words(operation)
            if line is not None:
                yield "line", line
            if path := self._run.module_path(operation):
                yield "module", path
        elif node.names:
            yield "name", node.names[0]
        if facts is not None:
            yield from _tensor_facts(facts)
        if operation is not None:
            for name, argument in operation.arguments.items():
                yield argument_name(name), str(argument)
        figures = result.figures if result is not None and result.figures is not None else at_index(node.values, 0)
        yield from _figures("value", figures)
        yield from _figures("gradient", at_index(node.arrived, 0))
        assert self._run.graph is not None
        size = kept_bytes(self._run.graph, (node.id,))
        if size:
            yield "kept for backward", byte_words(size)

    def counts_of(self, nodes: Iterable[int]) -> dict[str, str]:
        """What the run has of the content of a box."""
        own = [node for each in nodes if (node := self._node(each)) is not None]
        assert self._run.graph is not None
        return {
            "operations": f"{sum(not node.is_leaf for node in own):,}",
            "parameters": f"{sum(node.kind == 'parameter' for node in own):,}",
            "kept for backward": byte_words(kept_bytes(self._run.graph, tuple(node.id for node in own))),
        }

    def operation_of(self, merged: int) -> Operation | None:
        own = self._own.get(merged)
        index = None if own is None else self._run.operation_of_node.get(own)
        return None if index is None else self._run.operations[index]

    def arrived_at(self, merged: int) -> TensorFigures | None:
        node = self._node(merged)
        return None if node is None else at_index(node.arrived, 0)

    def _node(self, merged: int) -> Node | None:
        own = self._own.get(merged)
        return None if own is None or self._run.graph is None else self._run.graph.nodes[own]

    def _value_of_leaf(self, node: Node) -> Operand | None:
        return next((self._leaves[name] for name in node.names if name in self._leaves), None)

    @cached_property
    def _leaves(self) -> dict[str, Operand]:
        """What operations took that no operation computed, by name."""
        found: dict[str, Operand] = {}
        for operation in self._run.operations:
            for operand in operation.operands:
                if operand.leaf is not None and (operand.is_parameter or operand.source is None):
                    found[operand.leaf] = operand
        return found


def _tensor_facts(facts: TensorFacts) -> Iterator[tuple[str, str]]:
    yield "shape", shape_words_of(facts.shape)
    yield "dtype", facts.dtype
    if facts.device != "cpu":
        yield "device", facts.device


def _figures(what: str, figures: TensorFigures | None) -> Iterator[tuple[str, str]]:
    if figures is None:
        return
    if figures.is_undefined:
        yield what, "none"
        return
    if figures.norm is not None:
        yield f"{what}: norm", f"{figures.norm:.6g}"
    fingerprint = figures.fingerprint
    largest = fingerprint.largest if fingerprint is not None else figures.largest
    if largest is not None:
        yield f"{what}: largest", f"{largest:.6g}"
    unusual = fingerprint.unusual if fingerprint is not None else figures.nans + figures.infs
    if unusual:
        yield f"{what}: NaN or Inf", f"{unusual:,}"
