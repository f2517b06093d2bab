"""The line of an in-place change as it would read out of place, where that is certain.

>>> out_of_place("        out += x")
'        out = out + x'
>>> out_of_place("gate.sigmoid_()")
'gate = gate.sigmoid()'
>>> out_of_place("rows[index] = new")
"""

from __future__ import annotations

import ast


def out_of_place(line: str) -> str | None:
    """The statement with a new tensor in place of the change; None for any other statement than the plainest."""
    try:
        (statement,) = ast.parse(line.strip()).body
    except (SyntaxError, ValueError):
        return None
    match statement:
        case ast.AugAssign(target=ast.Name() | ast.Attribute() as target, op=op, value=value):
            new: ast.expr = ast.BinOp(target, op, value)
        case ast.Expr(
            value=ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as target, attr=name)) as call
        ) if _is_in_place(name):
            new = ast.Call(ast.Attribute(target, name[:-1]), call.args, call.keywords)
        case _:
            return None
    indent = line[: len(line) - len(line.lstrip())]
    return f"{indent}{ast.unparse(target)} = {ast.unparse(new)}"


def _is_in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")
