"""Reads the state of the autograd engine and of the devices that it runs on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Any

import torch

from gradviz.recording.torch_access.capabilities import note_failure, works
from gradviz.recording.torch_access.frames import custom_backward_code
from gradviz.recording.torch_access.modes import is_transforming
from gradviz.recording.torch_access.name_lookup import attribute, find

_tells_position = works("position of the engine")
current_graph_task_id: Callable[[], int] = find("torch._C._current_graph_task_id") if _tells_position else lambda: -1
"""-1 outside the autograd engine: distinguishes the script's own backward from one that a node runs."""

current_autograd_node: Callable[[], Any] = find("torch._C._current_autograd_node") if _tells_position else lambda: None
"""The node that the engine runs on this thread."""

_custom_backward = custom_backward_code() if works("custom backward") else None


def is_inside_custom_backward(frame: FrameType | None) -> bool:
    """Whether `frame` runs inside a custom function's backward, as all that reentrant checkpointing reruns does."""
    while frame is not None and _custom_backward is not None:
        if frame.f_code is _custom_backward:
            return True
        frame = frame.f_back
    return False


def why_backward_cannot_be_measured() -> str | None:
    """Why measuring hooks would change what this backward call does; None if they would not."""
    if find("torch._dynamo.compiled_autograd.compiled_autograd_enabled"):
        return "compiled autograd runs it"
    if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():  # type: ignore[no-untyped-call]
        return "a CUDA graph is being captured"
    if is_transforming():
        return "a transform of torch.func runs it"
    return None


def current_stream(device: torch.device) -> Any:
    """The stream on which work for the device is queued now; None for devices that have none."""
    current = getattr(getattr(torch, device.type, None), "current_stream", None)
    return current(device) if current is not None else None


def queued_on(stream: Any) -> AbstractContextManager[object]:
    """While entered, work for the stream's device is queued there; nothing where there is none."""
    if stream is None:
        return nullcontext()
    enter: Callable[[Any], AbstractContextManager[object]] = getattr(torch, stream.device.type).stream
    return enter(stream)


def queue_after(streams: Iterable[tuple[torch.device, Any]]) -> None:
    """Whatever is queued now for a device comes after what its streams have to do. The processor does not wait."""
    for device, stream in streams:
        current = current_stream(device) if stream is not None else None
        if current is not None and current != stream:
            current.wait_stream(stream)


def is_one_of_several_processes() -> bool:
    """True while other processes train together with this one."""
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


_lazy_backward = attribute("CompiledFunction._lazy_backward_info")


def is_differentiated_backward(function_class: Any) -> bool:
    """Whether it is what autograd makes of the backward of compiled code, with ``create_graph=True``."""
    return str(getattr(function_class, "__qualname__", "")).endswith(
        "_double_backward.<locals>.CompiledFunctionBackward"
    )


def compiled_backward_of(function_class: Any) -> Any:
    """The fx graph that a compiled function's backward is made from; None if it is gone or unknown."""
    if not works("backward of compiled code") or is_differentiated_backward(function_class):
        return None
    try:
        kept = _lazy_backward(function_class)
    except AttributeError:
        note_failure("backward of compiled code")
        return None
    return getattr(kept, "bw_module", None)


def is_refusal(code_name: str) -> bool:
    """Whether torch's function of that name checks the roots and gradients of a backward call."""
    return code_name == "_make_grads"
