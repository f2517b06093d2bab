"""Names that a program binds by unpacking a batch and never reads, found in the lines of its source.

>>> lines = dict(enumerate('''def fit(loader):
...     for x, lengths, y in loader:
...         lengths = lengths.to("cuda")
...         loss = f(model(x), y)
... '''.splitlines(), start=1))
>>> unread_name(lines, 4, "lengths"), unread_name(lines, 4, "y")
(2, None)
>>> lines = dict(enumerate('''states, done = zip(*batch)
... states, done = torch.stack(states), torch.tensor(done, dtype=torch.float32)
... loss = f(model(states))
... '''.splitlines(), start=1))
>>> unread_name(lines, 3, "done"), unread_name(lines, 3, "states")
(1, None)
>>> lines = dict(enumerate('''while True:
...     state, reward, done = env.step(action)
...     memory.append((state, reward, done))
...     states, rewards, done = memory.sample()
...     loss = f(model(states), rewards)
... '''.splitlines(), start=1))
>>> unread_name(lines, 5, "done")
4
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from gradviz.analysis.sources.parsed_lines import FUNCTIONS, READ_ALL, function_around, parsed

_CARRY = frozenset({"to", "cuda", "cpu", "float", "long", "double", "bool", "int", "unsqueeze", "squeeze", "view"})
_MAKE = frozenset({"tensor", "as_tensor", "from_numpy", "stack", "array", "asarray", "FloatTensor", "BoolTensor"})


def unread_name(lines: Mapping[int, str], line: int, name: str) -> int | None:
    """The line that unpacks a batch into a name, in the function around another line; None if something may read it."""
    function = _parsed_around(lines, line)
    return None if function is None else _unread(*function, name)


def unread_names(lines: Mapping[int, str], line: int, pattern: re.Pattern[str]) -> tuple[str, ...]:
    """All names of a pattern that the function around a line takes out of a batch and never reads."""
    function = _parsed_around(lines, line)
    if function is None:
        return ()
    names = dict.fromkeys(each.id for each in _unpacked(list(ast.walk(function[0]))) if pattern.fullmatch(each.id))
    return tuple(name for name in names if _unread(*function, name) is not None)


def _parsed_around(lines: Mapping[int, str], line: int) -> tuple[ast.Module, int] | None:
    """The function around a line, and the number of its first line."""
    numbers = function_around(lines, line)
    tree = None if numbers is None else parsed([lines[number] for number in numbers])
    return None if numbers is None or tree is None else (tree[0], numbers[0] + tree[1])


def _unread(module: ast.Module, first: int, name: str) -> int | None:
    nodes = list(_nodes(module, name))
    bound = {node.lineno for node in _unpacked(nodes) if node.id == name}
    unread = [each for each in sorted(bound) if not _is_read(nodes, name, each)]
    return first + unread[0] - 1 if len(unread) == 1 else None


def _nodes(module: ast.Module, name: str) -> Iterator[ast.AST]:
    """The nodes of a module, or of the only function in it, without the functions in it that have such a name, too."""
    only = module.body[0] if len(module.body) == 1 else None
    waiting: list[ast.AST] = list(only.body) if isinstance(only, FUNCTIONS) else [module]
    while waiting:
        node = waiting.pop()
        yield node
        inner = ast.iter_child_nodes(node)
        waiting += [each for each in inner if not (isinstance(each, FUNCTIONS) and _binds(each, name))]


def _binds(function: ast.AST, name: str) -> bool:
    return any(
        (isinstance(node, ast.arg) and node.arg == name)
        or (isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store))
        for node in ast.walk(function)
    )


def _unpacked(nodes: list[ast.AST]) -> Iterator[ast.Name]:
    """The names that loops and assignments take out of one value."""
    for node in nodes:
        targets = [node.target] if isinstance(node, ast.For) else node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
            continue
        for target in targets:
            if isinstance(target, (ast.Tuple, ast.List)):
                yield from (each for each in ast.walk(target) if isinstance(each, ast.Name))


def _is_read(nodes: list[ast.AST], name: str, bound: int) -> bool:
    """Whether something may read a name that a line binds, before another line binds it again.

    What only moves the data, or makes a tensor of them, and gives them their name again does not count. In a loop,
    lines above may run later.
    """
    names = [node for node in nodes if isinstance(node, ast.Name)]
    moved = {id(each) for node in nodes for each in _moved(node, name)}
    here = [node for node in names if node.id == name and id(node) not in moved]
    again = sorted({node.lineno for node in here if isinstance(node.ctx, ast.Store)} - {bound})
    reads = [node.lineno for node in here if not isinstance(node.ctx, ast.Store)]
    following = next((line for line in again if line > bound), None)
    if following is not None:
        is_read = any(bound < line <= following for line in reads)
    else:
        is_read = any(line > bound or not again or line <= again[0] for line in reads)
    return is_read or any(node.id in READ_ALL for node in names)


def _moved(node: ast.AST, name: str) -> Iterator[ast.Name]:
    """Both of ``name = name.to(device)`` and ``name = torch.tensor(name)``, also in an assignment of several."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return
    targets, values = _elements(node.targets[0]), _elements(node.value)
    for target, value in zip(targets, values, strict=False):
        if not isinstance(target, ast.Name) or target.id != name:
            continue
        while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _CARRY:
            value = value.func.value
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _MAKE:
            value = value.args[0] if len(value.args) == 1 else value
        if isinstance(value, ast.Name) and value.id == name:
            yield from (target, value)


def _elements(expression: ast.expr) -> list[ast.expr]:
    return expression.elts if isinstance(expression, (ast.Tuple, ast.List)) else [expression]
