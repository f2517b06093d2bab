"""The operations of one recorded run in the order of the forward, from the log of calls or, without one, from a graph.

In the log a call of torch is one operation, however many autograd nodes it made. A tensor is followed by its number,
its version and its memory, so an operand of a call leads to the call that computed this version of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from gradviz.capture.capture import Capture
from gradviz.graph.call_log import Call, CallLog, RandomDraw, TensorUse
from gradviz.graph.gradients import TensorFigures, at_index
from gradviz.graph.model import Attribute, CallSite, Graph, ModuleScope, Node, Scalar
from gradviz.graph.query.operation_names import call_word, node_word
from gradviz.graph.query.own_line import line_words_of, own_line
from gradviz.graph.tensor_facts import TensorFacts

_COMPARED_KINDS = frozenset({"operation", "custom", "compiled", "step"})
_MAKES_NOTHING = frozenset({"torch.Tensor.backward", "torch.autograd.backward", "torch.autograd.grad"})
_MAY_KEEP_VALUES = frozenset(
    [
        "view",
        "view_as",
        "reshape",
        "reshape_as",
        "flatten",
        "unflatten",
        "squeeze",
        "unsqueeze",
        "expand",
        "expand_as",
        "contiguous",
        "clone",
        "to",
        "float",
        "type_as",
        "alias",
        "dropout",
        "dropout1d",
        "dropout2d",
        "dropout3d",
        "alpha_dropout",
    ]
)
"""Operations that pass the gradient on as it is where they keep the values as they are."""


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


def runs_of(capture: Capture, number: int | None = None) -> Run:
    """The run of a capture; of one of its backward calls if `number`, the index of a graph, is given."""
    graph = None
    if capture.graphs:
        graph = capture.graphs[0 if number is None else number]
    if capture.calls is not None:
        return _of_calls(capture, capture.calls, graph, only_one=number is not None)
    return _of_graph(capture, graph)


# -- From the log of calls ---------------------------------------------------------------------------------------------


def _of_calls(capture: Capture, log: CallLog, graph: Graph | None, *, only_one: bool) -> Run:
    first, end = _span(log, graph) if only_one and graph is not None else (0, len(log.calls))
    numbers = [number for number in _in_order_of_ends(log) if first <= number < end and _is_compared(log, number)]
    reader = _LogReader(log)
    nodes = _nodes_by_number(graph)
    operations = []
    for index, number in enumerate(numbers):
        operations.append(reader.operation(index, log.calls[number], nodes))
    run = Run(capture, graph, operations, log.scopes, log.call_sites, True)
    run.operation_of_node = {node: each.index for each in operations for node in each.nodes}
    return run


def _span(log: CallLog, graph: Graph) -> tuple[int, int]:
    """From the end of the backward call before to the beginning of this one."""
    wanted = str(graph.backward.number) if graph.backward is not None else None
    first = 0
    for number, call in enumerate(log.calls):
        if call.kind == "backward":
            if call.name == wanted:
                return first, number
            first = number + 1
    return first, len(log.calls)


def _in_order_of_ends(log: CallLog) -> Iterator[int]:
    """The calls inside a custom function come before it: its result is theirs."""
    waiting: list[int] = []
    for number, call in enumerate(log.calls):
        while waiting and not _is_inside(log, number, waiting[-1]):
            yield waiting.pop()
        if call.kind == "custom":
            waiting.append(number)
        else:
            yield number
    yield from reversed(waiting)


def _is_inside(log: CallLog, number: int, outer: int) -> bool:
    inside = log.calls[number].inside
    while inside is not None and inside != outer:
        inside = log.calls[inside].inside
    return inside == outer


def _is_compared(log: CallLog, number: int) -> bool:
    call = log.calls[number]
    if call.kind not in _COMPARED_KINDS or call.function in _MAKES_NOTHING:
        return False
    if not call.outputs and call.draw is None:
        return False
    inside = call.inside
    while inside is not None:
        if log.calls[inside].kind in ("backward", "step"):
            return False
        inside = log.calls[inside].inside
    return True


def _nodes_by_number(graph: Graph | None) -> tuple[list[int], list[int]]:
    """Sequence numbers in ascending order, and the ids of their nodes."""
    if graph is None:
        return [], []
    pairs = sorted(
        (node.sequence_nr, node.id) for node in graph.nodes if node.sequence_nr is not None and not node.is_leaf
    )
    return [number for number, _ in pairs], [node for _, node in pairs]


class _LogReader:
    """Reads the calls of a log in order, and remembers which of them computed what."""

    def __init__(self, log: CallLog) -> None:
        self._log = log
        self._made: dict[tuple[int, int | None], int] = {}
        self._made_in: dict[int, list[int]] = defaultdict(list)
        """The operations that wrote to a memory."""
        self._kept: dict[int, Operand] = {}
        """For operations that keep values, by index, what they took: whose result it is, is the result of another."""
        self._figures: dict[tuple[int, int | None], TensorFigures] = {}
        for call in log.calls:
            for use in (*call.outputs, *call.inputs):
                if use.fingerprint is not None:
                    self._figures.setdefault((use.tensor, use.version), self._figures_of(use))

    def operation(self, index: int, call: Call, nodes: tuple[list[int], list[int]]) -> Operation:
        operands = tuple(self._operand(use) for use in call.inputs)
        for use in call.outputs:
            self._made[use.tensor, use.version] = index
            storage = self._log.tensors[use.tensor].storage
            if storage is not None:
                self._made_in[storage].append(index)
        made = Operation(
            index,
            call.function,
            call_word(call.function.removesuffix(".apply")),
            dict(call.scalars),
            operands,
            tuple(
                Operand(use.place, self._log.tensors[use.tensor].facts, self._figures.get((use.tensor, use.version)))
                for use in call.outputs
            ),
            call.call_site,
            call.scope,
            _ids_of(call, nodes),
            call.draw,
            call.is_autocast,
            call.grad_mode,
            call.kind,
        )
        if _keeps_values(made):
            made.keeps_values = True
            self._kept[index] = operands[0]
        return made

    def _operand(self, use: TensorUse) -> Operand:
        tensor = self._log.tensors[use.tensor]
        source = self._made.get((use.tensor, use.version))
        if source is None and tensor.storage is not None and tensor.role != "buffer":
            made = self._made_in.get(tensor.storage)
            source = made[-1] if made else None
        leaf = None
        if source is None or tensor.role == "parameter":
            leaf = tensor.names[0] if tensor.names else tensor.role if tensor.role != "tensor" else "data"
        is_parameter = tensor.role == "parameter"
        kept = None if source is None or is_parameter else self._kept.get(source)
        if kept is not None:
            source, leaf, is_parameter = kept.source, kept.leaf, kept.is_parameter
        figures = self._figures.get((use.tensor, use.version))
        return Operand(use.place, tensor.facts, figures, source, leaf, is_parameter)

    def _figures_of(self, use: TensorUse) -> TensorFigures:
        facts = self._log.tensors[use.tensor].facts
        assert use.fingerprint is not None
        return TensorFigures(
            facts.shape, facts.dtype, facts.device, norm=use.fingerprint.norm, fingerprint=use.fingerprint
        )


def _keeps_values(operation: Operation) -> bool:
    if operation.word not in _MAY_KEEP_VALUES or len(operation.results) != 1 or not operation.operands:
        return False
    if operation.draw is not None or operation.grad_mode != "enabled":
        return False
    if _elements(operation.operands[0]) != _elements(operation.results[0]):
        return False
    taken, given = operation.operands[0].figures, operation.results[0].figures
    if taken is None or given is None or taken.fingerprint is None or given.fingerprint is None:
        return False
    return taken.fingerprint == given.fingerprint and taken.dtype == given.dtype


def _elements(operand: Operand) -> int | None:
    return None if operand.facts is None else operand.facts.elements


def _ids_of(call: Call, nodes: tuple[list[int], list[int]]) -> tuple[int, ...]:
    numbers, ids = nodes
    if call.sequence_nr is None or not numbers:
        return ()
    first = bisect_right(numbers, call.sequence_nr - 1)
    end = bisect_right(numbers, call.sequence_nr + call.node_count - 1)
    return tuple(ids[first:end])


# -- From a graph ------------------------------------------------------------------------------------------------------


def _of_graph(capture: Capture, graph: Graph | None) -> Run:
    if graph is None:
        return Run(capture, None, [], (), (), False)
    operations: list[Operation] = []
    index_of: dict[int, int] = {}
    for node in graph.nodes:
        if not node.is_leaf:
            index_of[node.id] = len(operations)
            operations.append(_of_node(node, graph, index_of, len(operations)))
    return Run(capture, graph, operations, graph.scopes, graph.call_sites, False, index_of)


def _of_node(node: Node, graph: Graph, index_of: dict[int, int], index: int) -> Operation:
    arguments: dict[str, Attribute] = dict(node.attributes)
    return Operation(
        index,
        node.name,
        node_word(node, shares_its_call=True),
        arguments,
        tuple(_operands_of_node(node, graph, index_of)),
        tuple(Operand(f"return[{nr}]", facts, at_index(node.values, nr)) for nr, facts in enumerate(node.outputs)),
        node.call_site,
        node.scope,
        (node.id,),
        kind=node.kind,
        hooks=node.hooks,
    )


def _operands_of_node(node: Node, graph: Graph, index_of: dict[int, int]) -> Iterator[Operand]:
    for position, edge in enumerate(node.edges):
        if edge is None:
            continue
        source = graph.nodes[edge.target]
        yield Operand(
            str(position),
            source.output(edge.input_nr),
            at_index(source.values, edge.input_nr),
            index_of.get(source.id),
            (source.names[0] if source.names else source.kind) if source.is_leaf else None,
            source.kind == "parameter",
        )
    for number in node.constants:
        constant = graph.constants[number]
        name = constant.names[0] if constant.names else constant.kind
        yield Operand(f"constant {name}", constant.tensor, constant.value, None, name, constant.kind == "parameter")


def scalars_of(operation: Operation) -> dict[str, Scalar | tuple[Scalar, ...]]:
    """Its arguments, hashable."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in operation.arguments.items()}


def parameters_of(operations: Iterable[Operation]) -> Iterator[Operand]:
    """Every parameter that they took, as often as they took it."""
    for operation in operations:
        for operand in operation.operands:
            if operand.is_parameter:
                yield operand
