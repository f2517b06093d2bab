"""Notes every call of the program's own functions, in order, by thread.

These are its hooks of every kind, its modules, custom functions, closures, modes and properties: whoever calls one of
them once more than without a recorder, or in another order, is found here. Of torch's own functions those count that
run user code again, such as checkpointing's.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from gradviz.recording.run.file_kinds import STAND_IN
from tests.harmless.own_code import is_own_code

MAX_CALLS = 200_000

_ALSO = {
    "/torch/utils/checkpoint.py": {"forward", "backward", "recompute_fn", "pack_hook", "unpack_hook"},
    "/torch/autograd/graph.py": {"pack_to_cpu", "unpack_from_cpu"},
    "/torch/nn/modules/": {"forward"},
    "/torch/nn/utils/": {"forward", "compute_weight", "right_inverse"},
    "/torch/optim/": {"step", "zero_grad"},
    "/torch/_dynamo/convert_frame.py": {"_compile"},
}
"""Files of torch whose functions count, and which of them."""


class CallLog:
    """The calls by name of their thread."""

    def __init__(self) -> None:
        self.calls: dict[str, list[str]] = {}
        self._names: dict[CodeType, str | None] = {}

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note calls of this thread and of those that begin inside."""
        threading.setprofile(self._notice)
        sys.setprofile(self._notice)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _notice(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code not in self._names:
            self._names[code] = _name_of(code)
        name = self._names[code]
        if name is not None:
            calls = self.calls.setdefault(threading.current_thread().name, [])
            if len(calls) < MAX_CALLS:
                calls.append(name)


def _name_of(code: CodeType) -> str | None:
    """How a call is noted; None for code whose calls do not count."""
    # A frame that stands in for one of the program's is no call of it.
    if code.co_name == STAND_IN:
        return None
    file = code.co_filename
    counts = is_own_code(code)
    for part, names in _ALSO.items():
        counts = counts or (part in file and code.co_name in names)
    name = getattr(code, "co_qualname", code.co_name)  # Python 3.10 has no qualified names here
    return f"{name} ({file.rpartition('/')[2]}:{code.co_firstlineno})" if counts else None
