"""The names that a program has for derivatives, and for the functions that compute them."""

from __future__ import annotations

import ast
from collections import defaultdict

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.overwritten_variables import assigned
from gradviz.analysis.finding import Location, location_of_line
from gradviz.analysis.parameters.creation_lines import line_apart
from gradviz.analysis.rules.bases.formulas.derivatives.recomputed_derivatives import Recomputed
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.source_tree import SourceTree, called_name, last_name

_DERIVATIVES = frozenset({"grad", "jacrev", "jacfwd", "vjp"})
_PAIR = 2


def fits(variable: str, by: str) -> bool:
    """Whether a variable is named like a derivative by another: ``u_t``, ``du_dt``, ``dudt``.

    >>> [fits("u_t", "t"), fits("du_dt", "t_col"), fits("u_x", "t"), fits("t", "t")]
    [True, True, False, False]
    """
    name, last = variable.rpartition(".")[2].lower(), by.rpartition(".")[2].lower()
    return any(name.endswith(each) and len(name) > len(each) for each in (last, last[0]))


def is_named_twice(variable: str, by: str) -> bool:
    """Whether a variable is named like a second derivative by the same input: ``u_xx``, ``d2u_dx2``.

    >>> [is_named_twice("u_xx", "x"), is_named_twice("d2u_dx2", "x"), is_named_twice("u_xt", "x")]
    [True, True, False]
    """
    name, last = variable.rpartition(".")[2].lower(), by.rpartition(".")[2].lower()
    return any(name.endswith((2 * each, f"d{each}2", f"d{each}d{each}")) for each in (last, last[0]))


def variable_of(case: Case, row: int, other: int) -> str | None:
    """The variable to which the line of a call assigns, outside of what also made the other call."""
    line = line_apart(case.dataflow, row, other)
    return assigned(case.source_line(location_of_line(line)) or "")


def named_derivatives(case: Case, pair: Recomputed) -> list[tuple[str, Location | None]]:
    """The names of two derivatives, with the lines that decide by what they differentiate: the variables of the
    results, or of the functions that one line calls."""
    rows = ((pair.first, pair.second), (pair.second, pair.first))
    names = [variable_of(case, *each) for each in rows]
    if None not in names and names[0] != names[1]:
        lines = [location_of_line(line_apart(case.dataflow, *each)) for each in rows]
        return [(name or "", line) for name, line in zip(names, lines, strict=True)]
    line = location_of_call(case.dataflow, pair.second)
    tree = None if line is None else next((each for file, each in own_files(case) if file == line.file), None)
    found = [] if tree is None or line is None else _functions_called(tree, line.line)[:_PAIR]
    return [(name, Location(line.file, at)) for name, at in found] if line is not None else []


def _functions_called(tree: SourceTree, line: int) -> list[tuple[str, int]]:
    """The variables that a line calls and that hold the same derivative, each with the line that gives it its value.

    >>> tree = SourceTree({1: "u_t = vmap(grad(f))", 2: "u_x = vmap(grad(f))", 3: "r = u_t(t, x) + u_x(t, x)"})
    >>> _functions_called(tree, 3)
    [('u_t', 1), ('u_x', 2)]
    """
    values = {tree.key_of(target): value for target, value in tree.assignments}
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for node in tree.nodes:
        if not isinstance(node, ast.Call) or node.lineno != line:
            continue
        key, name = tree.key_of(node.func), last_name(node.func)
        value = values.get(key) if key is not None and tree.times_bound(key) == 1 else None
        is_derivative = value is not None and any(called_name(each) in _DERIVATIVES for each in ast.walk(value))
        if value is not None and is_derivative and (name, value.lineno) not in found[ast.dump(value)]:
            found[ast.dump(value)].append((name, value.lineno))
    return next((each for each in found.values() if len(each) > 1), [])
