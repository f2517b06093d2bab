"""Python expressions over tensors, printed as mathematics: ``grad * other`` as ``ȳ ∘ b``.

Nothing is simplified or rearranged: what is printed is what is computed. Three things are left out on purpose, and the
notation says so: dimensions that an operation reduces itself (``dim``), the restoring of such dimensions before
broadcasting (``unreduced``), and, for real numbers, conjugates.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from typing import NamedTuple

# How tightly something binds what stands in it; parentheses are printed where it stands in something tighter.
_PHRASE, _COMPARISON, _SUM, _PRODUCT, _MATRIX_PRODUCT, _PREFIX, _POWER, _ATOM = range(8)

_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_OPERATORS: dict[type, tuple[str, int]] = {
    ast.Add: (" + ", _SUM),
    ast.Sub: (" − ", _SUM),
    ast.Div: (" / ", _PRODUCT),
    ast.MatMult: (" ", _MATRIX_PRODUCT),
    ast.BitAnd: (" and ", _COMPARISON),
    ast.BitOr: (" or ", _COMPARISON),
}
_COMPARISONS: dict[type, str] = {
    ast.Eq: "=",
    ast.NotEq: "≠",
    ast.Lt: "<",
    ast.LtE: "≤",
    ast.Gt: ">",
    ast.GtE: "≥",
}
_UNSEEN = frozenset({"unreduced", "to", "flatten", "tuple", "list"})
"""Functions of which only the first argument is printed."""
_UNSEEN_FOR_REAL = frozenset({"conj", "real"})
_AROUND = {
    "abs": ("|", "|"),
    "floor": ("⌊", "⌋"),
    "ceil": ("⌈", "⌉"),
}
_BEFORE = {"sqrt": "√", "sum": "Σ ", "prod": "Π "}
_AFTER = {"t": "ᵀ", "mT": "ᵀ", "mH": "ᴴ", "square": "²"}
_CONSTANTS = {"zeros_like": "0", "new_zeros": "0", "ones_like": "1", "new_ones": "1", "pi": "π", "inf": "∞"}
_NUMBERS = frozenset({"numel", "size", "shape", "ndim", "pi", "len", "range"})
"""What is no tensor though it is made of one."""
_WORDS = {
    "numel": "count",
    "cat": "concatenate",
    "acos": "arccos",
    "asin": "arcsin",
    "atan": "arctan",
    "real": "Re",
    "imag": "Im",
}
_SENTENCES = {
    "where": "{1} where {0}, else {2}",
    "masked_fill": "{2} where {1}, else {0}",
    "reshape": "{0} in {1}",
    "shape": "the shape of {0}",
    "index_add": "{0} with {3} added at {2}",
    "scatter_add": "{0} with {3} added at {2}",
    "index_put": "{0} with {2} put at {1}",
    "index_put_accumulate": "{0} with {2} added at {1}",
    "index_fill": "{0} with {3} put at {2}",
    "index_copy": "{0} with {3} put at {2}",
    "scatter": "{0} with {3} put at {2}",
    "select_scatter": "{0} with {1} put at {3}",
    "slice_scatter": "{0} with {1} put at {3} to {4}",
    "masked_scatter": "{0} with {2} put where {1}",
    "diagonal_scatter": "{0} with {1} put on the diagonal",
}
"""Where an operation is a phrase, by the place of its arguments."""


class _Written(NamedTuple):
    text: str
    binding: int = _ATOM
    is_tensor: bool = True

    def inside(self, binding: int) -> str:
        """The text as part of something that binds as tightly as `binding`."""
        if self.binding >= binding:
            return self.text
        return f"[{self.text}]" if self.binding == _COMPARISON else f"({self.text})"


def mathematics(
    expression: str, symbols: Mapping[str, str], tensors: Collection[str], complex_numbers: bool = False
) -> str:
    """The expression in mathematics, each name written as `symbols` says, or as it is.

    A product with anything made of `tensors` is one element by element. Values may stand for symbols: with
    ``{"grad": "2", "other": "-3"}``, ``grad * other`` is ``2 ∘ (-3)``.
    """
    return _Printer(symbols, tensors, complex_numbers).written(ast.parse(expression, mode="eval").body).text


def is_tensor(expression: str, tensors: Collection[str]) -> bool:
    """Whether the value of an expression is a tensor, and not a number."""
    return _Printer({}, tensors, False).written(ast.parse(expression, mode="eval").body).is_tensor


class _Printer:
    def __init__(self, symbols: Mapping[str, str], tensors: Collection[str], complex_numbers: bool) -> None:
        self._symbols = symbols
        self._tensors = tensors
        self._complex_numbers = complex_numbers

    def written(self, node: ast.expr) -> _Written:
        """One part of an expression. Raises `NotImplementedError` for Python that has no mathematics."""
        match node:
            case ast.Name(name):
                return self._name(name)
            case ast.Constant(value):
                return _number(value)
            case ast.UnaryOp(ast.USub(), operand):
                inner = self.written(operand)
                return _Written(f"−{inner.inside(_PREFIX)}", _PREFIX, inner.is_tensor)
            case ast.UnaryOp(ast.Invert() | ast.Not(), operand):
                return _Written(f"not {self.written(operand).inside(_ATOM)}", _COMPARISON)
            case ast.BinOp(left, operator, right):
                return self._operator(self.written(left), operator, self.written(right))
            case ast.Compare(left, [ast.Is()], [ast.Constant(None)]):
                return _Written(f"{self.written(left).text} is missing", _COMPARISON)
            case ast.Compare(left, [operator], [right]):
                sign = _COMPARISONS[type(operator)]
                return _Written(f"{self._summand(left)} {sign} {self._summand(right)}", _COMPARISON)
            case ast.Subscript(ast.Name("grads"), ast.Constant(int(place))):
                first, _, _ = self._symbols.get("grads", "grads").partition("₁")
                return _Written(first + str(place + 1).translate(_SUBSCRIPTS))
            case ast.Subscript(base, index):
                return _Written(f"{self.written(base).inside(_ATOM)}[{self._listed(index)}]")
            case ast.Tuple() | ast.List():
                return _Written(f"({self._listed(node)})", is_tensor=False)
            case ast.Starred(listed):
                return self.written(listed)
            case ast.IfExp(condition, one, other):
                one, other = self.written(one), self.written(other)
                text = f"{one.text} if {self.written(condition).text}, else {other.text}"
                return _Written(text, _PHRASE, one.is_tensor or other.is_tensor)
            case ast.ListComp(each, [ast.comprehension(name, listed, conditions)]):
                only = "".join(f" if {self.written(condition).text}" for condition in conditions)
                each, name, listed = self.written(each), self.written(name), self.written(listed)
                return _Written(f"{each.text} for each {name.text} of {listed.text}{only}", _PHRASE, is_tensor=False)
            case ast.Call() | ast.Attribute():
                return self._function(node)
        raise NotImplementedError(f"no mathematics for {ast.unparse(node)!r}")

    def _name(self, name: str) -> _Written:
        symbol = self._symbols.get(name, name)
        # A value that stands for a symbol may have a sign.
        return _Written(symbol, _SUM if symbol[:1] in "-−" else _ATOM, name in self._tensors)

    def _summand(self, node: ast.expr) -> str:
        return self.written(node).inside(_SUM)

    def _operator(self, left: _Written, operator: ast.operator, right: _Written) -> _Written:
        is_tensor = left.is_tensor or right.is_tensor
        if isinstance(operator, ast.Pow):
            return _Written(left.inside(_ATOM) + _raised(right), _POWER, is_tensor)
        if isinstance(operator, ast.Mult):
            sign, binding = (" ∘ " if left.is_tensor and right.is_tensor else " · "), _PRODUCT
        else:
            sign, binding = _OPERATORS[type(operator)]
        # a − (b − c) and a / (b ∘ c) need what a + (b + c) does not.
        stricter = isinstance(operator, (ast.Sub, ast.Div))
        left_binding = _ATOM if binding >= _PRODUCT and _runs_on(left.text, operator) else binding
        return _Written(f"{left.inside(left_binding)}{sign}{right.inside(binding + stricter)}", binding, is_tensor)

    def _function(self, node: ast.Call | ast.Attribute) -> _Written:
        name, given, extra = _parts(node)
        if name in _CONSTANTS:
            return _Written(_CONSTANTS[name], is_tensor=name not in _NUMBERS)
        arguments = [self.written(each) for each in given]
        if name in _UNSEEN or (name in _UNSEEN_FOR_REAL and not self._complex_numbers):
            return arguments[0]
        if name in ("sum", "prod"):
            return self._reduced(name, given[0], given[1:])
        if name in _SENTENCES:
            phrase = f"{name}_accumulate" if any(key == "accumulate" for key, _ in extra) else name
            texts = [each.inside(_COMPARISON if each is arguments[0] else _SUM) for each in arguments]
            return _Written(_SENTENCES[phrase].format(*texts), _PHRASE, is_tensor=name != "shape")
        if name in _AROUND:
            return _Written(_AROUND[name][0] + arguments[0].text + _AROUND[name][1])
        if name in _BEFORE:
            return _Written(_BEFORE[name] + arguments[0].inside(_ATOM), _PREFIX, not _is_of(node, "math"))
        if name in _AFTER:
            sign = "ᵀ" if name == "mH" and not self._complex_numbers else _AFTER[name]
            return _Written(arguments[0].inside(_ATOM) + sign, _POWER)
        listed = [each.text for each, was in zip(arguments, given, strict=True) if not _is_dim(was)]
        listed += [f"{key} = {self.written(value).text}" for key, value in extra]
        is_tensor = name not in _NUMBERS and not _is_of(node, "math")
        return _Written(f"{_WORDS.get(name, name)}({', '.join(listed)})", is_tensor=is_tensor)

    def _reduced(self, name: str, what: ast.expr, dims: list[ast.expr]) -> _Written:
        along = "".join(
            f"_{self.written(dim).text}" for dim in dims if not isinstance(dim, ast.Name) or dim.id != "dim"
        )
        if name == "sum" and isinstance(what, ast.BinOp) and isinstance(what.op, ast.Mult):
            left, right = self.written(what.left), self.written(what.right)
            if left.is_tensor and right.is_tensor and " ∘ " not in left.text:
                return _Written(f"⟨{left.text}, {right.text}⟩{along}")
        sign = _BEFORE[name].rstrip() + along
        return _Written(f"{sign} {self.written(what).inside(_PREFIX)}", _PREFIX)

    def _listed(self, node: ast.expr) -> str:
        parts = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
        return ", ".join(self.written(part).text for part in parts)


def _parts(node: ast.Call | ast.Attribute) -> tuple[str, list[ast.expr], list[tuple[str, ast.expr]]]:
    """Name, arguments and keyword arguments, the tensor before the dot being the first argument of its method."""
    called = node.func if isinstance(node, ast.Call) else node
    arguments = list(node.args) if isinstance(node, ast.Call) else []
    keywords = node.keywords if isinstance(node, ast.Call) else []
    extra = [(each.arg, each.value) for each in keywords if each.arg is not None and each.arg != "keepdim"]
    if isinstance(called, ast.Name):
        return called.id, arguments, extra
    assert isinstance(called, ast.Attribute)
    if _is_of(called, "torch", "math"):
        return called.attr, arguments, extra
    return called.attr, [called.value, *arguments], extra


def _runs_on(text: str, operator: ast.operator) -> bool:
    """Whether a factor to the right could be taken for a part of the last one: Σ a ∘ b, and a / b ∘ c."""
    depth = 0
    for sign in text:
        depth += (sign in "([⟨") - (sign in ")]⟩")
        if depth == 0 and (sign in "ΣΠ" or (sign == "/" and isinstance(operator, ast.Mult))):
            return True
    return False


def _is_dim(argument: ast.expr) -> bool:
    return isinstance(argument, ast.Name) and argument.id == "dim"


def _is_of(function: ast.expr, *modules: str) -> bool:
    """Of ``torch.exp`` and ``torch.special.entr``, and not of ``torch.exp(x).sum``."""
    if isinstance(function, ast.Call):
        function = function.func
    while isinstance(function, ast.Attribute):
        function = function.value
    return isinstance(function, ast.Name) and function.id in modules


def _number(value: object) -> _Written:
    text = "…" if value is ... else str(value).replace("-", "−")
    return _Written(text, is_tensor=False)


def _raised(power: _Written) -> str:
    plain = power.text.replace("−", "-")
    if plain.lstrip("-").isdigit():
        return plain.translate(_SUPERSCRIPTS)
    return f"^{power.inside(_ATOM)}"
