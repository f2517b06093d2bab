"""How long nodes work on a GPU: CUDA events are queued behind each node, and asked when all is over.

The program does not wait for them. A node's time goes from the end of what was queued before it on its stream, our own
measuring included, to the end of its own work. Where the GPU has nothing to do until the processor has started the
node's kernels, that waiting is part of it, and so is waiting for another stream.

Not run on a GPU yet: the order of events is tested with stand-ins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from gradviz.recording.torch_access.engine import current_stream
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION


def _timing_event() -> Any:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


class NodeClock:
    """Queues events on the streams that nodes run on. To be used by the threads that run them."""

    def __init__(
        self,
        event: Callable[[], Any] = _timing_event,
        stream_of: Callable[[torch.device], Any] = current_stream,
        device_type: str = "cuda",
    ) -> None:
        """`event` makes one that can be recorded on what `stream_of` gives for a device of that type."""
        self._event = event
        self._stream_of = stream_of
        self._device_type = device_type
        self._last: dict[Any, Any] = {}
        self._spans: dict[int, tuple[Any, Any]] = {}

    def begin(self, tensors: Iterable[Any]) -> Any:
        """What is queued next on the current stream of the first GPU among the tensors' begins now; that stream."""
        stream = self._stream(tensors)
        if stream is not None:
            self._last[stream] = self._recorded(stream)
        return stream

    def end(self, index: int, tensors: Iterable[Any]) -> Any:
        """The node with that index has queued its work; gives the stream, None where it works on no GPU."""
        stream = self._stream(tensors)
        if stream is not None:
            started = self._last.get(stream)
            ended = self._last[stream] = self._recorded(stream)
            if started is not None:
                self._spans.setdefault(index, (started, ended))
        return stream

    def resume(self, stream: Any) -> None:
        """What we queued for ourselves behind the node is no part of the next."""
        if stream is not None:
            self._last[stream] = self._recorded(stream)

    def seconds(self) -> dict[int, float]:
        """The time of each node, by its index; none for the first on a stream.

        Waits for what has not ended, which is nothing after the figures were read.
        """
        for _, ended in self._spans.values():
            if not ended.query():
                ended.synchronize()
        return {index: started.elapsed_time(ended) / 1e3 for index, (started, ended) in self._spans.items()}

    def _stream(self, tensors: Iterable[Any]) -> Any:
        with DISABLE_TORCH_FUNCTION():  # a subclass or mode of the program would hear that its device is asked for
            for tensor in tensors:
                if tensor is not None and tensor.device.type == self._device_type:
                    return self._stream_of(tensor.device)
        return None

    def _recorded(self, stream: Any) -> Any:
        event = self._event()
        event.record(stream)
        return event


def clock_if_needed() -> NodeClock | None:
    """None where the program has not used CUDA."""
    return NodeClock() if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]
