"""Which line made which module: a row of the call log for every ``torch.nn.Module`` that is made."""

from __future__ import annotations

import weakref
from types import FrameType
from typing import Any

from gradviz.recording.calls.row_writer import CallWriter
from gradviz.recording.calls.rows import Row
from gradviz.recording.forward.names import local_variables
from gradviz.recording.run.stacks import calling_frame
from gradviz.recording.torch_access import patches


class ModuleMakers:
    """Told by a function that torch calls as the first thing in ``Module.__init__``, between `start` and `stop`."""

    def __init__(self, writer: CallWriter) -> None:
        self._writer = writer
        self._probe = patches.module_made_probe()
        self._original: Any = None
        self._rows: dict[int, tuple[weakref.ref[Any], Row]] = {}

    def start(self) -> None:
        """Replace that function."""
        if self._probe is None or self._original is not None:
            return
        owner, name, event = self._probe
        self._original = original = getattr(owner, name)

        def note(told: str) -> Any:
            if told == event:
                self._note(calling_frame())
            return original(told)

        setattr(owner, name, note)

    def stop(self) -> None:
        """Put it back; safe to call twice."""
        if self._probe is not None and self._original is not None:
            owner, name, _ = self._probe
            setattr(owner, name, self._original)
            self._original = None

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
