"""Two names of one tensor that is changed in place under one of them and read under both.

>>> lines = dict(enumerate('''for ids in loader:
...     labels = ids
...     ids[mask] = 0
...     loss = f(model(ids), labels)
... '''.splitlines(), start=1))
>>> two_names(lines, 3) == TwoNames(changed="ids", other="labels", line=2)
True
>>> lines[2] = "    labels = ids.clone()"
>>> two_names(lines, 3)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from msgspec import Struct

from gradviz.analysis.rules.bases.sources.names.names_in_function import (
    NamesInFunction,
    functions_that_may_copy,
    is_view,
    place_in_results,
)


class TwoNames(Struct, frozen=True, repr_omit_defaults=True):
    """An assignment that gives a tensor a second name."""

    changed: str
    """The name under which it is changed."""
    other: str
    line: int
    """The line that assigns the one name to the other."""
    is_view: bool = False
    """Whether that gives the one name another shape, which it needs."""
    may_copy: tuple[str, ...] = ()
    """The functions in it that share memory only at times."""


class Returned(Struct, frozen=True, repr_omit_defaults=True):
    """What a function changes in place and returns, in the memory of one of its arguments."""

    argument: str
    position: int
    """Of the argument, without ``self``."""
    index: int | None = None
    """Its place among several results."""
    names: TwoNames | None = None
    """The assignment that gives the argument another name, under which it is changed."""


def two_names(lines: Mapping[int, str], line: int) -> TwoNames | None:
    """The two names of the tensor that a line changes in place, if both are read afterwards."""
    code = NamesInFunction(lines, line)
    changed = code.changed_on(line)
    if changed is None:
        return None
    for assigned, name, meant, value in code.aliases():
        other = meant if name == changed else name if meant == changed else None
        if other is None or assigned == line:
            continue
        order = code.order(assigned, line)
        if order is None or code.is_bound(order[: order.index(line)], {changed, other}):
            continue
        after = order[order.index(line) + 1 :]
        if code.is_read(after, changed) and code.is_read(after, other):
            return TwoNames(changed, other, assigned, is_view(value), functions_that_may_copy(value))
    return None


def reset_in_vain(lines: Mapping[int, str], line: int) -> TwoNames | None:
    """The two names of the dictionary or list of which a line in a loop replaces an element, if each round of the loop
    gives it the second name again, as if that brought the former elements back.

    >>> lines = dict(enumerate('''for x in tasks:
    ...     fast = slow
    ...     fast["w"] = slow["w"] - gradient(fast, x)
    ... '''.splitlines(), start=1))
    >>> reset_in_vain(lines, 3)
    TwoNames(changed='fast', other='slow', line=2)
    """
    code = NamesInFunction(lines, line)
    changed = code.changed_on(line)
    for assigned, name, meant, _ in code.aliases():
        if name != changed or assigned >= line:
            continue
        loop = code.loop_around(assigned, line)
        if (
            loop is not None
            and not code.is_bound(loop, {meant})
            and not code.is_bound(range(assigned + 1, line), {name})
        ):
            return TwoNames(name, meant, assigned)
    return None


def returned_argument(lines: Mapping[int, str], line: int) -> Returned | None:
    """The argument of the function around a line that the line changes in place and the function returns, perhaps under
    another name, and among other results.

    >>> lines = dict(enumerate('''def noisy(x, scale):
    ...     x += scale * torch.randn_like(x)
    ...     return x
    ... '''.splitlines(), start=1))
    >>> returned_argument(lines, 2)
    Returned(argument='x', position=0)
    """
    code = NamesInFunction(lines, line)
    changed, function = code.changed_on(line), code.function
    if changed is None or function is None:
        return None
    arguments = [each.arg for each in (*function.args.posonlyargs, *function.args.args) if each.arg != "self"]
    returned = place_in_results(function, changed)
    for names in (None, *_other_names_of(code, changed, line)):
        argument = changed if names is None else names.other
        start = function.lineno if names is None else names.line + 1
        is_bound_before = code.is_bound(range(start, line), {changed}) or code.is_bound(
            range(function.lineno, line), {argument}
        )
        if argument in arguments and not is_bound_before and returned is not None:
            return Returned(argument, arguments.index(argument), *returned, names)
    return None


def given_and_kept(
    lines: Mapping[int, str], line: int, position: int, index: int | None = None
) -> tuple[str, str] | None:
    """The name that a call on a line gives at a position, and the other name that its result gets, if the values of
    both are read afterwards.

    Args:
        index: the place of the result among several ones.

    >>> lines = dict(enumerate('''for x in loader:
    ...     hidden = noisy(x, 0.1)
    ...     loss = mse(model(hidden), x)
    ... '''.splitlines(), start=1))
    >>> given_and_kept(lines, 2, 0)
    ('x', 'hidden')
    """
    code = NamesInFunction(lines, line)
    for targets, value in code.tree.assignments:
        target: ast.expr = targets
        if index is not None:
            parts = targets.elts if isinstance(targets, ast.Tuple) else []
            if index >= len(parts):
                continue
            target = parts[index]
        statement = code.statement_of(value)
        given = value.args[position] if isinstance(value, ast.Call) and len(value.args) > position else None
        is_here = statement.lineno <= line <= (statement.end_lineno or 0)
        if not is_here or not isinstance(target, ast.Name) or not isinstance(given, ast.Name) or target.id == given.id:
            continue
        after = code.lines_after(line)
        loads = sum(isinstance(each, ast.Name) and each.id == given.id for each in ast.walk(statement))
        if (loads > 1 or code.is_read(after, given.id)) and code.is_read(after, target.id):
            return given.id, target.id
    return None


def _other_names_of(code: NamesInFunction, changed: str, line: int) -> Iterator[TwoNames]:
    """The assignments before a line that made a name mean what another one means."""
    for assigned, name, meant, value in code.aliases():
        if name == changed and assigned < line:
            yield TwoNames(name, meant, assigned, is_view(value), functions_that_may_copy(value))
