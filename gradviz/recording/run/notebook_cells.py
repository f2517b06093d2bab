"""Names code that is in no file: cells of a notebook, lines typed at a prompt.

IPython compiles each cell under an invented file name, which under Jupyter contains the number of the process: it is
neither readable nor the same in the next run. IPython knows which cell it belongs to.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import PurePath
from typing import TypeVar

from msgspec.structs import replace

from gradviz.capture.capture import Capture
from gradviz.graph.call_log import CallLog, Definition, LoggedTensor
from gradviz.graph.model import CallSite, CustomFunction, Graph

_Located = TypeVar("_Located", CallSite, Definition, CustomFunction)

PYTHON = "<python>"
"""The name of a program that is neither a script nor a cell: an interactive prompt, ``python -c``."""


def program_name(file: str) -> str:
    """The name of the code in `file` for users: ``train.py``, ``In[3]``."""
    return cell_name(file) or (PYTHON if file.startswith("<") else PurePath(file).name)


def cell_name(file: str) -> str | None:
    """``In[3]`` for the file name that IPython gave to that cell; None for every other file."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    name_of = getattr(getattr(shell, "compile", None), "format_code_name", None)
    label = name_of(file) if name_of is not None else None
    return str(label[1]) if label else None


def with_cells_named(capture: Capture) -> Capture:
    """The capture with names of cells instead of IPython's file names."""
    if "IPython" not in sys.modules:
        return capture

    @cache
    def named(file: str) -> str:
        return cell_name(file) or file

    error, calls = capture.error, capture.calls
    if error is not None and error.call_site is not None:
        error = replace(error, call_site=(named(error.call_site[0]), error.call_site[1]))
    return replace(
        capture,
        graphs=tuple(_renamed_graph(graph, named) for graph in capture.graphs),
        sources={named(file): lines for file, lines in capture.sources.items()},
        error=error,
        calls=calls and _renamed_log(calls, named),
    )


def _renamed_graph(graph: Graph, named: Callable[[str], str]) -> Graph:
    return replace(
        graph,
        call_sites=_renamed(graph.call_sites, named),
        custom_functions=_renamed(graph.custom_functions, named),
    )


def _renamed_log(log: CallLog, named: Callable[[str], str]) -> CallLog:
    return replace(
        log,
        call_sites=_renamed(log.call_sites, named),
        definitions=_renamed(log.definitions, named),
        derivatives=tuple(
            replace(check, line=check.line and (named(check.line[0]), check.line[1])) for check in log.derivatives
        ),
        tensors=tuple(_renamed_tensor(tensor, named) for tensor in log.tensors),
    )


def _renamed_tensor(tensor: LoggedTensor, named: Callable[[str], str]) -> LoggedTensor:
    holder = tensor.holder
    if holder is None or not holder.lines:
        return tensor
    lines = tuple((named(file), line) for file, line in holder.lines)
    return replace(tensor, holder=replace(holder, lines=lines))


def _renamed(items: tuple[_Located, ...], named: Callable[[str], str]) -> tuple[_Located, ...]:
    return tuple(replace(item, file=named(item.file)) for item in items)
