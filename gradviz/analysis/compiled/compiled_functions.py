"""Compiled functions, each with its regions, graph breaks and recompilations, from the compilations of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from gradviz.capture.capture import Capture
from gradviz.capture.encoding import json_text
from gradviz.graph.compilations import Compilation, GradientCut, GraphBreak

COMPILED_VERSION = 1
"""Increased when a program that reads the older form would misread the newer one.

1   first form
"""

_EXPLANATIONS = (
    ("generic_jump", "Which way the program goes depends on the value of a tensor."),
    ("call_method TensorVariable() item", "A number is taken out of a tensor."),
    ("Tensor.item", "A number is taken out of a tensor."),
)
"""What Dynamo says without an explanation, by how it begins, and what that means."""

_FORBIDDEN = re.compile(
    r"the function `(?P<function>[^`]+)` in file `[^`]*-packages/(?P<file>torch/[^`]+)` should not be traced"
    r"|the function `(?P<method>(?:Optimizer|Module|Tensor)\.\w+)` should not be traced"
)
"""Said of functions of torch. Its hints are for functions of the program."""
_KERNELS = (
    "which operations inductor fused, and which of its kernels runs each: torch tells it only if that is asked for "
    "before it compiles, and then code in its caches does not fit any more"
)
_WANTED = "User-inserted graph break"
"""Said of a call of `torch._dynamo.graph_break`, also of one in torch."""


class CompiledRegion(Struct, frozen=True):
    """Code that Dynamo compiled as one graph: a function, or a part of it between graph breaks."""

    line: int
    operations: int
    """Torch calls in its newest version; 0 for a part of a function that only runs Python between two graph breaks."""
    versions: int
    failed_guards: tuple[str, ...]
    """For each version after the first, what the earlier ones had assumed; empty where torch does not tell."""
    is_given_up: bool
    """Whether it was compiled so often that Dynamo runs it uncompiled from then on."""
    is_dynamic: bool = False
    """Whether it was compiled for sizes that change: ``dynamic=True``."""


class ExplainedBreak(Struct, frozen=True):
    """A graph break."""

    file: str
    line: int
    code: str
    """The source line, where it could be read."""
    reason: str
    """In one line, in Dynamo's words."""
    explanation: str
    hints: tuple[str, ...]
    is_of_torch: bool = False
    """Whether it is inside torch itself."""
    leaves_rest: bool = False
    """Whether nothing of the function is compiled behind it."""
    is_forbidden: bool = False
    """Whether torch itself ends the graph in code of its own that the line calls, such as a step of an optimizer."""


class CompiledFunction(Struct, frozen=True):
    """A function that Dynamo compiled, whole or in parts."""

    name: str
    file: str
    line: int
    backend: str
    regions: tuple[CompiledRegion, ...]
    breaks: tuple[ExplainedBreak, ...]
    cuts: tuple[GradientCut, ...] = ()
    """Where gradients of parameters are cut off inside it."""

    @property
    def recompilations(self) -> int:
        """How often a region of it was compiled again."""
        return sum(region.versions - 1 for region in self.regions)

    @property
    def region_count(self) -> int:
        """How many of its regions have a torch call."""
        return sum(region.operations > 0 for region in self.regions)


class CompiledDocument(Struct, frozen=True):
    """What ``gradviz compiled --json`` prints."""

    version: int
    program: str
    functions: tuple[CompiledFunction, ...]
    disclosures: tuple[str, ...] = ()
    uncompiled_cuts: tuple[GradientCut, ...] = ()
    """Where gradients are cut off in code that was left uncompiled."""


def compiled_document(capture: Capture) -> CompiledDocument:
    """Everything that was compiled in the run."""
    functions = compiled_functions(capture)
    unknown = (_KERNELS,) if any(each.backend == "inductor" and each.regions for each in functions) else ()
    disclosures = (*capture.disclosures, *unknown)
    return CompiledDocument(COMPILED_VERSION, capture.title, functions, disclosures, capture.uncompiled_cuts)


def compiled_json(capture: Capture) -> str:
    """The same as JSON."""
    return json_text(compiled_document(capture))


def compiled_schema() -> dict[str, Any]:
    """The JSON Schema of `compiled_json`."""
    return msgspec.json.schema(CompiledDocument)


def compiled_functions(capture: Capture) -> tuple[CompiledFunction, ...]:
    """The compiled functions, in the order in which each was compiled first.

    A function of torch has the line of the program that calls it, and each of its versions perhaps another one.
    """
    by_function: dict[tuple[str, str, int], list[Compilation]] = {}
    beginnings: dict[tuple[str, str], int] = {}
    lines: dict[tuple[int, str, str], int] = {}
    for each in capture.compilations:
        name = each.file, each.function
        if not each.is_rest:
            beginnings[name] = lines.setdefault((each.frame, *name), each.line)
        by_function.setdefault((*name, beginnings.get(name, each.line)), []).append(each)
    return tuple(_function(capture, *key, found) for key, found in by_function.items())


def _function(capture: Capture, file: str, name: str, line: int, found: list[Compilation]) -> CompiledFunction:
    frames: dict[int, list[Compilation]] = {}
    for each in found:
        if not each.is_refused or each.broken is None:
            frames.setdefault(each.frame, []).append(each)
    breaks = dict.fromkeys(each.broken for each in found if each.broken is not None)
    return CompiledFunction(
        name,
        file,
        line,
        found[0].backend,
        tuple(map(_region, frames.values())),
        tuple(_explained(capture, each) for each in _one_for_each_line(breaks)),
        tuple(dict.fromkeys(cut for each in found for cut in each.cuts)),
    )


def _one_for_each_line(breaks: Iterable[GraphBreak]) -> list[GraphBreak]:
    """The first at each line: versions of one region can word it differently."""
    return list({(each.file, each.line): each for each in reversed(list(breaks))}.values())[::-1]


def _region(compilations: list[Compilation]) -> CompiledRegion:
    compiled = [each for each in compilations if not each.is_refused]
    newest = compiled[-1] if compiled else compilations[-1]
    versions = len({each.version for each in compiled})
    guards = tuple(each.failed_guard for each in compiled if each.version)
    is_given_up = len(compiled) < len(compilations)
    return CompiledRegion(
        compilations[0].line, newest.operations, versions, guards, is_given_up, is_dynamic=newest.is_dynamic
    )


def _explained(capture: Capture, broken: GraphBreak) -> ExplainedBreak:
    head, *rest = broken.reason.split("\n")
    lines = [line.strip() for line in rest]
    code = capture.sources.get(broken.file, {}).get(broken.line, "").strip()
    known = next((words for beginning, words in _EXPLANATIONS if head.startswith(beginning)), "")
    said = " ".join(line.removeprefix("Explanation: ") for line in lines if line.startswith("Explanation: ")) or known
    by_torch = _by_torch(broken.reason, code)
    return ExplainedBreak(
        broken.file,
        broken.line,
        code,
        head.strip(),
        by_torch or said,
        () if broken.is_of_torch or by_torch else _hints(lines),
        broken.is_of_torch,
        broken.leaves_rest,
        bool(by_torch),
    )


def _by_torch(reason: str, code: str) -> str:
    """How torch itself breaks the graph in what a line calls; empty if it does not."""
    forbidden = _FORBIDDEN.search(reason)
    if forbidden is not None:
        where = f" ({forbidden['file']})" if forbidden["file"] else ""
        return f"torch keeps Dynamo from tracing {forbidden['function'] or forbidden['method']}, code of its own{where}"
    is_elsewhere = _WANTED in reason and code != "" and "graph_break" not in code
    return "torch breaks it itself, in code of its own that this line calls" if is_elsewhere else ""


def _hints(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(re.sub(r"\s+", " ", line.removeprefix("Hint: ")) for line in lines if line.startswith("Hint: "))


def cut_in_compiled_code(capture: Capture, names: Iterable[str]) -> GradientCut | None:
    """Where the gradient of a parameter with one of these names is cut off in code for ``torch.compile``."""
    wanted = set(names)
    cuts = (*(cut for each in capture.compilations for cut in each.cuts), *capture.uncompiled_cuts)
    return next((cut for cut in cuts if wanted & {*cut.parameters}), None)
