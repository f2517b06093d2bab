"""Which methods of a tensor the operators in a code object call: Python tells no profile function of them."""

from __future__ import annotations

import dis
from collections.abc import Sequence
from itertools import pairwise
from types import CodeType

_METHODS = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "%": "remainder",
    "**": "pow",
    "@": "matmul",
    "//": "__floordiv__",
    "+=": "add_",
    "-=": "sub_",
    "*=": "mul_",
    "/=": "div_",
    "%=": "remainder_",
    "**=": "pow_",
    "@=": "matmul",
    "//=": "floor_divide_",
}
"""What a function mode sees."""

_BEHIND_A_NUMBER = {"-": "__rsub__", "/": "__rdiv__", "%": "__rmod__", "**": "__rpow__", "//": "__rfloordiv__"}
"""The same where a number stands before the operator: ``1 - x``."""

_OTHERS = {
    "BINARY_SUBSCR": "__getitem__",
    "BINARY_SLICE": "__getitem__",
    "STORE_SUBSCR": "__setitem__",
    "STORE_SLICE": "__setitem__",
    "UNARY_NEGATIVE": "neg",
}

_SIGNS_BEFORE_3_11 = {
    "ADD": "+",
    "SUBTRACT": "-",
    "MULTIPLY": "*",
    "TRUE_DIVIDE": "/",
    "MODULO": "%",
    "POWER": "**",
    "MATRIX_MULTIPLY": "@",
    "FLOOR_DIVIDE": "//",
}
"""By what Python 3.10 calls the instructions: ``BINARY_ADD``."""


def operators_in(code: CodeType) -> dict[int, str]:
    """The method for each instruction that is an operator, by its offset."""
    instructions = list(dis.get_instructions(code))
    found: dict[int, str] = {}
    for index, each in enumerate(instructions):
        sign = _sign_of(each)
        if sign.startswith("["):  # how Python 3.14 writes an index
            found[each.offset] = "__getitem__"
        elif sign in _BEHIND_A_NUMBER and _follows_number(instructions, index):
            found[each.offset] = _BEHIND_A_NUMBER[sign]
        elif method := _METHODS.get(sign) or _OTHERS.get(each.opname):
            found[each.offset] = method
    return found


def _sign_of(instruction: dis.Instruction) -> str:
    if instruction.opname == "BINARY_OP":
        return instruction.argrepr
    kind, _, word = instruction.opname.partition("_")
    sign = _SIGNS_BEFORE_3_11.get(word, "")
    return f"{sign}=" if sign and kind == "INPLACE" else sign if kind == "BINARY" else ""


def _follows_number(instructions: Sequence[dis.Instruction], index: int) -> bool:
    """Whether the left operand is a number in the code: the right one is what pushed one value before the operator."""
    missing = 1
    while missing > 0 and index > 0:
        index -= 1
        before = instructions[index]
        missing -= dis.stack_effect(before.opcode, before.arg, jump=False)
    left = instructions[index - 1] if index else None
    return left is not None and isinstance(left.argval, int | float) and left.opname.startswith("LOAD_")


def reads_of_data(code: CodeType) -> dict[int, str]:
    """For each instruction that reads an attribute ``data`` of a local variable, by its offset, that variable."""
    if "data" not in code.co_names:
        return {}
    instructions = list(dis.get_instructions(code))
    return {
        each.offset: _last_variable(before)
        for before, each in pairwise(instructions)
        if each.opname == "LOAD_ATTR" and each.argval == "data" and "LOAD_FAST" in before.opname
    }


def _last_variable(load: dis.Instruction) -> str:
    """The one that is on top of the stack: from Python 3.13 on, an instruction may store or load another one before."""
    return str(load.argval[-1] if isinstance(load.argval, tuple) else load.argval)
