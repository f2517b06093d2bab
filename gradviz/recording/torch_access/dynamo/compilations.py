"""Notes each compilation of Dynamo, with the graph break that ended it: torch's `OutputGraph.compile_subgraph`.

Dynamo calls it once for each region, with the reason for which the region ends. For which guard code was compiled again
is in the figures that Dynamo keeps of its compilations, from torch 2.7 on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from types import CodeType, FrameType
from typing import Any

from msgspec.structs import replace

from gradviz.graph.compilations import Compilation, GraphBreak
from gradviz.recording.run.file_kinds import is_gradviz_code, is_library_file, is_torch_file
from gradviz.recording.run.line_attribution import calling_frame
from gradviz.recording.run.traced_stacks import is_made_by_fx
from gradviz.recording.torch_access.dynamo.dynamo_graphs import backend_name, called_of_torch
from gradviz.recording.torch_access.dynamo.output_graph_watch import OutputGraphWatch
from gradviz.recording.torch_access.name_lookup import find

_REST = re.compile(r"^torch_dynamo_resume_in_(?P<function>.+)_at_(?P<line>\d+)$")
_NUMBERS = re.compile(r"(\d+)/(\d+)")
_KEPT_BY_DYNAMO = 64
"""Dynamo keeps the figures of so many compilations."""
_MAX_WORDS = 2000
"""Characters of a reason or guard that are kept."""


class Compilations(OutputGraphWatch):
    """Notes them between `start` and `stop`."""

    def __init__(self, noted: list[Compilation], note_defect: Callable[[Exception], None]) -> None:
        super().__init__("compile_subgraph", note_defect)
        self._noted = noted

    def _noting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def compile_subgraph(output: Any, translator: Any, *rest: Any, **options: Any) -> Any:
            try:
                self._noted[-_KEPT_BY_DYNAMO:] = with_guards(self._noted[-_KEPT_BY_DYNAMO:])
                self._noted.append(_compilation(output, translator.f_code, (*rest, *options.values())))
            except Exception as defect:  # must not reach the program
                self._note_defect(defect)
            return original(output, translator, *rest, **options)

        return compile_subgraph


def _compilation(output: Any, code: CodeType, given: Iterable[Any]) -> Compilation:
    reason = next(each for each in given if hasattr(each, "user_stack"))
    rest = _REST.match(code.co_name)
    name = rest["function"] if rest is not None else code.co_name
    place = code.co_filename, int(rest["line"]) if rest is not None else code.co_firstlineno
    called = "backward" if is_made_by_fx(code.co_filename) else called_of_torch(output)  # of compiled autograd
    if called is not None:
        name, place = called, _line_of_program() or place
    numbers = _NUMBERS.search(str(find("torch._guards.CompileContext.current_compile_id")()))
    frame, version = map(int, numbers.groups()) if numbers is not None else (0, 0)
    return Compilation(
        frame,
        version,
        name,
        *place,
        rest is not None,
        sum(node.op in ("call_function", "call_method", "call_module") for node in output.graph.nodes),
        backend_name(getattr(output, "compiler_fn", None)),
        _graph_break(reason) if reason.graph_break else None,
    )


def _line_of_program() -> tuple[str, int] | None:
    """File and line of the program's own code that runs now."""
    frame: FrameType | None = calling_frame(2)
    while frame is not None and (is_gradviz_code(frame.f_code) or is_library_file(frame.f_code.co_filename)):
        frame = frame.f_back
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def _graph_break(reason: Any) -> GraphBreak:
    """The break, at the innermost line of the program, or of a library if it is all inside one."""
    stack = list(reason.user_stack)
    own = [frame for frame in stack if not is_library_file(frame.filename)] or stack
    words = str(reason.reason).strip()[:_MAX_WORDS]
    if not own:
        return GraphBreak(words)
    return GraphBreak(words, own[-1].filename, own[-1].lineno or 0, is_torch_file(own[-1].filename))


def with_guards(noted: Iterable[Compilation]) -> Iterator[Compilation]:
    """The same, each with the guard for which it was compiled again, where Dynamo tells it."""
    metrics = find("torch._dynamo.utils.get_compilation_metrics")
    # The backward of a version has the same number, and no reason.
    found = {
        str(each.compile_id): reason
        for each in (metrics() if metrics else ())
        if (reason := getattr(each, "recompile_reason", None))
    }
    for each in noted:
        guard = found.get(f"{each.frame}/{each.version}")
        yield replace(each, failed_guard=_guard_words(str(guard))) if guard else each


def _guard_words(reason: str) -> str:
    """The guard without the number of the earlier version before it, and without the code and stack behind it."""
    return re.sub(r"^\d+/\d+: ", "", reason).split("\n")[0].split("  #")[0].strip()[:_MAX_WORDS]
