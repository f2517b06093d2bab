"""GV604."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.backward_calls import RaisedBackward
from gradviz.analysis.dataflow.custom_functions import CustomCall, custom_call_of, return_location
from gradviz.analysis.dataflow.tensor_words import together
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.gradients.silent_functions import SilentFunction
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.gradients_left_out import line_that_left_out
from gradviz.graph.number_words import ordinal

_COUNT = re.compile(r"incorrect number of gradients \(expected (\d+), got (\d+)\)")
_SHAPE = re.compile(r"invalid gradient at index (\d+) - got (\[.*?\]) but expected shape compatible with (\[.*?\])")
_NOT_A_TENSOR = re.compile(r"expected Variable or None \(got ([\w.]+)\)")
_UNWANTED = re.compile(r"gradient different than None at position (\d+)")


class CustomFunctionBadReturn(Rule):
    """The backward of a custom function returns the wrong number of gradients, the wrong shapes, or None.

    What it finds
    -------------
    A custom ``autograd.Function`` whose ``backward`` returns too few or too many gradients, a gradient whose shape does
    not match its input, or a value that is not a tensor. Also None for an input that requires grad, so that no gradient
    reaches what this input was computed from.

    Why it matters
    --------------
    ``backward`` must return one gradient for each argument of ``forward``, in the same order, and None for arguments
    that need none. torch treats None as zero: a forgotten ``return`` raises nothing, and nothing behind it trains.

    Example
    -------
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, grad):
            return None, grad * ctx.factor

    layer = torch.nn.Linear(3, 3)
    try:
        Scale.apply(layer(torch.randn(4, 3)), 2.0).sum().backward()
    except RuntimeError as error:
        print(error)

    Instead
    -------
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor, None

    layer = torch.nn.Linear(3, 3)
    Scale.apply(layer(torch.randn(4, 3)), 2.0).sum().backward()
    """

    code = "GV604"
    name = "custom_function_bad_return"
    severity = "error"
    needs = ("custom functions",)

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for failed in case.backward_calls.raised:
            custom = custom_call_of(flow, failed.node) if failed.node is not None else None
            if custom is not None and (said := _refusal(custom.function, failed.message)):
                yield self._refused(case, failed, custom, *said)
        yield from (self._silent(case, found) for found in case.silent_functions)

    def _refused(self, case: Case, failed: RaisedBackward, custom: CustomCall, verdict: str, fix: str) -> Finding:
        return self.finding(
            verdict,
            symptom="raises",
            why="backward must return one gradient for each argument of forward, in that order, with its shape",
            fix=fix,
            location=_location(case, failed.graph, custom),
            symptom_location=case.location_of_backward(failed.graph),
            op=custom.node.name,
            tensors=failed.starved,
            nodes=case.nodes_in(failed.graph, (custom.node.id,)),
            evidence={"raised": failed.message},
        )

    def _silent(self, case: Case, found: SilentFunction) -> Finding:
        number, custom, silent, starved = found.graph, found.custom, found.silent, found.starved
        falls_off = custom.definition is not None and not custom.definition.returns
        inputs = f"{' and '.join(map(ordinal, silent))} input"
        what = "has no return" if falls_off else f"returns None for its {inputs}, which requires grad"
        returned, condition = _location(case, number, custom), _condition(case, custom, silent)
        return self.finding(
            f"{custom.function}.backward {what}: no gradient reaches {together(starved)}",
            symptom="grad_none",
            why="torch treats None as a gradient of zero, so it raises nothing, and the gradient ends here",
            fix="return the gradient that it computes"
            if falls_off
            else f"compute the gradient for the {inputs} on another condition: whether it is wanted is "
            f"ctx.needs_input_grad[{_place(custom, silent[0])}]"
            if condition is not None
            else f"return a gradient for the {inputs}; the order is that of forward's arguments",
            location=condition or returned,
            symptom_location=returned if condition is not None else None,
            op=custom.node.name,
            tensors=starved,
            nodes=case.nodes_in(number, (custom.node.id,)),
            evidence={"arrived_norm": max((each.norm or 0.0) for each in custom.node.arrived if each is not None)},
        )


def _location(case: Case, number: int, custom: CustomCall) -> Location | None:
    return (
        return_location(custom.definition)
        if custom.definition is not None
        else case.location_of(number, custom.node.id)
    )


def _condition(case: Case, custom: CustomCall, silent: tuple[int, ...]) -> Location | None:
    """The line with the condition under which the only gradient that is missing is computed."""
    definition = custom.definition
    lines = case.capture.sources.get(definition.file) if definition is not None else None
    if definition is None or not lines or len(silent) != 1:
        return None
    return line_that_left_out(lines, definition, _place(custom, silent[0]))


def _place(custom: CustomCall, edge: int) -> int:
    """The place among all arguments of forward of one that is a tensor; an edge counts tensors alone."""
    places = [use.place for use in custom.call.inputs]
    return int(places[edge]) if edge < len(places) and places[edge].isdecimal() else edge


def _refusal(function: str, message: str) -> tuple[str, str] | None:
    """Message and remedy for a return value of backward that torch refused."""
    if found := _COUNT.search(message):
        wanted, given = map(int, found.groups())
        counted = f"{given} gradient{'s' * (given != 1)} for {wanted} argument{'s' * (wanted != 1)} of forward"
        missing = wanted - given
        fix = (
            f"return {missing} more; None for arguments that need no gradient, such as numbers and flags"
            if missing > 0
            else f"return {wanted} values, one for each argument of forward; ctx does not count"
        )
        return f"{function}.backward returns {counted}", fix
    if found := _SHAPE.search(message):
        index, given_shape, shape = found.groups()
        return (
            f"{function}.backward returns a gradient of shape {given_shape} for its {ordinal(int(index))} input, "
            f"which has shape {shape}",
            f"return a gradient of shape {shape}: a transposition or a sum is missing, or the order is wrong",
        )
    if found := _NOT_A_TENSOR.search(message):
        return f"{function}.backward returns a {found.group(1)}, which is not a tensor", "return tensors, or None"
    if found := _UNWANTED.search(message):
        return (
            f"{function}.backward returns a gradient for argument {found.group(1)}, which is not a tensor",
            "return None there; the order is that of forward's arguments",
        )
    return None
