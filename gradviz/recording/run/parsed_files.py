"""The source files of the program that runs, parsed: each once, however many ask."""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache

_MAX_SOURCE = 1_000_000
"""Longer files, in characters, are not parsed: they are data, or were written by a program."""

_KEPT_FILES = 16
"""Trees take much memory; few programs have more files, or libraries that are asked about."""


def tree_of(file: str) -> ast.Module | None:
    """The syntax tree of a file; None if there is no source, or none that can be parsed (a notebook's ``%magic``)."""
    parsed = _parsed("".join(linecache.getlines(file)))
    return parsed and parsed[0]


def nodes_of(file: str) -> tuple[ast.AST, ...] | None:
    """All nodes of that tree, outer ones first; None as above."""
    parsed = _parsed("".join(linecache.getlines(file)))
    return parsed and parsed[1]


@lru_cache(maxsize=_KEPT_FILES)
def _parsed(source: str) -> tuple[ast.Module, tuple[ast.AST, ...]] | None:
    """By its text and not by its name: a cell of a notebook runs again with another text."""
    if not source or len(source) > _MAX_SOURCE:
        return None
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    return tree, tuple(ast.walk(tree))
