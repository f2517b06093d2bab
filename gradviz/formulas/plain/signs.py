"""How each Python operation is written in mathematics."""

from __future__ import annotations

import ast

# How tightly operators bind; an operand that binds less tightly than its operator gets parentheses.
PHRASE, COMPARISON, SUM, PRODUCT, MATRIX_PRODUCT, PREFIX, POWER, ATOM = range(8)

OPERATORS: dict[type[ast.operator], tuple[str, int]] = {
    ast.Add: (" + ", SUM),
    ast.Sub: (" − ", SUM),
    ast.Div: (" / ", PRODUCT),
    ast.Mod: (" mod ", PRODUCT),
    ast.FloorDiv: (" / ", PRODUCT),
    ast.MatMult: (" ", MATRIX_PRODUCT),
    ast.BitAnd: (" and ", COMPARISON),
    ast.BitOr: (" or ", COMPARISON),
}
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "=",
    ast.NotEq: "≠",
    ast.Lt: "<",
    ast.LtE: "≤",
    ast.Gt: ">",
    ast.GtE: "≥",
}
SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")

UNSEEN = frozenset(
    {
        "unreduced",
        "columns",
        "clone",
        "to",
        "long",
        "expand_as",
        "flatten",
        "squeeze",
        "unsqueeze",
        "tuple",
        "list",
        "tensor",
        "tolist",
    }
)
"""Functions of which only the first argument is printed: they change the layout of numbers, not the numbers."""
UNSEEN_BUT_FIRST = frozenset(
    {"unfold", "unfolded", "fold", "folded", "grouped", "grouped_kernels", "avg_pool2d", "avg_pool3d"}
)
"""Functions whose further arguments repeat those of the operation."""
UNSEEN_FOR_REAL = frozenset({"conj", "conjugate", "real"})
UNSEEN_ARGUMENTS = frozenset({"dim", "keepdim", "dtype", "return_indices"})

CONSTANTS = {
    "zeros_like": "0",
    "new_zeros": "0",
    "ones_like": "1",
    "new_ones": "1",
    "eye": "I",
    "pi": "π",
    "inf": "∞",
}
OF_A_SHAPE = frozenset({"numel", "size", "shape", "ndim"})
NUMBERS = OF_A_SHAPE | {"pi", "inf", "len", "range"}
"""Functions whose value is not a tensor, even if their argument is."""
AROUND = {"abs": ("|", "|"), "floor": ("⌊", "⌋"), "ceil": ("⌈", "⌉")}
BEFORE = {"sqrt": "√", "shape": "the shape of "}
AFTER = {"t": "ᵀ", "mT": "ᵀ", "mH": "ᴴ", "square": "²"}
REDUCTIONS = {"sum": "Σ", "prod": "Π"}
PHRASES = {
    "where": "{1} where {0}, else {2}",
    "masked_fill": "{2} where {1}, else {0}",
    "reshape": "{0} in {1}",
    "sum_to_size": "{0} summed to {1}",
    "gather": "{0} at {2}",
    "index_select": "{0} at {2}",
    "take": "{0} at {1}",
    "index_add": "{0} with {3} added at {2}",
    "scatter_add": "{0} with {3} added at {2}",
    "index_put": "{0} with {2} put at {1}",
    "index_put_accumulate": "{0} with {2} added at {1}",
    "index_fill": "{0} with {3} put at {2}",
    "index_copy": "{0} with {3} put at {2}",
    "scatter": "{0} with {3} put at {2}",
    "select_scatter": "{0} with {1} put at {3}",
    "slice_scatter": "{0} with {1} put at {3}:{4}:{5}",
    "masked_scatter": "{0} with {2} put where {1}",
    "diagonal_scatter": "{0} with {1} put on the diagonal",
}
"""Operations that are written in words, with their arguments by index."""
WORDS = {
    "numel": "count",
    "cat": "concatenate",
    "conjugate": "conj",
    "diag_embed": "diag",
    "unfolded": "unfold",
    "folded": "fold",
    "acos": "arccos",
    "asin": "arcsin",
    "atan": "arctan",
    "real": "Re",
    "imag": "Im",
    "grouped": "matrix",
    "grouped_kernels": "matrix",
    "running_sum_from_the_end": "sum_from_the_end",
}
"""Functions with another name in mathematics."""
