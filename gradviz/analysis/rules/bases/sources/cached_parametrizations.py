"""Weights that ``torch.nn.utils.parametrize.cached()`` keeps with their graph, and the line that opens it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers
from gradviz.analysis.finding import Location
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import SourceTree, called_name, first_line, tree_of
from gradviz.graph.call_log import TensorUse

FIX_OF_CACHE = (
    "open cached() inside of the loop, around the forward pass of one backward() alone: with parametrize.cached(): "
    "loss = ..."
)
WHY_OF_CACHE = (
    "inside of cached() a parametrized weight is computed once: every later forward uses the same graph, which the "
    "first backward frees, and does not see what a step has changed"
)
_FOLDER = ".parametrizations."
_CACHED = "cached"


def line_that_caches(case: Case, backward: int, crossing: Sequence[tuple[int, TensorUse]]) -> Location | None:
    """The line that opened ``cached()`` around a backward call, if all that comes into its round are weights that
    parametrizations have computed.

    Args:
        crossing: what comes into the round, each with the call that uses it.
    """
    if not crossing or not all(_is_parametrized(case, row, use) for row, use in crossing):
        return None
    for line in callers(case.dataflow, backward):
        lines = case.capture.sources.get(line.file)
        found = next(_opened_around(tree_of(lines), line.line), None) if lines else None
        if found is not None:
            return Location(line.file, found)
    return None


def _is_parametrized(case: Case, row: int, use: TensorUse) -> bool:
    """Whether a parametrization made a tensor that something else uses."""
    flow = case.dataflow
    made = flow.newest_producer(use.tensor, row)
    scopes, around = flow.log.scopes, None if made is None else flow.log.calls[made].scope
    return around is not None and _FOLDER in f"{scopes[around].path}."


def _opened_around(tree: SourceTree, line: int) -> Iterator[int]:
    """The lines that open it around a line, or in the same function before that: in a ``with``, as a decorator, on an
    ``ExitStack``; innermost first."""
    names = {_CACHED, *_other_names(tree)}
    found: list[tuple[int, int]] = []
    for node in tree.nodes:
        if called_name(node) not in names or not isinstance(node, ast.Call):
            continue
        parent = tree.parent(node)
        if isinstance(parent, ast.withitem):
            block: ast.AST | None = tree.parent(parent)
        elif isinstance(parent, FUNCTIONS) and node in parent.decorator_list:
            block = parent
        else:
            block = tree.scope(node) if node.lineno < line else None
        if block is not None and first_line(block) <= line <= _last_line(block, line):
            found.append((first_line(block), node.lineno))
    yield from (opened for _, opened in sorted(found, reverse=True))


def _other_names(tree: SourceTree) -> Iterator[str]:
    """What the program calls it where it is imported under another name."""
    for node in tree.nodes:
        for alias in node.names if isinstance(node, ast.ImportFrom) else ():
            if alias.name == _CACHED and alias.asname is not None:
                yield alias.asname


def _last_line(block: ast.AST, line: int) -> int:
    return line if isinstance(block, ast.Module) else getattr(block, "end_lineno", 0)
