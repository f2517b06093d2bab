"""Prints Python expressions over tensors as mathematics: ``grad * other`` as ``ȳ ∘ b``.

Nothing is simplified or rearranged: it prints what is computed. Left out on purpose, and explained by the notation: the
dimension along which the operation itself works (``dim``), how reduced dimensions are restored before broadcasting
(``unreduced``, ``unsqueeze``), and, for real numbers, conjugates.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gradviz.formulas.plain import signs
from gradviz.formulas.plain.signs import ATOM, COMPARISON, MATRIX_PRODUCT, PHRASE, POWER, PREFIX, PRODUCT, SUM


@dataclass(frozen=True, slots=True)
class Writing:
    """How an expression is written."""

    symbols: Mapping[str, str]
    """Symbols for names; other names are written as they are."""
    tensors: Collection[str]
    """Names of tensors: products with anything made of them are element by element."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Text that replaces names whose value is known: ``{"grad": "2", "other": "-3"}``."""
    complex_numbers: bool = False
    """Whether conjugates are written out."""


def mathematics(expression: ast.expr, writing: Writing) -> str:
    """The expression in mathematics. Raises `NotImplementedError` for Python that has none."""
    return _Printer(writing).written(expression).text


def is_tensor(expression: ast.expr, tensors: Collection[str]) -> bool:
    """Whether the value of an expression is a tensor, and not a number."""
    return _Printer(Writing({}, tensors)).written(expression).is_tensor


class _Written(NamedTuple):
    text: str
    binding: int = ATOM
    is_tensor: bool = True

    def inside(self, binding: int) -> str:
        """The text as part of an expression that binds as tightly as `binding`."""
        if self.binding >= binding:
            return self.text
        return f"[{self.text}]" if self.binding == COMPARISON else f"({self.text})"


class _Printer:
    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def written(self, node: ast.expr) -> _Written:
        """One part of an expression."""
        match node:
            case ast.Name(name):
                return self._name(name)
            case ast.Constant(value):
                return _constant(value)
            case ast.UnaryOp(ast.USub(), operand):
                inner = self.written(operand)
                return _Written(f"−{inner.inside(PREFIX)}", PREFIX, inner.is_tensor)
            case ast.UnaryOp(ast.Invert() | ast.Not(), operand):
                return _Written(f"not {self.written(operand).inside(ATOM)}", COMPARISON)
            case ast.BinOp(left, operator, right):
                return self._operator(self.written(left), operator, self.written(right))
            case ast.Compare(left, [ast.Is()], [ast.Constant(None)]):
                return _Written(f"{self.written(left).text} is missing", COMPARISON)
            case ast.Compare(left, [ast.In()], [choices]):
                return _Written(f"{self.written(left).text} is one of {self._listed(choices)}", COMPARISON)
            case ast.Compare(left, [comparison], [right]):
                sign = signs.COMPARISONS[type(comparison)]
                sides = (self.written(side).inside(SUM) for side in (left, right))
                return _Written(f" {sign} ".join(sides), COMPARISON)
            case ast.Subscript(ast.Name("grads"), ast.Constant(int(index))):
                return self._name(f"grads[{index}]")._replace(is_tensor=True)
            case ast.Subscript(base, index):
                return _Written(f"{self.written(base).inside(ATOM)}[{self._listed(index)}]")
            case ast.Call() | ast.Attribute():
                return self._function(node)
        return self._composed(node)

    def _composed(self, node: ast.expr) -> _Written:
        match node:
            case ast.Slice(low, high):
                ends = ("" if end is None else self.written(end).text for end in (low, high))
                return _Written(":".join(ends), is_tensor=False)
            case ast.Tuple() | ast.List():
                return _Written(f"({self._listed(node)})", is_tensor=False)
            case ast.Starred(listed):
                return self.written(listed)
            case ast.IfExp(condition, then, otherwise):
                one, other = self.written(then), self.written(otherwise)
                text = f"{one.text} if {self.written(condition).text}, else {other.text}"
                return _Written(text, PHRASE, one.is_tensor or other.is_tensor)
            case ast.ListComp(each, [ast.comprehension(name, listed, conditions)]):
                only = "".join(f" if {self.written(condition).text}" for condition in conditions)
                parts = (self.written(part).text for part in (each, name, listed))
                return _Written("{} for each {} of {}".format(*parts) + only, PHRASE, is_tensor=False)
        raise NotImplementedError(f"no mathematics for {ast.unparse(node)!r}")

    def _name(self, name: str) -> _Written:
        if (value := self._writing.values.get(name)) is not None:
            return _Written(value, SUM if value[:1] in "-−" else ATOM, name in self._writing.tensors)
        return _Written(self._writing.symbols.get(name, name), is_tensor=name in self._writing.tensors)

    def _operator(self, left: _Written, operator: ast.operator, right: _Written) -> _Written:
        is_tensor = left.is_tensor or right.is_tensor
        if isinstance(operator, ast.Pow):
            return _Written(left.inside(ATOM) + _raised(right), POWER, is_tensor)
        if isinstance(operator, ast.Mult):
            sign, binding = (" ∘ " if left.is_tensor and right.is_tensor else " · "), PRODUCT
        else:
            sign, binding = signs.OPERATORS[type(operator)]
        # a − (b − c) and a / (b ∘ c) need what a + (b + c) does not.
        stricter = isinstance(operator, (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod))
        left_binding = ATOM if binding >= PRODUCT and _runs_on(left.text, operator) else binding
        return _Written(f"{left.inside(left_binding)}{sign}{right.inside(binding + stricter)}", binding, is_tensor)

    def _function(self, node: ast.Call | ast.Attribute) -> _Written:
        name, given, extra = _parts(node)
        is_tensor = name not in signs.NUMBERS and not _is_of(node, "math")
        if name in signs.OF_A_SHAPE and self._writing.values:
            # The shape of x, not the shape of its values.
            return _Printer(replace(self._writing, values={}))._function(node)
        if name in signs.CONSTANTS:
            return _Written(signs.CONSTANTS[name], is_tensor=is_tensor)
        if name in signs.UNSEEN or (name in signs.UNSEEN_FOR_REAL and not self._writing.complex_numbers):
            return self.written(given[0])
        if name in signs.REDUCTIONS:
            return self._reduced(name, given[0], given[1:])
        if name in signs.PHRASES:
            return self._phrase(name, given, accumulate="accumulate" in extra)
        if sign := self._sign(name, [self.written(each) for each in given]):
            return sign._replace(is_tensor=is_tensor)
        if name in signs.UNSEEN_BUT_FIRST:
            given = given[:1]
        listed = self._arguments([each for each in given if not _is_unseen(each)])
        listed += [f"{key} = {self.written(value).text}" for key, value in extra.items() if not _is_unseen(value)]
        return _Written(f"{signs.WORDS.get(name, name).strip('_')}({', '.join(listed)})", is_tensor=is_tensor)

    def _sign(self, name: str, arguments: list[_Written]) -> _Written | None:
        """A function that has a sign instead of a name."""
        if name in signs.AROUND:
            return _Written(arguments[0].text.join(signs.AROUND[name]))
        if name in signs.BEFORE:
            return _Written(signs.BEFORE[name] + arguments[0].inside(ATOM), PREFIX)
        if name in signs.AFTER:
            sign = "ᵀ" if name == "mH" and not self._writing.complex_numbers else signs.AFTER[name]
            return _Written(arguments[0].inside(ATOM) + sign, POWER)
        if name == "index":
            return _Written(f"{arguments[0].inside(ATOM)}[{arguments[1].text}]")
        if name == "outer":
            left, right = arguments
            return _Written(f"{left.inside(MATRIX_PRODUCT)} {right.inside(ATOM)}ᵀ", MATRIX_PRODUCT)
        return None

    def _reduced(self, name: str, what: ast.expr, dims: list[ast.expr]) -> _Written:
        along = "".join(f"_{self.written(dim).inside(ATOM)}" for dim in dims if not _is_unseen(dim))
        if name == "sum" and isinstance(what, ast.BinOp) and isinstance(what.op, ast.Mult):
            left, right = self.written(what.left), self.written(what.right)
            if left.is_tensor and right.is_tensor and " ∘ " not in left.text:
                return _Written(f"⟨{left.text}, {right.text}⟩{along}")
        return _Written(f"{signs.REDUCTIONS[name]}{along} {self.written(what).inside(PREFIX)}", PREFIX)

    def _phrase(self, name: str, given: list[ast.expr], *, accumulate: bool) -> _Written:
        first, *others = map(self.written, given)
        texts = [first.inside(COMPARISON if name == "where" else PREFIX), *(other.inside(SUM) for other in others)]
        return _Written(signs.PHRASES[f"{name}_accumulate" if accumulate else name].format(*texts), PHRASE)

    def _arguments(self, given: list[ast.expr]) -> list[str]:
        if len(given) == 1:
            return [self._listed(given[0])]
        return [self.written(each).inside(COMPARISON) for each in given]

    def _listed(self, node: ast.expr) -> str:
        parts = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
        return ", ".join(self.written(part).text for part in parts)


def _parts(node: ast.Call | ast.Attribute) -> tuple[str, list[ast.expr], dict[str, ast.expr]]:
    """Name, arguments and keyword arguments; the tensor before the dot is the first argument of its method."""
    called = node.func if isinstance(node, ast.Call) else node
    arguments = list(node.args) if isinstance(node, ast.Call) else []
    keywords = node.keywords if isinstance(node, ast.Call) else []
    extra = {each.arg: each.value for each in keywords if each.arg and each.arg not in signs.UNSEEN_ARGUMENTS}
    if isinstance(called, ast.Name):
        return called.id, arguments, extra
    assert isinstance(called, ast.Attribute)
    if _is_of(called, "torch", "math"):
        return called.attr, arguments, extra
    return called.attr, [called.value, *arguments], extra


def _is_unseen(argument: ast.expr) -> bool:
    return isinstance(argument, ast.Name) and argument.id in signs.UNSEEN_ARGUMENTS


def _is_of(function: ast.expr, *modules: str) -> bool:
    """Whether it is a function of the modules: ``torch.exp``, ``torch.special.entr``, but not ``torch.exp(x).sum``."""
    if isinstance(function, ast.Call):
        function = function.func
    while isinstance(function, ast.Attribute):
        function = function.value
    return isinstance(function, ast.Name) and function.id in modules


def _runs_on(text: str, operator: ast.operator) -> bool:
    """Whether a factor to the right could be read as part of the last one: Σ a ∘ b, and a / b ∘ c."""
    depth = 0
    for sign in text:
        depth += (sign in "([⟨") - (sign in ")]⟩")
        if depth == 0 and (sign in "ΣΠ" or (sign == "/" and isinstance(operator, ast.Mult))):
            return True
    return False


def _constant(value: object) -> _Written:
    if isinstance(value, bool):
        return _Written("yes" if value else "no", is_tensor=False)
    text = "i" if value == 1j else str(value).replace("-", "−")
    return _Written(text, is_tensor=False)


def _raised(power: _Written) -> str:
    plain = power.text.replace("−", "-")
    if plain.lstrip("-").isdigit():
        return plain.translate(signs.SUPERSCRIPTS)
    return f"^{power.inside(ATOM)}"
