"""Every private or version-dependent torch name that is read, by capability, in one place.

Two tools of this field died of private names that moved. Here each is looked up once; where it is missing, the
function below it says what is lost instead of failing, or `MissingDependency` names the torch that is needed. Where a
recorder listens or replaces something, see `torch_probes`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from contextlib import nullcontext
from types import FrameType
from typing import Any

import torch

from gradviz.errors import MissingDependency
from gradviz.recording.torch_access import patches
from gradviz.recording.torch_access.own_thread import result_of_own_thread

LEAF_SEQUENCE_NR = 2**64 - 1
"""What ``_sequence_nr()`` answers for `AccumulateGrad`."""


def _missing(name: str) -> Callable[..., Any]:
    def unavailable(*_: object) -> Any:
        raise AttributeError(f"torch {torch.__version__} has no {name}")

    return unavailable


peek_sequence_nr: Callable[[], int] = getattr(torch._C._autograd, "_get_sequence_nr", _missing("_get_sequence_nr"))
"""The sequence number that the next node of this thread will get."""

current_graph_task_id: Callable[[], int] = getattr(torch._C, "_current_graph_task_id", lambda: -1)
"""-1 outside the autograd engine: tells the script's own backward from one that a node runs inside it."""

current_autograd_node: Callable[[], Any] = getattr(torch._C, "_current_autograd_node", lambda: None)
"""The node that the engine runs on this thread."""

_CUSTOM_BACKWARD = sys.modules["torch.autograd.function"].BackwardCFunction.apply.__code__


def is_inside_custom_backward(frame: FrameType | None) -> bool:
    """Whether a custom function's backward runs above `frame`: what reentrant checkpointing runs is inside one."""
    while frame is not None:
        if frame.f_code is _CUSTOM_BACKWARD:
            return True
        frame = frame.f_back
    return False


DISABLE_TORCH_FUNCTION: Callable[[], Any] = torch._C.DisableTorchFunction
"""While entered, reading a tensor's attributes reaches no mode and no subclass of the user."""


def node_of_leaf(leaf: torch.Tensor) -> Any:
    """The ``AccumulateGrad`` of a leaf, which is made if nothing was computed from it yet.

    torch tells it only to a node that is computed from the leaf. Each thread counts sequence numbers on its own: that
    node is made by a thread of ours, so that it takes none of the program's.
    """

    def ask() -> Any:
        with DISABLE_TORCH_FUNCTION():
            return torch.autograd.graph.get_gradient_edge(leaf).node

    return result_of_own_thread(ask)


def post_accumulate_hooks(tensor: torch.Tensor) -> Collection[int]:
    """Numbers of the hooks that were put on a leaf with ``register_post_accumulate_grad_hook``."""
    return getattr(tensor, "_post_accumulate_grad_hooks", None) or ()


def has_saved_data(raw_saved: Any) -> bool | None:
    """Whether a raw saved tensor still holds what was saved; None where this torch does not tell without unpacking."""
    return raw_saved.data is not None if hasattr(raw_saved, "data") else None


CHECKPOINT_MODULE = "torch.utils.checkpoint"
"""Where the hooks and records of non-reentrant checkpointing are defined."""

_top_hooks = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)


def is_checkpointing() -> bool:
    """True while non-reentrant checkpointing packs what nodes save."""
    hooks = _top_hooks(False) if _top_hooks is not None else None
    return hooks is not None and getattr(hooks[0], "__module__", None) == CHECKPOINT_MODULE


keeps_node_metadata: Callable[[], bool] = getattr(
    sys.modules.get("torch.fx.traceback"), "has_preserved_node_meta", lambda: False
)
"""Whether nodes of autograd tell the node of an fx graph that they come from, and no stack."""


_tracing_state: Callable[[], Any] = getattr(torch._C, "_get_tracing_state", lambda: None)
_set_tracing_state: Callable[[Any], None] = getattr(torch._C, "_set_tracing_state", lambda _: None)


def pause_tracing() -> Any:
    """Keep what we do next out of the graph that `torch.jit.trace` makes; gives what `resume_tracing` needs."""
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


weak_tensor: Callable[[torch.Tensor], Any] = getattr(torch._C, "_WeakTensorRef", _missing("_WeakTensorRef"))
"""A weak reference of torch's own, which knows ``expired()`` and keeps the address of the C++ object taken."""

is_any_autocast_enabled: Callable[[], bool] = getattr(torch._C, "_is_any_autocast_enabled", torch.is_autocast_enabled)
"""Whether autocast is on for any device."""


SET_GRAD_ENABLED: Callable[[bool], None] = torch._C._set_grad_enabled
"""What every switch of gradients but inference mode calls."""


def can_read_values(tensor: torch.Tensor) -> bool:
    """False where reading would fail or break what the program does: no data, a transform, a CUDA graph."""
    if tensor.is_meta or is_transforming():
        return False
    return not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())


def current_stream(device: torch.device) -> Any:
    """The stream on which work for the device is queued now; None for devices that have none."""
    current = getattr(getattr(torch, device.type, None), "current_stream", None)
    return current(device) if current is not None else None


def wait_for(device: torch.device) -> None:
    """Wait until everything that was queued for the device is done."""
    synchronize = getattr(getattr(torch, device.type, None), "synchronize", None)
    if synchronize is not None and device.type != "cpu":
        synchronize()


def why_backward_cannot_be_measured() -> str | None:
    """Why hooks that measure would change what this backward call does, if they would."""
    compiled_autograd = sys.modules.get("torch._dynamo.compiled_autograd")
    if getattr(compiled_autograd, "compiled_autograd_enabled", False):
        return "compiled autograd runs it"
    if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():  # type: ignore[no-untyped-call]
        return "a CUDA graph is being captured"
    if is_transforming():
        return "a transform of torch.func runs it"
    return None


def is_one_of_several_processes() -> bool:
    """True while other processes train together with this one."""
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def is_transforming() -> bool:
    """True while a transform of ``torch.func`` runs: its tensors stand for others."""
    return getattr(_functorch, "peek_interpreter_stack", lambda: None)() is not None


has_storage: Callable[[torch.Tensor], bool] = getattr(torch._C, "_has_storage", lambda _: True)
"""Whether the tensor has memory of its own: those that vmap wraps around others have none."""


def computes_forward_gradients() -> bool:
    """True while the program computes with dual numbers."""
    return bool(getattr(torch.autograd.forward_ad, "_current_level", -1) >= 0)


def without_forward_gradients() -> Any:
    """While entered, tangents of dual numbers are not propagated."""
    switch = getattr(torch.autograd.forward_ad, "_set_fwd_grad_enabled", None)
    return switch(False) if switch is not None else nullcontext()


has_dispatch_modes: Callable[[], bool | int] = getattr(torch._C, "_len_torch_dispatch_stack", lambda: True)
"""Whether any dispatch mode of the program is active on this thread."""

DISABLE_DISPATCH_MODES: Callable[[], Any] = getattr(torch._C, "_DisableTorchDispatch", nullcontext)
"""While entered, no dispatch mode of the program sees an operation."""


def grad_fn_of(tensor: torch.Tensor) -> Any:
    """The tensor's ``grad_fn``; None for leaves, and where torch refuses to tell it.

    It refuses for a view made by ``unbind`` or ``split`` whose base was changed in place since.
    """
    try:
        return tensor.grad_fn if tensor.requires_grad else None
    except RuntimeError:
        return None


def may_be_asked(tensor: torch.Tensor) -> bool:
    """Whether a tensor that requires grad can be asked for ``grad_fn`` and ``is_leaf`` without consequences.

    For a view whose base was changed in place torch makes a new node then, or refuses, unless the base needs no
    gradient. The program's later nodes would get other sequence numbers, and by these the engine orders its sums.
    """
    if not tensor._is_view() or not tensor._version:
        return True
    return tensor._base is not None and not tensor._base.requires_grad


def grad_fn_there_already(tensor: torch.Tensor) -> Any:
    """The same as `grad_fn_of`, but None where torch might first have to make that node."""
    return tensor.grad_fn if tensor.requires_grad and may_be_asked(tensor) else None


_functorch = getattr(torch._C, "_functorch", None)


def unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """The program's own tensor inside those that ``torch.func`` wraps around it for the time of a transform."""
    is_wrapped = getattr(_functorch, "is_functorch_wrapped_tensor", None)
    unwrap = getattr(_functorch, "get_unwrapped", None)
    while is_wrapped is not None and unwrap is not None and is_wrapped(tensor):
        tensor = unwrap(tensor)
    return tensor


def tensor_getter(attribute: str) -> Callable[[torch.Tensor], Any]:
    """Reads an attribute of any tensor as torch has it, past properties that a subclass defines under its name."""
    return vars(torch._C.TensorBase)[attribute].__get__  # type: ignore[no-any-return]


def input_metadata(node: Any) -> tuple[Any, ...]:
    """Shape, dtype and device of each output of the node's forward; empty where this torch does not tell."""
    return getattr(node, "_input_metadata", ())


def python_function_class(node: Any) -> type | None:
    """The ``autograd.Function`` of a node that was written in Python, else None."""
    return getattr(node, "_forward_cls", None) if isinstance(node, torch._C._FunctionBase) else None


MAKE_NO_NODES = frozenset(
    getattr(getattr(torch.Tensor, name), access)
    for name in ("grad", "grad_fn", "requires_grad", "is_leaf", "shape", "dtype", "device", "layout", "data")
    for access in ("__get__", "__set__")
    if hasattr(getattr(torch.Tensor, name, None), access)
)
"""Readings of a tensor that programs make by the thousand, as ``zero_grad`` does, and that compute nothing."""


FUSED_WITHOUT_MODES = tuple(
    getattr(torch.nn, name)
    for name in ("TransformerEncoder", "TransformerEncoderLayer", "MultiheadAttention")
    if hasattr(torch.nn, name)
)
"""Modules that run one fused kernel for inference, which gives other numbers, unless a function mode is active."""


def untold(node: Any) -> list[str]:
    """What this torch cannot tell a recorder, to be disclosed; `node` is any node of a graph."""
    told = {
        "shapes of what operations give": hasattr(node, "_input_metadata"),
        "which operations checkpointing computes again": _top_hooks is not None,
        "which node failed in backward": hasattr(getattr(torch._C._autograd, "SavedTensor", None), "data"),
        "lines of custom functions": patches.function_apply_probe() is not None,
        "what nodes saved": hasattr(getattr(torch._C._autograd, "SavedTensor", None), "data"),
    }
    return [what for what, is_told in told.items() if not is_told]


def check() -> None:
    """Raise `MissingDependency` where this torch lacks what no recording can do without."""
    needed = [(torch._C._autograd, "_get_sequence_nr"), (torch._C, "_push_on_torch_function_stack")]
    lacking = [name for owner, name in needed if not hasattr(owner, name)]
    if not patches.backward_entry_modules():
        lacking.append("_engine_run_backward")
    if lacking:
        raise MissingDependency(
            f"torch {torch.__version__} cannot be recorded: it has no {lacking[0]}",
            hint="use torch 2.4 or newer, or tell us of a newer one that fails",
        )
