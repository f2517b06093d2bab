"""Goes around Dynamo's compilation of one frame, from the moment at which the program imports Dynamo.

It is done at the innermost function: before that one is called, Dynamo asks whose frame is above its own, and a frame
of gradviz there would hide ``torch.compiler.disable(recursive=False)`` from it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import wraps
from typing import Any

from gradviz.recording.torch_access.import_notice import ImportNotice
from gradviz.recording.torch_access.name_lookup import find
from gradviz.recording.torch_access.patches import Replacement

_MODULE = "torch._dynamo.convert_frame"

Around = Callable[[tuple[Any, ...]], AbstractContextManager[None]]
"""Gets the positional arguments: code, globals, locals, builtins, closure, backend, and others."""


class FrameCompiler:
    """Enters what was added around each compilation, between `start` and `stop`."""

    def __init__(self) -> None:
        self._around: list[Around] = []
        self._switch = Replacement(f"{_MODULE}._compile")
        self._notice = ImportNotice(_MODULE, self._install)

    def add(self, around: Around) -> None:
        """Enter this one, too, inside those that were added before."""
        self._around.append(around)

    @property
    def is_in_force(self) -> bool:
        """Whether compilations are noticed now."""
        return self._switch.is_in_force

    def start(self) -> None:
        """Begin now, or when the program imports Dynamo."""
        self._notice.start()

    def stop(self) -> None:
        """Put Dynamo and the import system back."""
        self._notice.stop()
        self._switch.take_back()

    def _install(self) -> None:
        if find(self._switch.path) is not None:
            self._switch.put(self._surrounded)

    def _surrounded(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def compile_frame(*args: Any, **options: Any) -> Any:
            with ExitStack() as stack:
                for around in self._around:
                    stack.enter_context(around(args))
                return original(*args, **options)

        return compile_frame
