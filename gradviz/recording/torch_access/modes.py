"""Reads which modes are on, and hides operations of gradviz from them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from gradviz.recording.torch_access import checkpointing
from gradviz.recording.torch_access.capabilities import works
from gradviz.recording.torch_access.name_lookup import find, is_loaded, owner_of
from gradviz.recording.torch_access.patches import Replacement

push_function_mode: Callable[[Any], None] = find("torch._C._push_on_torch_function_stack")
"""Put a function mode on this thread's stack."""


def pop_function_mode() -> Any:
    """Remove and return the topmost function mode of this thread's stack; None if there is none."""
    return _pop() if _depth() else None


_pop = find("torch._C._pop_torch_function_stack")
_depth = find("torch._C._len_torch_function_stack")


def swallow_next_push(mode: Any) -> None:
    """Keep torch from putting `mode` back on its stack when the running handler returns."""
    if not works("leaving a handler"):
        return  # it stays, passing every call through, until the recording is stopped once more at the program's end
    replacement = Replacement("torch.overrides._push_mode")

    def without_one(original: Callable[[Any], None]) -> Callable[[Any], None]:
        def push_all_but_one(other: Any) -> None:
            if other is mode:
                replacement.take_back()
            else:
                original(other)

        return push_all_but_one

    replacement.put(without_one)


def replaying_views() -> AbstractContextManager[object]:
    """While entered, a view that was changed in place gets the nodes of its views, as those of fake tensors do.

    Without it, autograd makes one node of them, ``AsStridedBackward0``. A torch that cannot do it does nothing.
    """
    if not works("nodes of views"):
        return nullcontext()
    forced: AbstractContextManager[object] = find("torch.autograd.grad_mode._force_original_view_tracking")(True)
    return forced


GRAD_SWITCH: Callable[[bool], None] | None = (
    find("torch._C._set_grad_enabled") if works("switches of gradients") else None
)
"""The function that every switch of gradients except inference mode calls; None if this torch calls another one."""

switch_gradients: Callable[[bool], object] = GRAD_SWITCH or torch.set_grad_enabled
"""Switches gradients of this thread on or off. A function mode sees it, unless torch functions are disabled."""

_traces = works("tracing")
_tracing_state: Callable[[], Any] = find("torch._C._get_tracing_state") if _traces else lambda: None
_set_tracing_state: Callable[[Any], None] = find("torch._C._set_tracing_state") if _traces else lambda _: None


def pause_tracing() -> Any:
    """Keep what gradviz does next out of the graph of `torch.jit.trace`; returns the state for `resume_tracing`."""
    state = _tracing_state()
    if state is not None:
        _set_tracing_state(None)
    return state


def resume_tracing(state: Any) -> None:
    """Undo `pause_tracing`."""
    if state is not None:
        _set_tracing_state(state)


def is_tracing() -> bool:
    """True while `torch.jit.trace` watches this thread."""
    return _tracing_state() is not None


is_any_autocast_enabled: Callable[[], bool] = (
    find("torch._C._is_any_autocast_enabled") if works("autocast") else torch.is_autocast_enabled
)
"""Whether autocast is on for any device."""

_peek_transform: Callable[[], Any] = (
    find("torch._C._functorch.peek_interpreter_stack") if works("transforms") else lambda: None
)


def is_transforming() -> bool:
    """True while a transform of ``torch.func`` runs, whose tensors wrap others."""
    return _peek_transform() is not None


_tells_forward_gradients = works("forward gradients")
_forward_ad, _level = owner_of("torch.autograd.forward_ad._current_level")


def computes_forward_gradients() -> bool:
    """True while the program computes with dual numbers."""
    return _tells_forward_gradients and bool(getattr(_forward_ad, _level) >= 0)


def without_forward_gradients() -> Any:
    """While entered, tangents of dual numbers are not propagated."""
    return _switch_forward_gradients(False) if _tells_forward_gradients else nullcontext()


_switch_forward_gradients = find("torch.autograd.forward_ad._set_fwd_grad_enabled")

_tells_dispatch_modes = works("dispatch modes")
has_dispatch_modes: Callable[[], bool | int] = (
    find("torch._C._len_torch_dispatch_stack") if _tells_dispatch_modes else lambda: True
)
"""Whether any dispatch mode of the program is active on this thread."""

DISABLE_DISPATCH_MODES: Callable[[], Any] = (
    find("torch._C._DisableTorchDispatch") if _tells_dispatch_modes else nullcontext
)
"""While entered, no dispatch mode of the program sees an operation."""


def is_checkpointing() -> bool:
    """True while non-reentrant checkpointing packs what nodes save."""
    if not _ways:
        if not is_loaded(checkpointing.NEEDED_MODULE):
            return False
        _ways.append((works("checkpointing") and checkpointing.working_way()) or (lambda: False))
    return _ways[0]()


_ways: list[Callable[[], bool]] = []
"""How it is seen, once it was looked for."""


keeps_node_metadata: Callable[[], bool] = find("torch.fx.traceback.has_preserved_node_meta") or (lambda: False)
"""Whether autograd nodes store the node of the fx graph that they come from, instead of a stack."""
