"""Learning rates that a program sets itself, from numbers of batches, and asks for once in each epoch.

>>> tree = SourceTree(dict(enumerate('''rates = iter(cosine(0.1, epochs * len(loader)))
... for epoch in range(epochs):
...     rate = next(rates)
...     for group in optimizer.param_groups:
...         group["lr"] = rate
...     for x, y in loader:
...         optimizer.step()
... '''.splitlines(), start=1)))
>>> rates_for_epochs(tree)
[3]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.rules.bases.sources.rates.numbers_of_batches import numbers_of_batches, what_it_is_made_of
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import Loop, SourceTree, called_name, last_name

_GROUPS = "param_groups"
_MAX_CALLERS = 3


def rates_for_epochs(tree: SourceTree) -> list[int]:
    """The lines that take such a rate, or that hand over the method that does; none if any rate is taken where a loop
    also steps."""
    found = list[int]()
    for target, value in rates_set(tree):
        for site, loop in _sites(tree, target, _MAX_CALLERS):
            if loop is None and _is_handed_over(tree, site):
                if any(numbers_of_batches(tree, value)):
                    found.append(site.lineno)
                continue
            if loop is None or _steps_itself(tree, loop):
                return []
            if any(numbers_of_batches(tree, value)) and not _counts_batches(tree, value, loop):
                found.append(_line_of_value(tree, value, loop) or site.lineno)
    return sorted(set(found))


def line_that_counts(tree: SourceTree) -> int | None:
    """The only line that counts what a rate is computed with, if another function sets the rate."""
    found = set[int]()
    for target, value in rates_set(tree):
        parts = [node for part in what_it_is_made_of(tree, value) for node in ast.walk(part)]
        names = {last_name(node) for node in parts if isinstance(node, (ast.Name, ast.Attribute))}
        counts = [node for node in tree.nodes if isinstance(node, ast.AugAssign) and last_name(node.target) in names]
        found.update(node.lineno for node in counts if tree.scope(node) is not tree.scope(target))
    return found.pop() if len(found) == 1 else None


def lines_that_scale_rates(tree: SourceTree) -> Iterator[int]:
    """The lines that compute a learning rate from the current one: ``group["lr"] *= 0.5``, ``group.update(lr=...)``."""
    for node in tree.nodes:
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript) and _is_rate(node.target):
            yield node.lineno
        if called_name(node) == "update" and isinstance(node, ast.Call):
            given = (each.value for each in node.keywords if each.arg == "lr")
            yield from (node.lineno for value in given if _reads_rate(value))
    yield from (target.lineno for target, value in rates_set(tree) if _reads_rate(value))


def _reads_rate(value: ast.expr) -> bool:
    return any(isinstance(each, ast.Subscript) and _is_rate(each) for each in ast.walk(value))


def rates_set(tree: SourceTree) -> Iterator[tuple[ast.Subscript, ast.expr]]:
    """What is assigned to ``group["lr"]``."""
    for target, value in tree.assignments:
        if isinstance(target, ast.Subscript) and _is_rate(target):
            yield target, value


def _is_rate(node: ast.Subscript) -> bool:
    return getattr(node.slice, "value", None) == "lr"


def _is_handed_over(tree: SourceTree, site: ast.expr) -> bool:
    """Whether a method is an argument of a call, and not called: what calls it cannot be read."""
    call = tree.parent(site)
    return isinstance(site, ast.Attribute) and isinstance(call, ast.Call) and site in call.args


def _sites(tree: SourceTree, node: ast.expr, callers: int) -> Iterator[tuple[ast.expr, Loop | None]]:
    """Where a statement runs in a loop that is no loop over groups: itself, or calls of its function."""
    loop = next((each for each in tree.loops_around(node) if not _is_over_groups(each)), None)
    scope = tree.scope(node)
    if loop is not None or not isinstance(scope, FUNCTIONS) or not callers:
        yield node, loop
        return
    for call in tree.nodes:
        is_call = isinstance(call, ast.Call) and called_name(call) == scope.name and scope not in tree.around(call)
        if is_call and isinstance(call, ast.Call) and _may_call(tree, call, scope):
            if not _is_of_constructor(tree, call, scope):
                yield from _sites(tree, call, callers - 1)
        elif isinstance(call, ast.Attribute) and call.attr == scope.name and _is_handed_over(tree, call):
            yield from [(call, None)] if _counts_ones(scope) and _is_made_of(tree, call.value, scope) else []


def _is_of_constructor(tree: SourceTree, call: ast.Call, function: ast.AST) -> bool:
    """Whether an object calls its own method when it is made: that only sets the first rate."""
    scope = tree.scope(call)
    return getattr(scope, "name", "") == "__init__" and tree.parent(scope) is tree.parent(function)


def _counts_ones(function: ast.AST) -> bool:
    """Whether a function counts its own calls, so that what is asked once in each epoch counts epochs."""
    counts = [node for node in ast.walk(function) if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add)]
    return any(getattr(node.value, "value", None) == 1 for node in counts)


def _is_made_of(tree: SourceTree, receiver: ast.expr, function: ast.AST) -> bool:
    """Whether a variable holds an object of the class that has a method."""
    owner, key = tree.parent(function), tree.key_of(receiver)
    made = [called_name(value) for value in tree.values_of(key)]
    return isinstance(owner, ast.ClassDef) and owner.name in made


def _may_call(tree: SourceTree, call: ast.Call, function: ast.AST) -> bool:
    """Whether a call may be one of this method: not of an object of another class, nor of an optimizer."""
    owner = tree.parent(function)
    if not isinstance(owner, ast.ClassDef) or not isinstance(call.func, ast.Attribute):
        return True
    receiver, key = call.func.value, tree.key_of(call.func.value)
    made = [called_name(value) for value in tree.values_of(key)]
    if made:
        return owner.name in made
    return "opt" not in (getattr(receiver, "id", "") or getattr(receiver, "attr", "")).lower()


def _is_over_groups(loop: Loop) -> bool:
    return isinstance(loop, ast.For) and any(getattr(each, "attr", "") == _GROUPS for each in ast.walk(loop.iter))


def _steps_itself(tree: SourceTree, loop: Loop) -> bool:
    """Whether the loop computes gradients, and no other loop in it does."""
    backward = [each for each in ast.walk(loop) if called_name(each) in ("backward", "grad")]
    return any(next(tree.loops_around(each), None) is loop for each in backward)


def _counts_batches(tree: SourceTree, value: ast.expr, loop: Loop) -> bool:
    """Whether a number of batches is multiplied with what counts the rounds of the loop: then that counts batches,
    too."""
    target = None if isinstance(loop, ast.While) else loop.target
    counters = {each.id for each in ast.walk(target) if isinstance(each, ast.Name)} if target is not None else set()
    for part in what_it_is_made_of(tree, value):
        for node in ast.walk(part):
            factors = list(_factors(node)) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) else []
            others = [each for each in factors if not _is_counter(each, counters)]
            if len(others) < len(factors) and any(any(numbers_of_batches(tree, each)) for each in others):
                return True
    return False


def _factors(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield from (each for side in (node.left, node.right) for each in _factors(side))
    else:
        yield node


def _is_counter(node: ast.AST, counters: set[str]) -> bool:
    """``epoch``, or ``epoch + 1``."""
    sides = [node.left, node.right] if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) else [node]
    return any(getattr(each, "id", None) in counters for each in sides)


def _line_of_value(tree: SourceTree, value: ast.expr, loop: Loop) -> int | None:
    """The line in the same loop that gives a rate its name."""
    key = tree.key_of(value)
    lines = [target.lineno for target, _ in tree.assignments if key is not None and tree.key_of(target) == key]
    return lines[0] if len(lines) == 1 and loop.lineno <= lines[0] <= (loop.end_lineno or 0) else None
