"""Names for code that lives in no file: cells of a notebook, lines typed at a prompt.

IPython compiles each cell under a made-up file name, which under Jupyter holds the number of the process: neither
readable nor the same twice. It knows itself which cell that is.
"""

from __future__ import annotations

import sys
from pathlib import PurePath

from msgspec.structs import replace

from gradviz.capture.capture import Capture
from gradviz.graph.model import Graph

PYTHON = "<python>"
"""The program where there is neither a script nor a cell: an interactive prompt, ``python -c``."""


def program_name(file: str) -> str:
    """What a reader calls the code in `file`: ``train.py``, ``In[3]``."""
    return cell_name(file) or (PYTHON if file.startswith("<") else PurePath(file).name)


def cell_name(file: str) -> str | None:
    """``In[3]`` for the file name that IPython gave to that cell; None for every other file."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    name_of = getattr(getattr(shell, "compile", None), "format_code_name", None)
    label = name_of(file) if name_of is not None else None
    return str(label[1]) if label else None


def with_cells_named(capture: Capture) -> Capture:
    """The capture with the names of cells in place of IPython's file names."""
    files = {site.file for graph in capture.graphs for site in graph.call_sites} | set(capture.sources)
    cells = {file: name for file in files if (name := cell_name(file))}
    if not cells:
        return capture
    error = capture.error
    if error is not None and error.call_site is not None:
        file, line = error.call_site
        error = replace(error, call_site=(cells.get(file, file), line))
    return replace(
        capture,
        graphs=tuple(_renamed(graph, cells) for graph in capture.graphs),
        sources={cells.get(file, file): lines for file, lines in capture.sources.items()},
        error=error,
    )


def _renamed(graph: Graph, cells: dict[str, str]) -> Graph:
    sites = (replace(site, file=cells.get(site.file, site.file)) for site in graph.call_sites)
    return replace(graph, call_sites=tuple(sites))
