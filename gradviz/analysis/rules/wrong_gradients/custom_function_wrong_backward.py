"""GV603."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.custom_functions import (
    CustomCall,
    custom_calls,
    differing_slopes,
    is_flat,
    return_location,
)
from gradviz.analysis.dataflow.tensor_words import leaf_names
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.cached_results import function_on
from gradviz.analysis.rules.bases.sources.own_files import own_files, own_tree
from gradviz.analysis.sources.named_by_statements import bound_by
from gradviz.analysis.sources.source_tree import called_name, names_in, parameters_of
from gradviz.graph.call_log import DerivativeCheck
from gradviz.graph.number_words import ordinal
from gradviz.graph.traversal import ancestor_nodes


class CustomFunctionWrongBackward(Rule):
    """The backward of a custom function does not return the derivative of its forward.

    What it finds
    -------------
    When the program has ended, gradviz calls each of its custom ``autograd.Function`` again, at a point where it was
    used, and compares the result of ``backward`` with finite differences of ``forward``, element by element. It skips
    points where the slope jumps, and functions that return another gradient on purpose: a forward that returns its
    input (gradient reversal, scaling), or that is flat wherever a gradient is returned (rounding with a
    straight-through estimate, spikes), also where its source rounds an input that needs no gradient, or gets another
    gradient than its slope. It says so where ``backward`` does not name the gradient that it gets. A function that
    calls a module and saves nothing on the way, as one with a continuous adjoint, may be near the slope only: that is a
    note, unless most elements have another sign or are three times as large.

    Why it matters
    --------------
    torch does not check what ``backward`` returns. With a wrong formula the loss often still goes down, only more
    slowly and to a wrong minimum, and there is no error.

    Example
    -------
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 3 * x * grad

    layer = torch.nn.Linear(3, 3)
    Cube.apply(layer(torch.randn(4, 3))).sum().backward()

    Instead
    -------
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * grad

    layer = torch.nn.Linear(3, 3)
    Cube.apply(layer(torch.randn(4, 3))).sum().backward()
    """

    code = "GV603"
    name = "custom_function_wrong_backward"
    severity = "error"
    needs = ("custom functions",)

    def check(self, case: Case) -> Iterator[Finding]:
        checks = case.dataflow.log.derivatives
        on_purpose = {each.function for each in checks if each.is_identity or is_flat(each)}
        reported: set[Location | None] = set()
        for each in checks:
            wrong = differing_slopes(each)
            if each.function in on_purpose or not wrong or _rounds(case, each):
                continue
            finding = self._finding(case, each, wrong)
            if finding is not None and finding.location not in reported:
                reported.add(finding.location)
                yield finding

    def _finding(self, case: Case, check: DerivativeCheck, wrong: list[tuple[float, float]]) -> Finding | None:
        uses = list(_uses(case, check.function))
        if check.ignores_incoming and uses and all(_got_ones(custom) for _, custom in uses):
            return None  # the missing factor is 1 everywhere, so it changes nothing
        given, measured = max(wrong, key=lambda pair: abs(pair[0] - pair[1]))
        name = _name_of_input(case, check)
        input_words = f" for its {ordinal(check.argument)} input" + (f", {name}" if name else "")
        first = uses[0] if uses else None
        unused = _unused_gradient(case, uses) if check.ignores_incoming else None
        is_near = check.may_approximate and not _is_far_off(wrong)
        says = "" if unused is None else f" never uses the gradient that it gets, {unused.names}, and"
        return self.finding(
            f"{check.function}.backward{says} returns a wrong gradient{input_words}: {given:.4g} where the slope of "
            f"forward is {measured:.4g}{_in_words(wrong)}",
            severity="note" if is_near else self.severity,
            symptom="grad_wrong",
            why="a backward that solves an equation of its own is near the slope of forward, and not equal to it"
            if is_near
            else "torch does not check what backward returns, so everything behind it trains on a wrong gradient"
            if not check.ignores_incoming
            else "it ignores the incoming gradient, but the chain rule multiplies by it",
            fix="correct the formula, or the values at which it is computed again, and check it with "
            "torch.autograd.gradcheck in double precision"
            if not check.ignores_incoming
            else f"multiply by {'the gradient that backward receives' if unused is None else unused.names}",
            location=_location(case, check, uses) if unused is None else unused.location,
            op=first[1].node.name if first else None,
            tensors=_leaves(case, first) if first else (),
            nodes=case.nodes_in(first[0], (first[1].node.id,)) if first else (),
            evidence={
                "given": [given for given, _ in wrong[:4]],
                "measured": [measured for _, measured in wrong[:4]],
                "elements_compared": len(check.given),
                "elements_wrong": len(wrong),
            },
        )


def _is_far_off(wrong: list[tuple[float, float]]) -> bool:
    """Whether most gradients have another sign than the slope, or are much larger or smaller."""
    far = [one * other <= 0 or max(abs(one), abs(other)) > _FACTOR * min(abs(one), abs(other)) for one, other in wrong]
    return 2 * sum(far) > len(far)


_FACTOR = 3


def _rounds(case: Case, check: DerivativeCheck) -> bool:
    """Whether the forward of a custom function rounds: then its backward is an estimate, also for a step size, and is
    not the slope between two steps.

    It is no estimate where all that is rounded gets its slope as gradient: the sign in a soft threshold, a floor that
    chooses the elements between which it interpolates.
    """
    exact = {
        each.argument for each in case.dataflow.log.derivatives if each.function == check.function and _exact(each)
    }
    rounded = map(_rounded_arguments, _classes(case, check))
    return any(each is None or not each <= exact for each in rounded)


def _classes(case: Case, check: DerivativeCheck) -> Iterator[ast.ClassDef]:
    """The classes of the program that have the name of a custom function."""
    name = check.function.rpartition(".")[2]
    nodes = (node for _, tree in own_files(case) for node in tree.nodes)
    return (node for node in nodes if isinstance(node, ast.ClassDef) and node.name == name)


def _name_of_input(case: Case, check: DerivativeCheck) -> str:
    """What forward calls an argument; empty where that is not known, as of those of ``*weights``."""
    found = list(_classes(case, check))
    names = _names_of_arguments(found[0]) if len(found) == 1 else []
    return names[check.argument] if check.argument < len(names) else ""


def _methods(function: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {each.name: each for each in function.body if isinstance(each, ast.FunctionDef)}


def _names_of_arguments(function: ast.ClassDef) -> list[str]:
    """What the forward of a custom function calls its arguments, without the context and those of ``*weights``."""
    methods = _methods(function)
    if "forward" not in methods:
        return []
    return parameters_of(methods["forward"])[0 if "setup_context" in methods else 1 :]


def _exact(check: DerivativeCheck) -> bool:
    """Whether the gradient of an argument is the slope, where this is not 0 everywhere."""
    return not check.flat and any(check.measured) and not differing_slopes(check)


def _rounded_arguments(function: ast.ClassDef) -> set[int] | None:
    """The arguments from which the forward of a custom function computes what it rounds; None if it is not known."""
    forward = _methods(function).get("forward")
    parts = list(ast.walk(forward or function))
    roundings = [each for each in parts if called_name(each) in _ROUNDING]
    if not roundings:
        return set()
    if forward is None or forward.args.vararg is not None:
        return None
    given = _names_of_arguments(function)
    read: dict[str, set[str]] = {}
    for each in parts:
        if isinstance(each, ast.stmt):
            for bound in bound_by(each):
                read.setdefault(bound, set()).update(names_in(each))
    needed, waiting = set[str](), [name for each in roundings for name in names_in(each)]
    while waiting:
        if (name := waiting.pop()) not in needed:
            needed.add(name)
            waiting += read.get(name, ())
    found = {index for index, name in enumerate(given) if name in needed}
    return found or None


_ROUNDING = frozenset({"round", "round_", "floor", "floor_", "ceil", "ceil_", "trunc", "trunc_", "sign", "sgn"})


class _Unused(Struct, frozen=True):
    names: str
    """Of the gradients that ``backward`` gets: ``grad_output``."""
    location: Location
    """Where it returns its result without them."""


def _unused_gradient(case: Case, uses: list[tuple[int, CustomCall]]) -> _Unused | None:
    """The parameters of ``backward`` behind ``ctx``, if its source names none of them."""
    definition = next((custom.definition for _, custom in uses if custom.definition is not None), None)
    tree = None if definition is None else own_tree(case, definition.file)
    function = None if definition is None or tree is None else function_on(tree, definition.first_line)
    if definition is None or function is None or not definition.returns:
        return None
    given = [each.arg for each in (*function.args.posonlyargs, *function.args.args)][1:]
    given += [] if function.args.vararg is None else [function.args.vararg.arg]
    named = set[str]().union(*(names_in(statement) for statement in function.body))
    if not given or not named.isdisjoint({*given, "locals"}):
        return None
    return _Unused(", ".join(given), return_location(definition))


def _in_words(wrong: list[tuple[float, float]]) -> str:
    """A phrase with the factor by which all gradients are wrong; empty if they differ."""
    factors = [given / measured for given, measured in wrong if measured]
    if len(factors) < 2 or max(factors) - min(factors) > 0.01 * abs(factors[0]) or not factors[0]:
        return ""
    return f", everywhere {factors[0]:.3g} times as much"


def _uses(case: Case, function: str) -> Iterator[tuple[int, CustomCall]]:
    for number, graph in enumerate(case.graphs):
        for custom in custom_calls(case.dataflow, graph):
            if custom.function == function:
                yield number, custom


def _got_ones(custom: CustomCall) -> bool:
    return all(each is None or each.minimum == each.maximum == 1.0 for each in custom.node.arrived)


def _leaves(case: Case, use: tuple[int, CustomCall]) -> tuple[str, ...]:
    graph = case.graphs[use[0]]
    return leaf_names(ancestor_nodes(graph, use[1].node))


def _line_of_derivatives(case: Case, check: DerivativeCheck, uses: list[tuple[int, CustomCall]]) -> Location | None:
    """The one ``autograd.grad()`` in a backward that computes its forward again, where the gradients of most arguments,
    which come from it, are wrong."""
    same = [each for each in case.dataflow.log.derivatives if each.function == check.function]
    if len(same) < _SEVERAL or 2 * sum(bool(differing_slopes(each)) for each in same) < len(same):
        return None
    definition = next((custom.definition for _, custom in uses if custom.definition is not None), None)
    tree = None if definition is None else own_tree(case, definition.file)
    function = None if definition is None or tree is None else function_on(tree, definition.first_line)
    nodes = () if function is None else ast.walk(function)
    lines = [node.lineno for node in nodes if isinstance(node, ast.Call) and called_name(node) in _DERIVES]
    return None if definition is None or len(lines) != 1 else Location(definition.file, lines[0])


_DERIVES = frozenset({"grad", "vjp"})
_SEVERAL = 2


def _location(case: Case, check: DerivativeCheck, uses: list[tuple[int, CustomCall]]) -> Location | None:
    again = _line_of_derivatives(case, check, uses)
    if again is not None:
        return again
    if check.line is not None:
        return Location(*check.line)
    definition = next((custom.definition for _, custom in uses if custom.definition is not None), None)
    return return_location(definition) if definition is not None else None
