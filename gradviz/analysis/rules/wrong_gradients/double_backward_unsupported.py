"""GV605."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.backward_calls import RaisedBackward
from gradviz.analysis.dataflow.custom_functions import CustomCall, custom_calls
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import leaf_names
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.graph.traversal import ancestor_nodes

_TWICE = "marked with @once_differentiable"
_COMPILED = "does not currently support double backward"


class DoubleBackwardUnsupported(Rule):
    """The program needs a second derivative of a function that has only a first one.

    What it finds
    -------------
    A gradient of a gradient (a gradient penalty, a meta step) through a custom function whose ``backward`` is marked
    ``@once_differentiable``, or through an operation of torch whose backward has no derivative. It also reports where
    torch silently leaves that part out.

    Why it matters
    --------------
    What ``backward`` computes under ``@once_differentiable`` is cut off from the graph. torch raises only if the
    incoming gradient requires grad itself; otherwise that part of the second derivative is missing without an error.

    Example
    -------
    from torch.autograd.function import once_differentiable

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    layer = torch.nn.Linear(3, 1)
    x = torch.randn(4, 3, requires_grad=True)
    (slope,) = torch.autograd.grad(layer(Square.apply(x)).sum(), x, create_graph=True)
    try:
        slope.square().sum().backward()
    except RuntimeError as error:
        print(error)

    Instead
    -------
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    layer = torch.nn.Linear(3, 1)
    x = torch.randn(4, 3, requires_grad=True)
    (slope,) = torch.autograd.grad(layer(Square.apply(x)).sum(), x, create_graph=True)
    slope.square().sum().backward()
    """

    code = "GV605"
    name = "double_backward_unsupported"
    severity = "error"
    needs = ("custom functions",)

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        refused = list(self._refused(case, flow))
        yield from refused
        if not refused:
            yield from self._left_out(case, flow)

    def _refused(self, case: Case, flow: Dataflow) -> Iterator[Finding]:
        for failed in case.backward_calls.raised:
            if _TWICE in failed.message:
                for number, custom in _in_differentiable(case, flow, failed.graph):
                    if _is_once_differentiable(custom) and _fits(custom, failed):
                        yield self._of_custom(case, failed, number, custom)
                        break
            elif _COMPILED in failed.message:
                yield self._of_compiled(case, failed)
            elif (name := failed.without_derivative) is not None and "backward" in name:
                yield self._of_operation(case, failed, name)

    def _of_custom(self, case: Case, failed: RaisedBackward, number: int, custom: CustomCall) -> Finding:
        return self.finding(
            f"{custom.function}.backward is @once_differentiable, but its gradient was differentiated again",
            symptom="raises",
            why="what it computes is cut off from the graph, so there is no second derivative",
            fix="remove the decorator if backward uses torch functions only; otherwise write backward as another "
            "custom function",
            location=_decorator(custom) or case.location_of(number, custom.node.id),
            symptom_location=case.location_of_backward(failed.graph),
            op=custom.node.name,
            tensors=failed.waiting,
            nodes=case.nodes_in(number, (custom.node.id,)),
            evidence={"raised": failed.message},
        )

    def _of_compiled(self, case: Case, failed: RaisedBackward) -> Finding:
        return self.finding(
            "the gradient of compiled code was differentiated again, which torch.compile does not support",
            symptom="raises",
            why="the backward of compiled code is compiled, too, and has no derivative",
            fix='leave the code whose gradient is differentiated uncompiled, or compile it with backend="eager"',
            location=case.location_of_backward(failed.graph),
            tensors=failed.waiting,
            evidence={"raised": failed.message},
        )

    def _of_operation(self, case: Case, failed: RaisedBackward, name: str) -> Finding:
        """`name` is the function of torch that a node calls: ``_cdist_backward`` for ``CdistBackward0``."""
        made = next(
            (
                (number, node)
                for number in range(failed.graph, -1, -1)
                for node in case.graphs[number].nodes
                if node.name.rstrip("0123456789").lower() == name.replace("_", "").lower()
            ),
            None,
        )
        operation = name.removesuffix("_backward").strip("_")
        return self.finding(
            f"{operation} has no second derivative in torch, but its gradient was differentiated again",
            symptom="raises",
            why=f"{name} is a fused kernel without a derivative",
            fix=f"compute {operation} with elementary operations where you differentiate its gradient",
            location=case.location_of(made[0], made[1].id) if made else case.location_of_backward(failed.graph),
            symptom_location=case.location_of_backward(failed.graph),
            op=made[1].name if made else None,
            tensors=failed.waiting,
            nodes=case.nodes_in(made[0], (made[1].id,)) if made else (),
            evidence={"raised": failed.message},
        )

    def _left_out(self, case: Case, flow: Dataflow) -> Iterator[Finding]:
        """Gradients that were computed with ``create_graph`` and went through such a function."""
        reported = set()
        for number, custom, location, how in _silent(case, flow):
            graph = case.graphs[number]
            if custom.node.run is None or custom.function in reported or not _is_differentiated_again(case, number):
                continue
            reported.add(custom.function)
            behind = ancestor_nodes(graph, custom.node)
            yield self.finding(
                f"the second derivative through {custom.function} is silently left out: its backward {how}",
                severity="warning",
                symptom="grad_wrong",
                why="what it computes is cut off from the graph, and torch does not always notice",
                fix="use torch functions only in backward, and leave gradients on there",
                location=location or case.location_of(number, custom.node.id),
                symptom_location=case.location_of_backward(number),
                op=custom.node.name,
                tensors=leaf_names(behind),
                nodes=case.nodes_in(number, (custom.node.id,)),
            )


def _silent(case: Case, flow: Dataflow) -> Iterator[tuple[int, CustomCall, Location | None, str]]:
    """Calls whose backward loses the second derivative without an error, with the line and the reason."""
    cuts = {check.function: Location(*check.cut_line) for check in flow.log.derivatives if check.cut_line is not None}
    for number, custom in _in_differentiable(case, flow, len(case.graphs) - 1):
        if _is_once_differentiable(custom):
            yield number, custom, _decorator(custom), "is @once_differentiable"
        elif custom.function in cuts:
            yield number, custom, cuts[custom.function], "returns gradients without a history"


def _in_differentiable(case: Case, flow: Dataflow, last: int) -> Iterator[tuple[int, CustomCall]]:
    """Calls of custom functions in graphs that were differentiated with ``create_graph``, newest first."""
    for number in range(last, -1, -1):
        backward = case.graphs[number].backward
        if backward is not None and backward.create_graph:
            yield from ((number, custom) for custom in custom_calls(flow, case.graphs[number]))


def _is_once_differentiable(custom: CustomCall) -> bool:
    return custom.definition is not None and custom.definition.once_differentiable_line is not None


def _fits(custom: CustomCall, failed: RaisedBackward) -> bool:
    """Whether the node that raised can be the result of this function: torch's message does not name it."""
    outputs = {facts.shape for facts in failed.node.outputs if facts is not None} if failed.node is not None else set()
    return not outputs or any(sent is not None and sent.shape in outputs for sent in custom.node.gradients)


def _is_differentiated_again(case: Case, graph: int) -> bool:
    """Whether a later backward starts from something that was computed from the gradients of this one."""
    flow, row = case.dataflow, case.backward_calls.row_of(graph)
    if row is None:
        return False
    return any(
        backward > row and row in flow.ancestors(root, before=backward, since=row) for backward, root in flow.roots()
    )


def _decorator(custom: CustomCall) -> Location | None:
    definition = custom.definition
    if definition is None or definition.once_differentiable_line is None:
        return None
    return Location(definition.file, definition.once_differentiable_line)
