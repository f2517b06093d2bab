"""What a backward call at a graph break was called on, by the names that the program gives it.

Dynamo makes a function of its own out of what comes before and behind a break. There no variable holds the loss, so its
name is read from the line of the call.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from types import FrameType
from typing import Any

from gradviz.recording.backward.backward_watch import BackwardRequest
from gradviz.recording.run.file_kinds import is_gradviz_code, is_torch_file
from gradviz.recording.run.parsed_files import nodes_of


def written_roots(request: BackwardRequest) -> dict[str, Any]:
    """The roots of the call by name; empty unless the line has one such call, with names only."""
    frame: FrameType | None = request.frame
    while frame is not None and (is_torch_file(frame.f_code.co_filename) or is_gradviz_code(frame.f_code)):
        frame = frame.f_back
    if frame is None:
        return {}
    names = _names_at(frame.f_code.co_filename, frame.f_lineno, request.function)
    return dict(zip(names, request.roots, strict=True)) if len(names) == len(request.roots) else {}


@lru_cache(maxsize=64)
def _names_at(file: str, line: int, function: str) -> tuple[str, ...]:
    calls = [each for each in nodes_of(file) or () if _is_called(each, function) and _is_at(each, line)]
    names = [tuple(_names_of(each)) for each in calls]
    return names[0] if len(names) == 1 else ()


def _is_called(node: ast.AST, function: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == function


def _is_at(node: ast.AST, line: int) -> bool:
    return getattr(node, "lineno", 0) <= line <= (getattr(node, "end_lineno", None) or 0)


def _names_of(call: Any) -> Iterator[str]:
    """Of ``loss.backward()``, ``torch.autograd.backward([one, other])`` and ``torch.autograd.grad(loss, x)``."""
    is_method = isinstance(call.func.value, ast.Name) and call.func.attr == "backward"
    given = call.func.value if is_method else call.args[0] if call.args else None
    for each in given.elts if isinstance(given, (ast.List, ast.Tuple)) else [given]:
        if isinstance(each, ast.Name):
            yield each.id
