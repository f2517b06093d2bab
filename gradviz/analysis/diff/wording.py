"""Words for operations, operands and arguments of the runs that are compared."""

from __future__ import annotations

from collections import Counter
from typing import Any

from gradviz.analysis.diff.difference import Where
from gradviz.analysis.diff.runs import Operand, Operation, Run, scalars_of

_ABSENT = object()
Changes = list[tuple[str, Any, Any]]


def where(run: Run, operation: Operation) -> Where:
    """The operation with its line and module."""
    site = run.line_of(operation)
    return Where(
        operation.word,
        operation.index,
        site.file if site is not None else None,
        site.line if site is not None else None,
        run.source_line(operation),
        run.module_path(operation),
        tuple(operand_words(run, operand) for operand in operation.operands),
        operation.nodes[-1] if operation.nodes else None,
    )


def different_operands(a: Run, b: Run, operation: Operation, x: Operand, y: Operand) -> str:
    """``add takes relu at net.py:7 in A, norm at net.py:8 in B as its first tensor``; shapes where they differ."""
    has_same_shape = x.facts is not None and y.facts is not None and x.facts.shape == y.facts.shape
    words = [operand_words(run, each, with_shape=not has_same_shape) for run, each in ((a, x), (b, y))]
    number = next((n for n, each in enumerate(operation.operands) if each.position == x.position), len(_ORDINALS))
    several = len(operation.operands) > 1 and number < len(_ORDINALS)
    which = f" as its {_ORDINALS[number]} tensor" if several else ""
    return f"{operation.word} takes {words[0]} in A, {words[1]} in B{which}"


_ORDINALS = ("first", "second", "third", "fourth")


def line_taken(run: Run, operand: Operand) -> str:
    """The line that computed an operand, with its text; empty if no line is known."""
    source = None if operand.source is None else run.operations[operand.source]
    line = None if source is None else run.line_words(source)
    return "" if source is None or line is None else f"{line}: {run.source_line(source)}".removesuffix(": ")


def operand_words(run: Run, operand: Operand, *, with_shape: bool = True) -> str:
    """``fc.weight (4, 16)``, ``the result of relu at net.py:7``."""
    shape = ""
    if with_shape and operand.facts is not None:
        shape = " (" + ", ".join(map(str, operand.facts.shape)) + ")" if operand.facts.shape else " (one number)"
    if operand.source is None:
        return f"{operand.leaf or 'data'}{shape}"
    if operand.is_parameter and operand.leaf:
        return f"{operand.leaf}{shape}"
    source = run.operations[operand.source]
    line = run.line_words(source)
    return f"{source.word}{f' at {line}' if line else ''}{shape}"


def changed_arguments(one: Operation, other: Operation) -> Changes:
    """Arguments with another value: name, value in the first, value in the second.

    The same value may be passed by position or by name.
    """
    a, b = scalars_of(one), scalars_of(other)
    changed: Changes = [(name, a[name], b[name]) for name in a if name in b and not _is_same(a[name], b[name])]
    only_a = [name for name in a if name not in b]
    only_b = [name for name in b if name not in a]
    left_b = Counter(repr(b[name]) for name in only_b)
    for name in only_a:
        text = repr(a[name])
        if left_b[text]:
            left_b[text] -= 1
        else:
            changed.append((name, a[name], _ABSENT))
    for name in only_b:
        text = repr(b[name])
        if left_b[text]:
            left_b[text] -= 1
            changed.append((name, _ABSENT, b[name]))
    return _joined(changed)


def is_given_in_both(entry: tuple[str, Any, Any]) -> bool:
    """False for an argument that one of the calls leaves to its default."""
    return entry[1] is not _ABSENT and entry[2] is not _ABSENT


def _joined(changed: Changes) -> Changes:
    """One argument that is passed by position here and by name there, with two values."""
    gone = [entry for entry in changed if entry[2] is _ABSENT]
    new = [entry for entry in changed if entry[1] is _ABSENT]
    if len(gone) == len(new) == 1:
        name = new[0][0] if gone[0][0][0].isdigit() else gone[0][0]
        return [entry for entry in changed if entry not in (gone[0], new[0])] + [(name, gone[0][1], new[0][2])]
    return changed


def are_of_one_form(one: Operation, other: Operation) -> bool:
    """Whether both only pass their values on, in the same shape, however they were called."""
    shapes = [[result.facts and result.facts.shape for result in each.results] for each in (one, other)]
    return one.keeps_values and other.keeps_values and shapes[0] == shapes[1]


def _is_same(x: Any, y: Any) -> bool:
    return bool(x == y) or (x != x and y != y)


def arguments_words(changed: Changes) -> str:
    """``eps is 1e-05 in A, 1e-06 in B``."""
    return "; ".join(f"{argument_name(name)} is {_value(a, 'A')}, {_value(b, 'B')}" for name, a, b in changed)


def argument_name(name: str) -> str:
    """``argument 1`` for one that is passed by position."""
    return f"argument {name}" if name[:1].isdigit() else name


def _value(value: Any, run: str) -> str:
    return f"not given in {run}" if value is _ABSENT else f"{value!r} in {run}"
