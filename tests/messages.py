"""Everything that gradviz says to a person, gathered from its code: ``python -m tests.messages`` lists it for review.

A text is a string of several words that is no docstring; in place of values it has the expressions that make them. The
kind says where it stands: an `error` and its `hint`, the `help` of an option, `why` and `fix` of a finding, or `text`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import gradviz
from gradviz import errors

PACKAGE = Path(gradviz.__file__).parent
_ERRORS = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
_KINDS = ("hint", "help", "short_help", "message", "why", "fix")
_SEVERAL_WORDS = re.compile(r"[A-Za-z'’]{2,}[,:;]? [^<>]*[a-z]{2,}")


class Message(NamedTuple):
    """One text, and where it stands in the code."""

    file: str
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        shown = self.text.replace("\n", "\\n")
        return f"{self.file}:{self.line}: {self.kind}: {shown}"


def all_messages() -> list[Message]:
    """Those of every file, in order."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        name = path.relative_to(PACKAGE).as_posix()
        found += [Message(name, line, kind, text) for line, kind, text in _texts(tree, "text")]
    return found


def _texts(node: ast.AST, kind: str) -> Iterator[tuple[int, str, str]]:
    text = _text(node)
    if text is not None:
        if _SEVERAL_WORDS.search(re.sub(r"{.*?}", "x", text)):
            yield getattr(node, "lineno", 0), kind, text
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue  # a docstring
        yield from _texts(child, _kind_of(node, child, kind))


def _kind_of(parent: ast.AST, child: ast.AST, kind: str) -> str:
    if isinstance(child, ast.keyword) and child.arg in _KINDS:
        return "error" if child.arg == "message" and _is_error(parent) else child.arg
    if isinstance(parent, ast.Call) and _is_error(parent) and child in parent.args[:1]:
        return "error"
    # What stands in a function that is called for it is not the message itself.
    return "text" if isinstance(child, ast.Call) else kind


def _is_error(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _ERRORS


def _text(node: ast.AST) -> str | None:
    """A literal, with ``{expression}`` for each value."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_part, node.values))
    return None


def _part(node: ast.expr) -> str:
    if isinstance(node, ast.FormattedValue):
        return f"{{{ast.unparse(node.value)}}}"
    return _text(node) or ""


if __name__ == "__main__":
    print(*all_messages(), sep="\n")
