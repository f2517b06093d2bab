"""The operations of one recorded run in the order of the forward, from the log of calls or, without one, from a graph.

In the log a call of torch is one operation, however many autograd nodes it made. A tensor is followed by its number,
its version and its memory, so an operand of a call leads to the call that computed this version of it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from pathlib import PurePath

from gradviz.capture.capture import Capture
from gradviz.graph.call_log import RandomDraw
from gradviz.graph.gradients import TensorFigures
from gradviz.graph.model import Attribute, CallSite, Graph, ModuleScope, Scalar
from gradviz.graph.query.own_line import line_words_of, own_line
from gradviz.graph.tensor_facts import TensorFacts


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor that an operation took or gave."""

    position: str
    facts: TensorFacts | None
    figures: TensorFigures | None
    """What is known of its values; with fingerprints, at least the fingerprint."""
    source: int | None = None
    """For one that was taken: the operation that computed it, by index; None if none did."""
    leaf: str | None = None
    """For one that no operation computed: its name, ``fc.weight`` or ``data``."""
    is_parameter: bool = False


@dataclass(slots=True)
class Operation:
    """One call of torch, or one autograd node if no calls were logged."""

    index: int
    function: str
    """With its module: ``torch.nn.functional.linear``; or the name of the node."""
    word: str
    """``linear``"""
    arguments: dict[str, Attribute]
    operands: tuple[Operand, ...]
    results: tuple[Operand, ...]
    site: int | None = None
    """Index in `Run.call_sites`."""
    scope: int | None = None
    nodes: tuple[int, ...] = ()
    """Ids of its nodes in `Run.graph`."""
    draw: RandomDraw | None = None
    is_autocast: bool = False
    grad_mode: str = "enabled"
    kind: str = "operation"
    hooks: tuple[str, ...] = ()
    keeps_values: bool = False
    """Whether it gave what it took, bit for bit, perhaps in another shape: `contiguous`, or a dropout of nothing."""


@dataclass
class Run:
    """One of the two runs that are compared."""

    capture: Capture
    graph: Graph | None
    operations: list[Operation]
    scopes: Sequence[ModuleScope]
    call_sites: Sequence[CallSite]
    has_calls: bool
    operation_of_node: dict[int, int] = field(default_factory=dict)
    numbers: Sequence[tuple[int, int, int]] = ()
    """For operations of a log that made nodes, in ascending order: the sequence number of the first node, how many, and
    the index of the operation."""

    def turn_to(self, graph: Graph) -> None:
        """Let nodes be those of another graph of the recording, which has a log of calls."""
        assert self.has_calls, "without a log, the operations are the nodes of one graph"
        for index in set(self.operation_of_node.values()):
            self.operations[index].nodes = ()
        self.graph = graph
        self.operation_of_node = {}
        sequence_numbers, ids = nodes = _nodes_by_number(graph)
        if not ids:
            return
        start = bisect_left(self.numbers, (sequence_numbers[0] - self.longest,))
        end = bisect_left(self.numbers, (sequence_numbers[-1] + 1,))
        # A custom function stands behind the operations inside it, whose nodes are its own.
        for first, count, index in sorted(self.numbers[start:end], key=itemgetter(2)):
            own = self.operations[index].nodes = _ids_of(first, count, nodes)
            self.operation_of_node.update(dict.fromkeys(own, index))

    @cached_property
    def longest(self) -> int:
        """The largest number of nodes that one operation made."""
        return max((count for _, count, _ in self.numbers), default=0)

    @property
    def has_fingerprints(self) -> bool:
        """Whether the values of the forward can be compared."""
        return any(
            result.figures is not None and result.figures.fingerprint is not None
            for operation in self.operations
            for result in operation.results
        )

    def line_of(self, operation: Operation) -> CallSite | None:
        """The user's own line."""
        if operation.site is None:
            return None
        return self.call_sites[own_line(self.call_sites, operation.site)]

    def line_words(self, operation: Operation) -> str | None:
        """``train.py:41``."""
        site = self.line_of(operation)
        return None if site is None else line_words_of(site.file, site.line)

    def source_line(self, operation: Operation) -> str:
        """The text of the user's own line; empty if it was not kept."""
        site = self.line_of(operation)
        return "" if site is None else self.capture.sources.get(site.file, {}).get(site.line, "").strip()

    def innermost_text(self, operation: Operation) -> str:
        """The text of the innermost line outside torch."""
        if operation.site is None:
            return ""
        site = self.call_sites[operation.site]
        return self.capture.sources.get(site.file, {}).get(site.line, "").strip()

    def module_path(self, operation: Operation) -> str:
        """``model.h.0.attn``; empty outside of modules."""
        return "" if operation.scope is None else self.scopes[operation.scope].path

    def modules_around(self, operation: Operation) -> list[int]:
        """The module calls that it ran in, by scope, the outermost first."""
        chain: list[int] = []
        scope = operation.scope
        while scope is not None:
            chain.append(scope)
            scope = self.scopes[scope].parent
        return chain[::-1]

    def program(self) -> str:
        return PurePath(self.capture.program.name).name


def _nodes_by_number(graph: Graph) -> tuple[list[int], list[int]]:
    """Sequence numbers in ascending order, and the ids of their nodes."""
    pairs = sorted(
        (node.sequence_nr, node.id) for node in graph.nodes if node.sequence_nr is not None and not node.is_leaf
    )
    return [number for number, _ in pairs], [node for _, node in pairs]


def _ids_of(first: int, count: int, nodes: tuple[list[int], list[int]]) -> tuple[int, ...]:
    """The nodes with so many sequence numbers from `first` on."""
    numbers, ids = nodes
    return tuple(ids[bisect_right(numbers, first - 1) : bisect_right(numbers, first + count - 1)])


def scalars_of(operation: Operation) -> dict[str, Scalar | tuple[Scalar, ...]]:
    """Its arguments, hashable."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in operation.arguments.items()}


def parameters_of(operations: Iterable[Operation]) -> Iterator[Operand]:
    """Every parameter that they took, as often as they took it."""
    for operation in operations:
        for operand in operation.operands:
            if operand.is_parameter:
                yield operand
