"""Which line made which module: a row of the call log for every ``torch.nn.Module`` that is made."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

from gradviz.recording.calls.row_writer import CallWriter
from gradviz.recording.calls.rows import Row
from gradviz.recording.frame_variables import local_variables
from gradviz.recording.run.stacks import calling_frame
from gradviz.recording.torch_access.capabilities import works
from gradviz.recording.torch_access.patches import Replacement

_MODULE_IS_MADE = "python.nn_module"
"""What the function is called with by ``Module.__init__``, which is not replaced: that would show in the program's
tracebacks, and to whoever inspects it."""


class ModuleMakers:
    """Told by a function that torch calls as the first thing in ``Module.__init__``, between `start` and `stop`."""

    def __init__(self, writer: CallWriter) -> None:
        self._writer = writer
        self._replacement = Replacement("torch._C._log_api_usage_once")
        self._rows: dict[int, tuple[weakref.ref[Any], Row]] = {}

    def start(self) -> None:
        """Replace that function."""
        if works("making of modules"):
            self._replacement.put(self._telling)

    def stop(self) -> None:
        """Put it back; safe to call twice."""
        self._replacement.take_back()

    def _telling(self, original: Callable[[str], Any]) -> Callable[[str], Any]:
        def note(told: str) -> Any:
            if told == _MODULE_IS_MADE:
                self._note(calling_frame())
            return original(told)

        return note

    def row_of(self, module: Any) -> Row | None:
        """The row of a module that was made while this watched."""
        found = self._rows.get(id(module))
        return found[1] if found is not None and found[0]() is module else None

    def _note(self, frame: FrameType) -> None:
        writer = self._writer
        if writer.is_elsewhere():
            return
        with writer.shield():
            module = local_variables(frame).get("self")
            if module is not None:
                kind = type(module)
                row = writer.new_row(f"{kind.__module__}.{kind.__qualname__}", "make_module", frame)
                key, rows = id(module), self._rows
                # Of a module that dies nobody asks any more, and another may get its id.
                rows[key] = weakref.ref(module, lambda _: rows.pop(key, None)), row
