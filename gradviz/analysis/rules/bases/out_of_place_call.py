"""The line of an in-place change, rewritten as an out-of-place operation where that is certain.

>>> out_of_place("        out += x", "torch.Tensor.add_")
'        out = out + x'
>>> out_of_place("gate.sigmoid_()", "torch.Tensor.sigmoid_")
'gate = gate.sigmoid()'
>>> out_of_place("functional.relu_(gate)", "torch.relu_")
>>> out_of_place("rows[index] = new", "torch.Tensor.__setitem__")
"""

from __future__ import annotations

import ast

from gradviz.analysis.case import Case

_METHODS = "torch.Tensor."


def call_out_of_place(case: Case, row: int) -> str | None:
    """The line of a call that changed a tensor, rewritten as an out-of-place operation."""
    flow = case.dataflow
    site, function = flow.log.calls[row].call_site, flow.log.calls[row].function
    if site is None or flow.log.call_sites[site].is_library:  # The line calls a function that makes the change.
        return None
    return out_of_place(case.source_line(case.location_of_call(row)) or "", function)


def out_of_place(line: str, function: str) -> str | None:
    """The statement that makes a new tensor instead of the change that a function made.

    None for all but the simplest statements, and if the function is not a method of the changed tensor.
    """
    if not function.startswith(_METHODS):
        return None
    try:
        (statement,) = ast.parse(line.strip()).body
    except (SyntaxError, ValueError):
        return None
    match statement:
        case ast.AugAssign(target=ast.Name() | ast.Attribute() as target, op=op, value=value):
            new: ast.expr = ast.BinOp(target, op, value)
        case ast.Expr(
            value=ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as target, attr=name)) as call
        ) if _is_in_place(name) and name == function.removeprefix(_METHODS):
            new = ast.Call(ast.Attribute(target, name[:-1]), call.args, call.keywords)
        case _:
            return None
    indent = line[: len(line) - len(line.lstrip())]
    return f"{indent}{ast.unparse(target)} = {ast.unparse(new)}"


def _is_in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")
