"""Reads the run of a capture from its log of calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from gradviz.analysis.diff.graph_runs import run_of_graph
from gradviz.analysis.diff.runs import Operand, Operation, Run
from gradviz.capture.capture import Capture
from gradviz.graph.call_log import Call, CallLog, TensorUse
from gradviz.graph.gradients import TensorFigures
from gradviz.graph.model import Graph
from gradviz.graph.query.operation_names import call_word

_COMPARED_KINDS = frozenset({"operation", "custom", "compiled", "step"})
_MAKES_NOTHING = frozenset({"torch.Tensor.backward", "torch.autograd.backward", "torch.autograd.grad"})
_MAY_KEEP_VALUES = frozenset({
    "view", "view_as", "reshape", "reshape_as", "flatten", "unflatten", "squeeze", "unsqueeze", "expand",
    "expand_as", "contiguous", "clone", "to", "float", "type_as", "alias", "dropout", "dropout1d", "dropout2d",
    "dropout3d", "alpha_dropout",
})  # fmt: skip
"""Operations that pass the gradient on as it is where they keep the values as they are."""


def runs_of(capture: Capture, number: int | None = None) -> Run:
    """The run of a capture; of one of its backward calls if `number`, the index of a graph, is given."""
    graph = None
    if capture.graphs:
        graph = capture.graphs[0 if number is None else number]
    if capture.calls is None:
        return run_of_graph(capture, graph)
    run = _of_calls(capture, capture.calls, graph if number is not None else None)
    if graph is not None:
        run.turn_to(graph)
    if number is not None:
        _keep_what_leads_to_nodes(run)
    return run


def _keep_what_leads_to_nodes(run: Run) -> None:
    """Leave out what ran before the same backward call and is no part of its forward: initialisation, optimizer steps.

    What they did to parameters is in the values of these.
    """
    wanted = {operation.index for operation in run.operations if operation.nodes}
    waiting = list(wanted)
    while waiting:
        for operand in run.operations[waiting.pop()].operands:
            if operand.source is not None and not operand.is_parameter and operand.source not in wanted:
                wanted.add(operand.source)
                waiting.append(operand.source)
    index_of = {old: new for new, old in enumerate(sorted(wanted))}
    run.operations = [run.operations[old] for old in index_of]
    for operation in run.operations:
        operation.index = index_of[operation.index]
        operation.operands = tuple(
            each if each.source is None else replace(each, source=index_of.get(each.source))
            for each in operation.operands
        )
    run.operation_of_node = {node: index_of[index] for node, index in run.operation_of_node.items()}
    run.numbers = [(first, count, index_of[index]) for first, count, index in run.numbers if index in index_of]


def _of_calls(capture: Capture, log: CallLog, graph: Graph | None) -> Run:
    """All operations of the log, or only those before the backward call of one graph."""
    first, end = (0, len(log.calls)) if graph is None else _span(log, graph)
    numbers = [number for number in _in_order_of_ends(log) if first <= number < end and _is_compared(log, number)]
    reader = _LogReader(log)
    operations = []
    made = []
    for index, number in enumerate(numbers):
        call = log.calls[number]
        operations.append(reader.operation(index, call))
        if call.sequence_nr is not None and call.node_count:
            made.append((call.sequence_nr, call.node_count, index))
    return Run(capture, None, operations, log.scopes, log.call_sites, True, numbers=sorted(made))


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

    def operation(self, index: int, call: Call) -> Operation:
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
            draw=call.draw,
            is_autocast=call.is_autocast,
            grad_mode=call.grad_mode,
            kind=call.kind,
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
