"""Which line of source a reader would call the reason for a node: the innermost one of their own."""

from __future__ import annotations

from gradviz.graph.model import CallSite, Graph


def readers_lines(graph: Graph) -> list[int]:
    """For each call site the index of the innermost one around it that is not in an installed package.

    Where all are, the reader's program is itself such a package, and the call site stands for itself.
    """
    own: list[int | None] = []
    for index, site in enumerate(graph.call_sites):
        outer = None if site.caller is None else own[site.caller]
        own.append(outer if site.is_library else index)
    return [index if found is None else found for index, found in enumerate(own)]


def line_words(site: CallSite) -> str:
    """``train.py:41``."""
    name = site.file.replace("\\", "/").rpartition("/")[2]
    return f"{name}:{site.line}"


def function_words(site: CallSite) -> str:
    """The function without those around it: ``main.<locals>.step`` is ``step``."""
    return site.function.rpartition("<locals>.")[2]
