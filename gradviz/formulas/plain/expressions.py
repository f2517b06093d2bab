"""Parses expressions, and simplifies them for known settings."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache


@lru_cache(maxsize=2000)
def parsed(expression: str) -> ast.expr:
    """The syntax tree of an expression."""
    return ast.parse(expression, mode="eval").body


def decided(expression: str, settings: Mapping[str, object]) -> ast.expr:
    """The expression for known `settings`; the result is shared, so do not change it.

    Each ``a if condition else b`` is decided if `settings` has all names in its condition; factors and divisors that
    are 1 are left out.
    """
    known = {name: settings[name] for name in sorted(_known_names(expression) & settings.keys())}
    return _decided(expression, _Known(repr(known), known)) if known else parsed(expression)


@dataclass(frozen=True)
class _Known:
    """The settings that an expression uses; lists among them have no hash."""

    words: str
    values: Mapping[str, object] = field(compare=False)


@lru_cache(maxsize=2000)
def _decided(expression: str, known: _Known) -> ast.expr:
    left: ast.expr = _Deciding(known.values).visit(copy.deepcopy(parsed(expression)))
    return left


@lru_cache(maxsize=2000)
def _known_names(expression: str) -> frozenset[str]:
    return frozenset(names_in(parsed(expression)))


def names_in(expression: ast.expr) -> Iterator[str]:
    """Every name in it, in order."""
    return (node.id for node in ast.walk(expression) if isinstance(node, ast.Name))


class _Deciding(ast.NodeTransformer):
    def __init__(self, settings: Mapping[str, object]) -> None:
        self._settings = settings

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.Mult):
            if self._is_one(node.left):
                return node.right
            if isinstance(node.left, ast.UnaryOp) and self._is_one(node.left.operand):
                return ast.UnaryOp(node.left.op, node.right)
        if isinstance(node.op, ast.Div) and self._is_one(node.right):
            return node.left
        return node

    def _is_one(self, node: ast.expr) -> bool:
        match node:
            case ast.Call(ast.Attribute(number, "conjugate")):
                return self._is_one(number)
        return isinstance(node, ast.Name) and self._settings.get(node.id) == 1

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        if not set(names_in(node.test)) <= self._settings.keys():
            self.generic_visit(node)
            return node
        holds = eval(compile(ast.Expression(node.test), "<plain formula>", "eval"), dict(self._settings))
        chosen: ast.expr = self.visit(node.body if holds else node.orelse)
        return chosen
