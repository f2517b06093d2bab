"""Notes each compilation of Dynamo, with the graph break that ended it: torch's `OutputGraph.compile_subgraph`.

Dynamo calls it once for each region, with the reason for which the region ends. A function of which Dynamo compiles
nothing ends with an exception that has the reason. For which guard code was compiled again is in the figures that
Dynamo keeps of its compilations, from torch 2.7 on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import CodeType, FrameType
from typing import Any

from msgspec.structs import replace

from gradviz.graph.compilations import Compilation, GraphBreak
from gradviz.recording.run.file_kinds import is_gradviz_code, is_library_file, is_torch_file
from gradviz.recording.run.line_attribution import calling_frame
from gradviz.recording.run.traced_stacks import is_made_by_fx
from gradviz.recording.torch_access.dynamo.dynamo_graphs import backend_name, called_of_torch
from gradviz.recording.torch_access.dynamo.frame_compiler import FrameCompiler
from gradviz.recording.torch_access.dynamo.output_graph_watch import OutputGraphWatch
from gradviz.recording.torch_access.name_lookup import find

_REST = re.compile(r"^torch_dynamo_resume_in_(?P<function>.+)_at_(?P<line>\d+)$")
_NUMBERS = re.compile(r"(\d+)/(\d+)(?:_\d+)?$")
_NO_WAY_ON = "step_unsupported"
"""Dynamo's reason where it compiles what it has, and leaves the rest of the function uncompiled."""
_TOO_MANY = re.compile(r"(recompile|cache.size).limit", re.IGNORECASE)
"""In Dynamo's words where code has too many versions."""
_KEPT_BY_DYNAMO = 64
"""Dynamo keeps the figures of so many compilations."""
_MAX_WORDS = 2000
"""Characters of a reason or guard that are kept."""


class Compilations(OutputGraphWatch):
    """Notes them between `start` and `stop`."""

    def __init__(
        self, noted: list[Compilation], note_defect: Callable[[Exception], None], compiler: FrameCompiler
    ) -> None:
        super().__init__("compile_subgraph", note_defect)
        self._noted = noted
        self._is_on = False
        self._refusals: dict[str, int] = {}
        """How often Dynamo had refused something, by its words, before it began with this frame."""
        compiler.add(self._around_frame)

    def start(self) -> None:
        """Begin now, or when the program imports Dynamo."""
        self._is_on = True
        super().start()

    def stop(self) -> None:
        """Put Dynamo and the import system back; what was noted is kept."""
        self._is_on = False
        super().stop()

    @contextmanager
    def _around_frame(self, given: tuple[Any, ...]) -> Iterator[None]:
        self._refusals = _refusals()
        try:
            yield
        except Exception as error:
            if self._is_on:
                self._note_refused(error, *given[:1], *given[5:6])
            raise

    def _note_refused(self, error: Exception, code: CodeType, backend: Any) -> None:
        """Nothing of a frame is compiled."""
        try:
            refused = _refused(error, code, backend)
            if refused is not None:
                self._noted.append(refused)
        except Exception as defect:  # must not reach the program
            self._note_defect(defect)

    def _newest_refusal(self) -> str:
        """What Dynamo could not trace in this frame, in its words; empty if it does not tell."""
        newer = [words for words, times in _refusals().items() if times > self._refusals.get(words, 0)]
        return newer[-1] if newer else ""

    def _noting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def compile_subgraph(output: Any, translator: Any, *rest: Any, **options: Any) -> Any:
            try:
                self._noted[-_KEPT_BY_DYNAMO:] = with_guards(self._noted[-_KEPT_BY_DYNAMO:])
                noted = _compilation(output, translator.f_code, (*rest, *options.values()))
                if noted.broken is not None and noted.broken.reason == _NO_WAY_ON:
                    noted = replace(noted, broken=_without_rest(noted.broken, self._newest_refusal()))
                self._noted.append(noted)
            except Exception as defect:  # must not reach the program
                self._note_defect(defect)
            return original(output, translator, *rest, **options)

        return compile_subgraph


def _compilation(output: Any, code: CodeType, given: Iterable[Any]) -> Compilation:
    reason = next(each for each in given if hasattr(each, "user_stack"))
    name, place, is_rest = _function_of(code)
    compile_id = str(find("torch._guards.CompileContext.current_compile_id")())
    is_backward = compile_id.startswith("!")  # of compiled autograd
    called = "backward" if is_backward else called_of_torch(output)
    if called is not None or is_made_by_fx(code.co_filename):  # such as what torch.export made
        name, place = called or name, _line_of_program() or place
    return Compilation(
        *_numbers_of(compile_id),
        name,
        *place,
        is_rest,
        sum(node.op in ("call_function", "call_method", "call_module") for node in output.graph.nodes),
        backend_name(getattr(output, "compiler_fn", None)),
        _graph_break(reason) if reason.graph_break else None,
        is_dynamic=find("torch._dynamo.config.assume_static_by_default") is False,
    )


def _function_of(code: CodeType) -> tuple[str, tuple[str, int], bool]:
    """Its name, its file and line, and whether it is the rest of a function."""
    rest = _REST.match(code.co_name)
    if rest is None:
        return code.co_name, (code.co_filename, code.co_firstlineno), False
    return rest["function"], (code.co_filename, int(rest["line"])), True


def _numbers_of(compile_id: str) -> tuple[int, int]:
    """The number of the code, and of its version."""
    numbers = _NUMBERS.search(compile_id)
    return (0, 0) if numbers is None else (int(numbers[1]), int(numbers[2]))


def _refusals() -> dict[str, int]:
    """What Dynamo could not trace so far, in its words, and how often."""
    counted = find("torch._dynamo.utils.counters")
    return dict(counted["unimplemented"]) if counted is not None else {}


def _refused(error: Exception, code: CodeType, backend: Any) -> Compilation | None:
    """A frame of which nothing is compiled; None if it is no code of the program, or the error is no refusal."""
    stack = getattr(error, "real_stack", None)
    if stack is None:
        return None
    name, place, is_rest = _function_of(code)
    own = [frame for frame in stack if not is_library_file(frame.filename)]
    if not own and is_library_file(code.co_filename):
        return None
    numbers = _numbers_of(str(find("torch._guards.CompileContext.current_compile_id")()))
    words = str(getattr(error, "msg", "") or error).strip()[:_MAX_WORDS]
    file, line = (own[-1].filename, own[-1].lineno or 0) if own else place
    broken = None if _TOO_MANY.search(words) else GraphBreak(words, file, line, leaves_rest=True)
    return Compilation(*numbers, name, *place, is_rest, 0, backend_name(backend), broken, is_refused=True)


def _without_rest(broken: GraphBreak, reason: str) -> GraphBreak:
    return replace(broken, reason=reason[:_MAX_WORDS] or broken.reason, leaves_rest=True)


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
