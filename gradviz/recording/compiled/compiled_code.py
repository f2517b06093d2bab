"""Keeps the recorder out of what `torch.compile` traces.

Dynamo traces active function modes and module hooks into its graphs, and breaks a graph at what it cannot trace. Every
compiled call passes ``torch._dynamo.eval_frame._maybe_set_eval_frame``: with a callback when it begins, with the
earlier one when it ends. The recorder pauses in between, and while Dynamo traces a model for `torch.export`. Dynamo is
slow to import and rarely used, so it is never imported for this; if the program imports it later, `ImportNotice` calls
`install`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial, update_wrapper, wraps
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from gradviz.recording.compiled.call_inputs import CallInputs
from gradviz.recording.compiled.inner_calls import InnerCalls
from gradviz.recording.compiled.region_calls import RegionCalls
from gradviz.recording.compiled.uncompiled_code import UncompiledCode
from gradviz.recording.forward_watch import ForwardWatch
from gradviz.recording.run.line_attribution import calling_frame
from gradviz.recording.torch_access.dynamo.compilations import Compilations
from gradviz.recording.torch_access.dynamo.dynamo_graphs import DynamoGraphs, TracedGraph
from gradviz.recording.torch_access.dynamo.frame_compiler import FrameCompiler
from gradviz.recording.torch_access.dynamo.untraced import off_switch, skip_what_waits, untraced
from gradviz.recording.torch_access.import_notice import ImportNotice
from gradviz.recording.torch_access.modules import global_hook_tables
from gradviz.recording.torch_access.name_lookup import find
from gradviz.recording.torch_access.patches import Replacement

_MODULE = "torch._dynamo.eval_frame"
_EXPORT_MODULE = "torch.export._trace"


class CompiledCodeWatch:
    """Pauses a `ForwardWatch` while compiled code runs, between `start` and `stop`.

    Args:
        holds_calls: hold what each call of compiled code gets, so that it can be run a second time.
    """

    def __init__(self, watch: ForwardWatch, *, holds_calls: bool = False) -> None:
        self._watch = watch
        self._thread = threading.get_ident()
        self._compiler = FrameCompiler()
        self._uncompiled = UncompiledCode(watch, self._compiler)
        self._compiled_call: FrameType | None = None
        """The frame of Dynamo's wrapper that entered compiled code first; the same frame will leave it."""
        self._is_leaving = False
        self._switch = Replacement("torch._dynamo.eval_frame._maybe_set_eval_frame")
        self._hook_question = Replacement("torch.nn.modules.module._has_any_global_hook")
        self._export = Replacement("torch.export._trace._strict_export")
        self._notices = (
            ImportNotice("torch._dynamo", during=self._unseen_import),  # for which some releases make tensors
            ImportNotice(_MODULE, self.install),
            ImportNotice(_EXPORT_MODULE, self._install_export),
        )
        self._holders: list[CallInputs | InnerCalls | RegionCalls] = [CallInputs(watch)]
        if watch.calls is not None and not watch.takes_fingerprints:
            self._holders.append(InnerCalls(watch, watch.calls))
        if holds_calls:
            self._holders.append(RegionCalls(watch.defects.note))
        self._placed: WeakKeyDictionary[partial[Any], Callable[..., Any]] = WeakKeyDictionary()
        """What Dynamo's code calls in place of what the backend compiled."""
        self._graphs = DynamoGraphs(
            watch.traced_graphs, watch.defects.note, self._around, watch.compilations, keeps_constants=holds_calls
        )
        self._compilations = Compilations(watch.compilations, watch.defects.note, self._compiler)

    def start(self) -> None:
        """Install the switch now, or when the program imports Dynamo."""
        for notice in self._notices:
            notice.start()
        for holder in self._holders:
            holder.start()
        self._compiler.start()
        self._note_what_is_compiled()

    def stop(self) -> None:
        """Put Dynamo and the import system back."""
        for notice in self._notices:
            notice.stop()
        for holder in self._holders:
            holder.stop()
        self._release()
        self._compiler.stop()
        self._stop_noting()
        self._switch.take_back()
        self._export.take_back()
        self._hook_question.take_back()

    def _around(self, traced: TracedGraph, compiled: Callable[..., Any]) -> Callable[..., Any]:
        watched = compiled
        for holder in self._holders:
            watched = holder.around(traced, watched)
        # Python calls a partial without a frame, and what it calls can be changed when the recording is over.
        placed: partial[Any] = partial(watched)
        update_wrapper(placed, watched)
        # torch 2.10 calls what this names, where there is such a name, in place of the function.
        vars(placed).pop("_torchdynamo_orig_callable", None)
        self._placed[placed] = compiled
        return placed

    def _release(self) -> None:
        """Let Dynamo's code call what the backend compiled, and nothing of gradviz."""
        placed: Any
        for placed, compiled in list(self._placed.items()):
            placed.__setstate__((compiled, (), {}, {**vars(placed), "__wrapped__": compiled}))
        self._placed.clear()

    def _note_what_is_compiled(self) -> None:
        self._graphs.start()
        self._compilations.start()

    def _stop_noting(self) -> None:
        self._graphs.stop()
        self._compilations.stop()

    @property
    def is_running(self) -> bool:
        """True on the recorded thread while compiled code runs or is being compiled."""
        return self._compiled_call is not None and threading.get_ident() == self._thread

    @contextmanager
    def left(self) -> Iterator[None]:
        """The program's own code runs at a graph break: watch it, until compiled code goes on."""
        wrapper = self._compiled_call
        if wrapper is None or not self.is_running:
            yield
            return
        self._after_compiled_call()
        try:
            yield
        finally:
            self._enter(wrapper)

    def _enter(self, wrapper: FrameType, function: str = "torch.compile", *, only_traces: bool = False) -> None:
        self._compiled_call = wrapper
        row = self._watch.pause(wrapper, function, only_traces=only_traces)
        self._uncompiled.begin(row, self._watch.log.of_thread(self._thread), wrapper)

    def install(self) -> None:
        """Replace Dynamo's switch by one that also pauses the watch."""
        skip_what_waits()
        # It is not tested first: Dynamo is being imported, and the test would wait for that.
        if find(self._switch.path) is not None and self._switch.put(self._pausing):
            self._hook_question.put(lambda _: self._has_any_global_hook)

    def _has_any_global_hook(self) -> bool:
        """Dynamo's function, after which it prints a warning, without counting hooks of gradviz."""
        owns = self._watch.owns_hook
        return any(not owns(hook) for table in global_hook_tables() for hook in table)

    def _pausing(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        switch_off = off_switch()

        @untraced
        def switch(callback: Any) -> Any:
            # Python compiles everything that runs while a callback is set, gradviz included: pause before it is set,
            # resume after it is gone.
            before = switch_off(None)
            self._before_switch(calling_frame(), enters_compiled_code=callback is not None and callback is not False)
            result = original(callback)
            if self._is_leaving:
                self._after_compiled_call()
            return result if before is None else before

        return switch

    def _install_export(self) -> None:
        self._export.put(self._pausing_during)

    def _pausing_during(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def strict_export(*args: Any, **options: Any) -> Any:
            with self._only_tracing("torch.export.export", calling_frame()):
                return original(*args, **options)

        return strict_export

    def _unseen_import(self) -> AbstractContextManager[None]:
        return self._only_tracing("import torch._dynamo", calling_frame())

    @contextmanager
    def _only_tracing(self, function: str, frame: FrameType) -> Iterator[None]:
        """Pause, and note nothing of what is compiled, while torch computes nothing for the program."""
        if self._compiled_call is not None or not self._is_watching_here():
            yield
            return
        self._enter(frame, function, only_traces=True)
        self._stop_noting()
        try:
            yield
        finally:
            self._note_what_is_compiled()
            self._after_compiled_call()

    def _is_watching_here(self) -> bool:
        return self._watch.is_watching and threading.get_ident() == self._thread

    def _before_switch(self, wrapper: FrameType, *, enters_compiled_code: bool) -> None:
        if not self._is_watching_here():
            return
        # Compiling also switches Dynamo off and on, so only the wrapper that paused may resume.
        if self._compiled_call is None and enters_compiled_code:
            self._enter(wrapper)
        elif self._compiled_call is wrapper:
            self._is_leaving = True

    def _after_compiled_call(self) -> None:
        self._is_leaving = False
        self._compiled_call = None
        self._watch.resume(self._uncompiled.end())
