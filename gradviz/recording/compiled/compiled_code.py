"""Keeps the recorder out of the sight of `torch.compile`.

Dynamo traces active function modes and module hooks into its graphs, and breaks them at what it cannot trace. Every
compiled call passes ``torch._dynamo.eval_frame._maybe_set_eval_frame``: with a callback when it begins, with the
earlier one when it ends. Watching is paused in between. Dynamo is heavy and rarely used, so it is never imported for
this; where the program imports it later, `ImportNotice` tells.
"""

from __future__ import annotations

import threading
from types import FrameType
from typing import Any

from gradviz.recording.forward_watch import ForwardWatch
from gradviz.recording.run.stacks import calling_frame
from gradviz.recording.torch_access import patches
from gradviz.recording.torch_access.import_notice import ImportNotice

_MODULE = "torch._dynamo.eval_frame"
_SWITCH = "_maybe_set_eval_frame"


class CompiledCodeWatch:
    """Pauses a `ForwardWatch` while compiled code runs, between `start` and `stop`."""

    def __init__(self, watch: ForwardWatch) -> None:
        self._watch = watch
        self._thread = threading.get_ident()
        self._row = 0
        self._compiled_call: FrameType | None = None
        """The frame of Dynamo's wrapper that entered compiled code first; the same one will leave it."""
        self._is_leaving = False
        self._original: Any = None
        self._original_hook_question: Any = None
        self._notice = ImportNotice(_MODULE, self.install)

    def start(self) -> None:
        """Install the switch now, or as soon as the program imports Dynamo."""
        self._notice.start()

    def stop(self) -> None:
        """Put Dynamo and the import system back."""
        self._notice.stop()
        if self._original is not None:
            module = patches.dynamo_eval_frame()
            if module is not None:
                setattr(module, _SWITCH, self._original)
            self._original = None
            patches.restore_global_hook_question(self._original_hook_question)

    @property
    def is_running(self) -> bool:
        """True on the recorded thread while compiled code runs or is being compiled."""
        return self._compiled_call is not None and threading.get_ident() == self._thread

    def install(self) -> None:
        """Replace Dynamo's switch by one that pauses the watch as well."""
        module = patches.dynamo_eval_frame()
        if module is None or self._original is not None:
            return
        self._original = original = getattr(module, _SWITCH)

        def switch(callback: Any) -> Any:
            # Whatever Python runs while a callback is set is compiled, our own functions included: pause before it
            # is set, resume after it is gone.
            self._before_switch(calling_frame(), enters_compiled_code=callback is not None and callback is not False)
            result = original(callback)
            if self._is_leaving:
                self._after_compiled_call()
            return result

        setattr(module, _SWITCH, switch)
        self._original_hook_question = patches.replace_global_hook_question(self._watch.owns_hook)

    def _before_switch(self, wrapper: FrameType, *, enters_compiled_code: bool) -> None:
        if not self._watch.is_watching or threading.get_ident() != self._thread:
            return
        # Compiling itself switches Dynamo off and on again, so only the wrapper that paused may resume.
        if self._compiled_call is None and enters_compiled_code:
            self._compiled_call = wrapper
            self._row = self._watch.pause(wrapper, "torch.compile")
        elif self._compiled_call is wrapper:
            self._is_leaving = True

    def _after_compiled_call(self) -> None:
        self._is_leaving = False
        self._compiled_call = None
        self._watch.resume(self._row)
