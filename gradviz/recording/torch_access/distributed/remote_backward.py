"""Notices backward calls of distributed autograd, whose graphs RPC spreads over several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from gradviz.graph.number_words import counted
from gradviz.recording.torch_access.patches import Replacement


class RemoteBackwardNotice:
    """Counts them between `start` and `stop`."""

    def __init__(self) -> None:
        self._calls = 0
        self._backward = Replacement("torch.distributed.autograd.backward")

    def start(self) -> None:
        """Begin to count."""
        self._backward.put(self._counting)

    def stop(self) -> None:
        """Put everything back; safe to call twice."""
        self._backward.take_back()

    def disclosures(self) -> Iterator[str]:
        """A sentence, if there were any."""
        if self._calls:
            calls = counted(self._calls, "call")
            yield f"{calls} of torch.distributed.autograd.backward(): RPC spreads their graphs over several processes"

    def _counting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            self._calls += 1
            return original(*args, **kwargs)

        return backward
