"""Counts failures of gradviz while the program runs, and discloses them at the end. The program never sees them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from gradviz.recording.torch_access.modes import pause_tracing, resume_tracing


class Defects:
    """The failures of one part of a recording."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def note(self, defect: Exception) -> None:
        """Count one more."""
        self._counts[f"{type(defect).__name__}: {defect}"] += 1

    def caught(self) -> _Caught:
        """While entered, failures are counted, and `torch.jit.trace` records nothing.

        It would add a node to the traced graph whenever the shape of a tensor is read.
        """
        return _Caught(self)

    def sentences(self, what: str) -> list[str]:
        """One sentence for each failure; ``{}`` in `what` is replaced by how often it happened."""
        return [
            f"{what.format(f'{count:,}')}, which is a defect of gradviz: {defect}"
            for defect, count in self._counts.items()
        ]


class _Caught:
    """A class, because it is entered twice at every torch call: a generator takes three times as long."""

    __slots__ = ("_defects", "_tracing")

    def __init__(self, defects: Defects) -> None:
        self._defects = defects

    def __enter__(self) -> None:
        self._tracing = pause_tracing()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        resume_tracing(self._tracing)
        if not isinstance(error, Exception):
            return False
        self._defects.note(error)
        return True


_Method = TypeVar("_Method", bound=Callable[..., None])


def shielded(method: _Method) -> _Method:
    """The method inside `Defects.caught` of its object; written out, because it runs at every torch call."""

    @wraps(method)
    def shielded_method(self: Any, *args: Any) -> None:
        tracing = pause_tracing()
        try:
            method(self, *args)
        except Exception as defect:
            self.defects.note(defect)
        finally:
            resume_tracing(tracing)

    return shielded_method  # type: ignore[return-value]
