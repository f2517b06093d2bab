"""Reads the expression of ``--root``: ``loss``, ``out["loss"]``, ``state.hidden[0]``. Does not import torch."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradviz.errors import BadInput, near_matches

_HINT = 'use NAME, NAME["key"] or NAME.field'


@dataclass(frozen=True)
class RootExpression:
    """A variable, and the steps from its value to a part of it."""

    text: str
    variable: str
    steps: tuple[ast.Attribute | ast.Subscript, ...]

    def value_in(self, namespace: Mapping[str, Any]) -> Any:
        """The value of the expression, given a script's variables; nothing is called.

        Raises `BadInput` with near matches if a part of it does not exist.
        """
        if self.variable not in namespace:
            names = [name for name in namespace if not name.startswith("_")]
            raise BadInput(f"the script has no variable {self.variable!r}", hint=near_matches(self.variable, names))
        value = namespace[self.variable]
        for step in self.steps:
            value = _take(value, step, self.text)
        return value


def parse_root(text: str) -> RootExpression:
    """Raises `BadInput` if the text is no such expression, so that the script need not run first."""
    try:
        tree: ast.expr = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        raise BadInput(f"--root {text!r} is not a name", hint=_HINT) from None
    steps: list[ast.Attribute | ast.Subscript] = []
    while isinstance(tree, (ast.Attribute, ast.Subscript)):
        steps.append(tree)
        tree = tree.value
    if not isinstance(tree, ast.Name):
        raise BadInput(f"--root {text!r} is not a name", hint=_HINT)
    return RootExpression(text, tree.id, tuple(reversed(steps)))


def _take(value: Any, step: ast.Attribute | ast.Subscript, expression: str) -> Any:
    if isinstance(step, ast.Attribute):
        if hasattr(value, step.attr):
            return getattr(value, step.attr)
        choices = [name for name in dir(value) if not name.startswith("_")]
        raise BadInput(f"--root {expression!r}: no attribute {step.attr!r}", hint=near_matches(step.attr, choices))
    try:
        key = ast.literal_eval(step.slice)
    except ValueError:
        raise BadInput(f"--root {expression!r}: only plain keys and numbers are allowed in brackets") from None
    try:
        return value[key]
    except (KeyError, IndexError, TypeError):
        choices = [str(choice) for choice in value] if isinstance(value, Mapping) else []
        hint = near_matches(str(key), choices) if choices else f"it is a {type(value).__name__}"
        raise BadInput(f"--root {expression!r}: no element {key!r}", hint=hint) from None
