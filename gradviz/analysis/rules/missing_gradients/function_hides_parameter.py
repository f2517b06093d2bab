"""GV116."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers, short_name
from gradviz.analysis.dataflow.custom_functions import hidden_inputs
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.refused_calls import refused_roots
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.graph.model import CallSite


class FunctionHidesParameter(Rule):
    """A custom function computes with parameters that are no arguments of its ``apply()``, and they get no gradient.

    What it finds
    -------------
    A ``torch.autograd.Function`` of the program whose forward uses trained parameters of a module, a list, a dict or a
    variable outside, while ``apply()`` did not get them as arguments, and which get no gradient in the whole run. It
    does not report a function whose backward fills their ``.grad`` by itself, as the backward of a checkpoint does, nor
    parameters that are used with gradients elsewhere, as in a layer of deep equilibrium.

    Why it matters
    --------------
    Forward of a custom function runs without gradients. Autograd only knows the tensors that are arguments of
    ``apply()``, and asks backward for their gradients alone. Nothing raises: what is inside keeps its first values.

    Example
    -------
    class Solve(torch.autograd.Function):
        @staticmethod
        def forward(ctx, field, x):
            ctx.field = field
            ctx.save_for_backward(x)
            return x + field(x)

        @staticmethod
        def backward(ctx, grad):
            x = ctx.saved_tensors[0].detach().requires_grad_()
            with torch.enable_grad():
                y = x + ctx.field(x)
            return None, torch.autograd.grad(y, x, grad)[0]

    encoder, field = torch.nn.Linear(3, 4), torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD([*encoder.parameters(), *field.parameters()], lr=0.1)
    for step in range(3):
        loss = Solve.apply(field, encoder(torch.randn(5, 3))).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    class Solve(torch.autograd.Function):
        @staticmethod
        def forward(ctx, field, x, *parameters):
            ctx.field = field
            ctx.save_for_backward(x, *parameters)
            return x + field(x)

        @staticmethod
        def backward(ctx, grad):
            x, *parameters = ctx.saved_tensors
            x = x.detach().requires_grad_()
            with torch.enable_grad():
                y = x + ctx.field(x)
            return None, *torch.autograd.grad(y, (x, *parameters), grad)

    encoder, field = torch.nn.Linear(3, 4), torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD([*encoder.parameters(), *field.parameters()], lr=0.1)
    for step in range(3):
        loss = Solve.apply(field, encoder(torch.randn(5, 3)), *field.parameters()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV116"
    name = "function_hides_parameter"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        missing = case.missing_gradients
        silent = frozenset(missing.without_gradient if missing.is_training else ())
        hidden: dict[int | None, dict[int, tuple[int, int, int]]] = defaultdict(dict)
        for backward, root in _last_roots(case) if silent else ():
            for row in case.dataflow.ancestors(root, backward, case.dataflow.step_before(backward)):
                site = case.dataflow.log.calls[row].call_site
                for leaf, used in _hidden_leaves(case, row):
                    if leaf in silent:
                        hidden[site].setdefault(leaf, (row, used, backward))
        for found in hidden.values():
            yield self._finding(case, found)

    def _finding(self, case: Case, found: dict[int, tuple[int, int, int]]) -> Finding:
        flow, leaves = case.dataflow, sorted(found)
        row, used, backward = found[leaves[0]]
        function = short_name(flow.log.calls[row].function).removesuffix(".apply")
        apply, forward = flow.line_of(row), _line_in_forward(flow, row, used)
        them = "it" if len(leaves) == 1 else "them"
        verb, they_are = ("gets", "it is no argument") if len(leaves) == 1 else ("get", "they are no arguments")
        return self.finding(
            f"{case.histories.together(leaves)} {verb} no gradient: the forward of {function} uses "
            f"{them}, but {they_are} of apply()",
            symptom="raises" if refused_roots(flow.log.calls[backward]) else "grad_none",
            why="autograd only knows the tensors that are arguments of apply(), not those in a module, a list, a dict "
            "or a variable outside, and backward returns gradients for these arguments alone",
            fix=f"pass each as an argument of its own, {function}.apply(..., *parameters), and return a gradient for "
            "each from backward()",
            location=location_of_line(apply),
            symptom_location=location_of_line(forward) if forward != apply else None,
            tensors=names_of(flow, leaves),
            nodes=case.nodes_of_call(row)[:1],
            evidence={"function": function, "parameters": len(leaves)},
        )


def _last_roots(case: Case) -> Iterator[tuple[int, int]]:
    """What each line computed a gradient of for a step, and what was refused."""
    calls = case.dataflow.log.calls
    for row in case.histories.last_trained_backward_of_each_line:
        yield from ((row, use.tensor) for use in calls[row].roots)
    for row in case.dataflow.rows_of_kind("backward"):
        yield from ((row, root) for root in refused_roots(calls[row]))


def _hidden_leaves(case: Case, row: int) -> Iterator[tuple[int, int]]:
    """The leaves behind what a custom function of the program uses unseen, with the call in its forward."""
    call = case.dataflow.log.calls[row]
    if call.kind != "custom" or call.definition is None:
        return
    for tensor, used in hidden_inputs(case.dataflow, row):
        leaves, _ = case.histories.live_leaves([tensor], used)
        own = {tensor} if case.dataflow.log.tensors[tensor].is_leaf else set[int]()
        yield from ((leaf, used) for leaf in sorted(leaves | own))


def _line_in_forward(flow: Dataflow, row: int, used: int) -> CallSite | None:
    """The line in the forward of a custom function that led to a call there."""
    outside = {(line.file, line.line) for line in callers(flow, row)}
    inside = [line for line in callers(flow, used) if (line.file, line.line) not in outside]
    return inside[-1] if inside else None
