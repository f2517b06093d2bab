"""Failures of ours while the program runs: counted, disclosed at the end, and never seen by the program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

from gradviz.recording.torch_access.modes import pause_tracing, resume_tracing


class Defects:
    """Those of one part of a recording."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def note(self, defect: Exception) -> None:
        """One more of them."""
        self._counts[f"{type(defect).__name__}: {defect}"] += 1

    @contextmanager
    def caught(self) -> Iterator[None]:
        """While entered, failures are noted, and `torch.jit.trace` sees nothing.

        To it the shape of a tensor that is asked for would be a node of the traced graph.
        """
        tracing = pause_tracing()
        try:
            yield
        except Exception as defect:
            self.note(defect)
        finally:
            resume_tracing(tracing)

    def sentences(self, what: str) -> list[str]:
        """How often each of them kept us from something; in `what`, ``{}`` stands for the number."""
        return [
            f"{what.format(f'{count:,}')}, which is a defect of gradviz: {defect}"
            for defect, count in self._counts.items()
        ]


_Method = TypeVar("_Method", bound=Callable[..., None])


def shielded(method: _Method) -> _Method:
    """The program sees no failure of `method`: `Defects.caught` of its object, written out as it runs at each call."""

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
