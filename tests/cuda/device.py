"""Where the tests of this folder compute."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
import torch

DEVICE = os.environ.get("GRADVIZ_GPU_DEVICE", "cuda")
"""``cpu`` for a dry run."""

asks_cuda = pytest.mark.skipif(DEVICE != "cuda", reason="a dry run: only CUDA has what this test asks for")


class Stream:
    """A stream of its own; on the processor none."""

    def __init__(self) -> None:
        self._stream: Any = torch.cuda.Stream() if DEVICE == "cuda" else None  # type: ignore[no-untyped-call]

    @contextmanager
    def after_current(self) -> Iterator[None]:
        """Compute on it, after all that was queued, and let the current stream come after that."""
        if self._stream is None:
            yield
            return
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            yield
        torch.cuda.current_stream().wait_stream(self._stream)


def autocast() -> AbstractContextManager[Any]:
    return torch.autocast(DEVICE, dtype=torch.float16)


def sleep(cycles: int) -> None:
    """Keep the GPU busy; the processor goes on."""
    torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]
