"""Plain names that a program assigns and never reads, found in the lines of its source.

>>> lines = dict(enumerate('''def steps(f, y, times):
...     for i in range(20):
...         dt = times[i + 1] - times[i]
...         y = y + f(y)
...     return y
... '''.splitlines(), start=1))
>>> [each.name for each in unread_assignments(lines, 3)]
['dt']
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from gradviz.analysis.sources.parsed_lines import FUNCTIONS, READ_ALL, function_around, parsed
from gradviz.analysis.sources.source_tree import SourceTree, is_read


class Unread(Struct, frozen=True):
    """An assignment to a name that nothing reads."""

    name: str
    line: int
    operations: frozenset[str]
    """The names of the operation that makes the value, or of calls that make a number of it."""


def unread_assignments(lines: Mapping[int, str], line: int) -> Iterator[Unread]:
    """The assignments on a line to plain names that the function around it, or the program around it, never reads."""
    numbers = function_around(lines, line)
    if numbers is None or not _is_whole(lines, numbers):
        return
    tree = parsed([lines[number] for number in numbers])
    if tree is None:
        return
    module, trimmed = tree
    first = numbers[0] + trimmed
    nodes = list(ast.walk(module))
    if any(isinstance(node, ast.Name) and node.id in READ_ALL for node in nodes):
        return
    elsewhere = "\n".join(text for number, text in lines.items() if number not in numbers or number < first)
    for node in nodes:
        if isinstance(node, ast.Assign) and first + node.lineno - 1 <= line <= first + (node.end_lineno or 0) - 1:
            name = _plain_name(node)
            if name and not _may_be_read(nodes, name) and not _is_shared(module, elsewhere, name):
                yield Unread(name, first + node.lineno - 1, frozenset(_operations(node.value)))


def unread_attributes(trees: Iterable[SourceTree], tree: SourceTree, line: int) -> Iterator[Unread]:
    """The assignments on a line to attributes of ``self`` that no file of the program reads.

    Args:
        trees: all files of the program.
        tree: the one with the line.
    """
    for node in tree.nodes:
        if not isinstance(node, ast.Assign) or not node.lineno <= line <= (node.end_lineno or node.lineno):
            continue
        target = node.targets[0]
        is_own = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
        if len(node.targets) != 1 or not is_own or not isinstance(target, ast.Attribute):
            continue
        if not any(_mentions(each, target.attr) for of_file in trees for each in of_file.nodes):
            yield Unread(target.attr, node.lineno, frozenset(_operations(node.value)))


def _mentions(node: ast.AST, attribute: str) -> bool:
    """Whether a node may read an attribute, by its name or all of an object's."""
    if isinstance(node, ast.Attribute):
        return node.attr in ("__dict__", "__getattr__") or (node.attr == attribute and is_read(node))
    if isinstance(node, ast.Name):
        return node.id in ("vars", "setattr")
    return isinstance(node, ast.Constant) and node.value == attribute


def _is_whole(lines: Mapping[int, str], numbers: range) -> bool:
    """Whether what follows the function is known to be no part of it, and nothing that is unknown lies in between."""
    is_function = lines[numbers[0]].lstrip().startswith(("def ", "async def "))
    if not is_function:
        return min(lines) == 1 and len(lines) == max(lines) == numbers[-1]
    return numbers[-1] + 1 in lines or max(lines) == numbers[-1]


def _plain_name(node: ast.Assign) -> str:
    target = node.targets[0]
    is_plain = len(node.targets) == 1 and isinstance(target, ast.Name) and not target.id.startswith("_")
    return target.id if is_plain and isinstance(target, ast.Name) else ""


def _may_be_read(nodes: list[ast.AST], name: str) -> bool:
    """Whether a name is read, deleted, added to, shared with other functions, or written in a string."""
    for node in nodes:
        if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Store):
            return True
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            return True
        if isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names:
            return True
        if isinstance(node, ast.Constant) and node.value == name:
            return True
    return False


def _is_shared(module: ast.Module, elsewhere: str, name: str) -> bool:
    """Whether other lines of the file may read a name that is no local one of a function."""
    only = module.body[0] if len(module.body) == 1 else None
    return not isinstance(only, FUNCTIONS) and bool(re.search(rf"\b{re.escape(name)}\b", elsewhere))


def _operations(value: ast.expr) -> Iterator[str]:
    """The operation that makes a value; also the calls in it that make Python numbers."""
    if isinstance(value, (ast.BinOp, ast.UnaryOp)):
        yield _OPERATORS.get(type(value.op), "")
    elif isinstance(value, ast.Compare):
        yield from (_OPERATORS.get(type(each), "") for each in value.ops)
    elif isinstance(value, ast.Subscript):
        yield "getitem"
    called = (_name_of_call(node) for node in ast.walk(value) if isinstance(node, ast.Call))
    yield from (name for name in called if name in NUMBERS)
    if isinstance(value, ast.Call) and not _name_of_call(value).endswith("_"):
        yield _name_of_call(value)


NUMBERS = frozenset({"item", "float", "int", "tolist"})
"""Calls that make Python numbers of tensors, which the program may use unseen."""
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow", ast.MatMult: "matmul",
    ast.Invert: "invert", ast.USub: "neg", ast.Lt: "lt", ast.Gt: "gt", ast.LtE: "le", ast.GtE: "ge", ast.Eq: "eq",
    ast.NotEq: "ne", ast.BitAnd: "and", ast.BitOr: "or",
}  # fmt: skip


def _name_of_call(call: ast.Call) -> str:
    function = call.func
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )
