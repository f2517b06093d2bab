"""Whether the length of a schedule of learning rates is made of the number of batches in an epoch.

>>> tree = SourceTree(dict(enumerate('''total = epochs * len(loader)
... schedule = CosineAnnealingLR(optimizer, T_max=total)
... other = CosineAnnealingLR(optimizer, epochs)
... for epoch in range(epochs):
...     for x, y in loader:
...         step(x, y)
... '''.splitlines(), start=1)))
>>> length_counts_batches(tree, 2), length_counts_batches(tree, 3)
(True, False)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.rules.bases.sources.arguments import arguments
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import LOOPS, SourceTree, called_name, is_read

_LENGTHS = {
    "OneCycleLR": ("total_steps", 2),
    "CosineAnnealingLR": ("T_max", 1),
    "CosineAnnealingWarmRestarts": ("T_0", 1),
    "LinearLR": ("total_iters", 3),
    "ConstantLR": ("total_iters", 2),
    "PolynomialLR": ("total_iters", 1),
    "StepLR": ("step_size", 1),
    "MultiStepLR": ("milestones", 1),
    "LambdaLR": ("lr_lambda", 1),
}
"""The argument that says how long a schedule is, and its position."""
_MAX_VALUES = 30
_WRAP = frozenset({"enumerate", "zip", "tqdm", "range", "len", "islice", "iter"})


def length_counts_batches(tree: SourceTree, line: int) -> bool:
    """Whether the schedule that a line makes has a length, or a function of its steps, with a number of batches."""
    return any(_counts_batches(tree, length) for length in _lengths_at(tree, line))


def line_that_counts_batches(tree: SourceTree, line: int) -> int | None:
    """The line that computes the length of such a schedule with a number of batches.

    >>> tree = SourceTree(dict(enumerate('''total = epochs * len(loader)
    ... schedule = LambdaLR(optimizer, lambda step: 1 - step / total)
    ... for epoch in range(epochs):
    ...     for x, y in loader:
    ...         step(x, y)
    ... '''.splitlines(), start=1)))
    >>> line_that_counts_batches(tree, 2)
    1
    """
    counted = (number for length in _lengths_at(tree, line) for number in numbers_of_batches(tree, length))
    return next((number.lineno for number in counted if isinstance(number, ast.expr)), None)


def _lengths_at(tree: SourceTree, line: int) -> Iterator[ast.expr]:
    """What says how long the schedules are that a line makes."""
    for node in tree.nodes:
        if isinstance(node, ast.Call) and called_name(node) in _LENGTHS:
            yield from _length(node) if node.lineno <= line <= (node.end_lineno or 0) else ()


def _length(call: ast.Call) -> Iterator[ast.expr]:
    name, position = _LENGTHS[called_name(call)]
    yield from (each.value for each in call.keywords if each.arg == name)
    yield from call.args[position : position + 1]


def _counts_batches(tree: SourceTree, length: ast.expr) -> bool:
    return next((not _is_converted(tree, number) for number in numbers_of_batches(tree, length)), False)


def numbers_of_batches(tree: SourceTree, value: ast.AST) -> Iterator[ast.AST]:
    """The numbers of batches that a value is computed with, also through variables, arguments and functions."""
    batches, sizes = set(_batches(tree)), set(_sizes_of_batches(tree))
    for part in what_it_is_made_of(tree, value, batches):
        for node in ast.walk(part):
            is_named = isinstance(node, (ast.Name, ast.Attribute)) and is_read(node) and _last(node) in batches
            is_named = is_named and not _is_indexed(tree, node)
            if is_named or (isinstance(node, ast.BinOp) and _is_number_of_batches(node, sizes)):
                yield node


def _is_indexed(tree: SourceTree, node: ast.AST) -> bool:
    """Whether one of its elements is read, which is no number of them."""
    return getattr(tree.parent(node), "value", None) is node and isinstance(tree.parent(node), ast.Subscript)


def what_it_is_made_of(tree: SourceTree, value: ast.AST, known: set[str] | None = None) -> Iterator[ast.AST]:
    """A value, and those of the variables, arguments and functions in it; not of names that are known."""
    values = dict(_values(tree))
    waiting, seen = [value], list[ast.AST]()
    while waiting and len(seen) < _MAX_VALUES:
        value = waiting.pop()
        if value in seen:
            continue
        seen.append(value)
        yield value
        for node in ast.walk(value):
            if isinstance(node, (ast.Name, ast.Attribute)) and is_read(node) and _last(node) not in (known or ()):
                waiting += values.get(_last(node), [])


def _is_number_of_batches(node: ast.BinOp, sizes: set[str]) -> bool:
    """``len(x) // size``, where loops go over parts of this size."""
    is_ratio = isinstance(node.op, (ast.Div, ast.FloorDiv)) and isinstance(node.right, (ast.Name, ast.Attribute))
    if not is_ratio or _last(node.right) not in sizes:  # type: ignore[arg-type]
        return False
    counted = [called_name(each) or getattr(each, "attr", "") for each in ast.walk(node.left)]
    return not {"len", "size", "shape", "numel"}.isdisjoint(counted)


def _sizes_of_batches(tree: SourceTree) -> Iterator[str]:
    """What inner loops give to ``split()``, or as the step of ``range()``, or what a loader gets."""
    for loop in _inner_loops(tree):
        for call in (each for each in ast.walk(loop.iter) if isinstance(each, ast.Call)):
            given = {"split": call.args[:1], "range": call.args[2:3]}.get(called_name(call), [])
            yield from (_last(each) for each in given if isinstance(each, (ast.Name, ast.Attribute)))
    for node in tree.nodes:
        if isinstance(node, ast.Call) and called_name(node) == "DataLoader":
            given = [*node.args[1:2], *(each.value for each in node.keywords if each.arg == "batch_size")]
            yield from (_last(each) for each in given if isinstance(each, (ast.Name, ast.Attribute)))


def _is_converted(tree: SourceTree, number: ast.AST) -> bool:
    """Whether a number of batches makes epochs of steps, or steps of epochs, in a function: divided by it, or times
    the argument."""
    around = [each for each in tree.around(number) if isinstance(each, (ast.BinOp, ast.Lambda, *FUNCTIONS))]
    function = next((each for each in around if isinstance(each, (ast.Lambda, *FUNCTIONS))), None)
    products = [each for each in around if isinstance(each, ast.BinOp)]
    if function is None or not _is_of_one_number(function):
        below = [each.right for each in products if isinstance(each.op, (ast.Div, ast.FloorDiv))]
        return any(number in ast.walk(each) for each in below)
    (argument, *_) = (each.arg for each in function.args.args)
    return any(
        isinstance(each.op, ast.Mult) and any(getattr(part, "id", "") == argument for part in (each.left, each.right))
        for each in products
    )


def _is_of_one_number(function: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it may be the function of a schedule: it has one argument without a default."""
    return len(function.args.args) - len(function.args.defaults) == 1


def _values(tree: SourceTree) -> Iterator[tuple[str, list[ast.AST]]]:
    """By the last part of their names: what variables, arguments and functions are."""
    found: dict[str, list[ast.AST]] = {}
    for target, value in tree.assignments:
        is_own = isinstance(value, (ast.Name, ast.Attribute)) and getattr(target, "attr", None) == _last(value)
        if isinstance(target, (ast.Name, ast.Attribute)) and not is_own:  # Not self.total = total.
            found.setdefault(_last(target), []).append(value)
    for key, value, _ in arguments(tree):
        if not (isinstance(value, (ast.Name, ast.Attribute)) and _last(value) == key.name and key.name in found):
            found.setdefault(key.name, []).append(value)
    for node in tree.nodes:
        if isinstance(node, FUNCTIONS):
            found.setdefault(node.name, []).append(node)
    yield from ((name, each) for name, each in found.items() if len(each) == 1)


def _batches(tree: SourceTree) -> Iterator[str]:
    """What loops inside of other loops go over, or how often they run."""
    inner = set(_inner_loops(tree))
    loops = [node for node in tree.nodes if isinstance(node, ast.For)]
    outer = {loop for loop in loops if any(isinstance(node, LOOPS) for each in loop.body for node in ast.walk(each))}
    outer -= inner
    of_outer = {name for loop in outer for name in _gone_over(loop.iter)}
    for loop in loops:
        if loop in inner:
            yield from (name for name in _gone_over(loop.iter) if name not in of_outer)


def _inner_loops(tree: SourceTree) -> Iterator[ast.For]:
    """Loops that compute gradients, or have no other one in them, and run in a loop, also in a function that a loop
    calls."""
    trains = {next(tree.loops_around(node), None) for node in tree.nodes if called_name(node) == "backward"}
    called = {called_name(node) for node in tree.nodes if next(tree.loops_around(node), None) is not None}
    for loop in (node for node in tree.nodes if isinstance(node, ast.For)):
        function = getattr(tree.scope(loop), "name", None)
        is_outer = any(isinstance(node, LOOPS) for each in loop.body for node in ast.walk(each)) and loop not in trains
        if not is_outer and (function in called or next(tree.loops_around(loop), None) is not None):
            yield loop


def _gone_over(iterable: ast.expr) -> Iterator[str]:
    if isinstance(iterable, (ast.Name, ast.Attribute)):
        yield _last(iterable)
    elif called_name(iterable) in _WRAP and isinstance(iterable, ast.Call):
        for each in iterable.args:
            yield from _gone_over(each)


def _last(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr
