"""The user's own line of a stack: the innermost one that is not in an installed package.

Stacks are tables of call sites, in a graph or in a call log; `recording.run.file_kinds` does the same for live frames.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gradviz.graph.model import CallSite, Graph
from gradviz.safe_text import one_line


def own_lines_around(sites: Sequence[CallSite], site: int | None) -> Iterator[int]:
    """Indices of the user's own lines from which a call site was reached, itself included, innermost first."""
    while site is not None:
        if not sites[site].is_library:
            yield site
        site = sites[site].caller


def own_line(sites: Sequence[CallSite], site: int) -> int:
    """Index of the user's own line from which a call site was reached.

    If there is none, the user's program is itself an installed package, and the call site itself is the answer.
    """
    return next(own_lines_around(sites, site), site)


def own_lines(graph: Graph) -> list[int]:
    """`own_line` of every call site of a graph, in linear time."""
    return [index if found is None else found for index, found in enumerate(own_lines_or_none(graph))]


def own_lines_or_none(graph: Graph) -> list[int | None]:
    """The same, with None for call sites that no line of the user led to."""
    own: list[int | None] = []
    for index, site in enumerate(graph.call_sites):
        outer = None if site.caller is None else own[site.caller]
        own.append(outer if site.is_library else index)
    return own


STAGE_OF_PIPELINE = "torch/distributed/pipelining/stage.py"


def is_tracer(file: str, function: str) -> bool:
    """Whether a function of torch runs a model only to write down what it does, as `torch.export.export` does, or which
    shapes it returns, as a stage of a pipeline does."""
    name = function.rpartition(".")[2]  # of a method, too
    return name in _TRACERS and file.replace("\\", "/").endswith(_TRACERS[name])


_TRACERS = {
    "export": "torch/export/__init__.py",
    "trace": "torch/jit/_trace.py",
    "trace_module": "torch/jit/_trace.py",
    "_get_trace_graph": "torch/jit/_trace.py",  # called by torch.onnx.export
    "_shape_inference": STAGE_OF_PIPELINE,  # until torch 2.10
    "_forward_metadata_inference": STAGE_OF_PIPELINE,
    "_backward_metadata_inference": STAGE_OF_PIPELINE,
}


def line_words(site: CallSite) -> str:
    """``train.py:41``, always one line of text."""
    return line_words_of(site.file, site.line)


def line_words_of(file: str, line: int | None) -> str:
    """The same for a line that has no call site."""
    return f"{one_line(file_name(file))}:{line}"


def file_name(path: str) -> str:
    """The last part of a path of any operating system."""
    return _SEPARATOR.split(path)[-1] if "\\" in path else path.rpartition("/")[2]


def path_parts(path: str) -> list[str]:
    """Its folders and its last part, without parts that only say where the path begins."""
    return [part for part in _SEPARATOR.split(path) if part not in ("", ".", "..")]


_SEPARATOR = re.compile(r"/|\\(?!ud[89a-f][0-9a-f]{2})")
"""The backslash in ``m\\udce4in.py`` is not a separator: captures write bytes that are not UTF-8 like this."""


def function_words(site: CallSite) -> str:
    """The function without those around it: ``main.<locals>.step`` is ``step``."""
    return site.function.rpartition("<locals>.")[2]
