"""The places of torch at which a recorder listens or which it replaces, each looked up by capability.

What is only read of torch is in `torch_compat`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any

import torch
from torch.nn.modules import module as module_call

ANOMALY_STACKS = ("torch.fx.traceback", "format_stack")
"""The function of torch that reads the stack for anomaly mode."""

TRACED_NAMES = ("torch.jit._trace", "_create_interpreter_name_lookup_fn")
"""The one that makes the function which finds, in the frames above, the names of values in a traced graph."""


def backward_entry_modules() -> list[ModuleType]:
    """The modules through which every backward and grad call passes, by a global ``_engine_run_backward``."""
    candidates = (torch.autograd, sys.modules["torch.autograd.graph"])
    return [module for module in candidates if hasattr(module, "_engine_run_backward")]


def function_apply_probe() -> tuple[ModuleType, str] | None:
    """A global that ``autograd.Function.apply`` calls, before it makes the node, in each call.

    Replacing this one name sees every custom function. Replacing ``apply`` itself would be kept for ever by the
    common ``relu = MyReLU.apply``, and Dynamo would no longer know it.
    """
    module = sys.modules["torch.autograd.function"]
    return (module, "_is_setup_context_defined") if hasattr(module, "_is_setup_context_defined") else None


def module_made_probe() -> tuple[Any, str, str] | None:
    """A function that ``Module.__init__`` calls first, the object that holds it, and what it is called with.

    Replacing ``Module.__init__`` itself would show in the program's tracebacks, and to whoever inspects it.
    """
    name = "_log_api_usage_once"
    return (torch._C, name, "python.nn_module") if hasattr(torch._C, name) else None


def variable_maker() -> type | None:
    """The class of the class `torch.autograd.Variable`; None where calling that is already somebody's own affair."""
    maker = type(torch.autograd.Variable)
    return maker if maker is not type and "__call__" not in vars(maker) else None


def swap_probe() -> tuple[ModuleType, str] | None:
    """A global of ``torch.utils.swap_tensors``, which it asks for weak references before it does anything."""
    is_there = hasattr(torch.utils, "swap_tensors") and hasattr(torch.utils, "weakref")
    return (torch.utils, "weakref") if is_there else None


def push_function_mode(mode: Any) -> None:
    """Put a function mode on this thread's stack."""
    torch._C._push_on_torch_function_stack(mode)


def pop_function_mode() -> Any:
    """Take the topmost function mode off this thread's stack; None where there is none."""
    return torch._C._pop_torch_function_stack() if torch._C._len_torch_function_stack() else None


def module_call_code() -> CodeType:
    """Code of the frame in which `Module._call_impl` runs a call while any hook is registered.

    That is a function inside it, or before torch 2.6 it itself.
    """
    own: CodeType = module_call.Module._call_impl.__code__
    nested = (constant for constant in own.co_consts if isinstance(constant, CodeType))
    return next((code for code in nested if code.co_name == "inner"), own)


def dynamo_eval_frame() -> ModuleType | None:
    """Dynamo's frame module if the program has loaded it; loading it ourselves would cost a second."""
    module = sys.modules.get("torch._dynamo.eval_frame")
    return module if module is not None and hasattr(module, "_maybe_set_eval_frame") else None


_HOOK_TABLES = (
    "_global_forward_pre_hooks",
    "_global_forward_hooks",
    "_global_forward_hooks_always_called",
    "_global_forward_hooks_with_kwargs",
    "_global_backward_pre_hooks",
    "_global_backward_hooks",
)


def global_hook_tables() -> list[dict[int, Any]]:
    """torch's tables of hooks on all modules, by hook id."""
    return [getattr(module_call, name) for name in _HOOK_TABLES if hasattr(module_call, name)]


def replace_global_hook_question(is_ours: Callable[[int], bool]) -> Callable[[], Any] | None:
    """Let Dynamo's question "are there global hooks?", which prints a warning, pass over ours; returns torch's own."""
    original = getattr(module_call, "_has_any_global_hook", None)
    if original is None:
        return None

    def has_any_global_hook() -> bool:
        return any(not is_ours(hook) for table in global_hook_tables() for hook in table)

    module_call._has_any_global_hook = has_any_global_hook
    return original  # type: ignore[no-any-return]


def restore_global_hook_question(original: Callable[[], Any] | None) -> None:
    """Undo `replace_global_hook_question`."""
    if original is not None:
        module_call._has_any_global_hook = original


def swallow_next_push(mode: Any) -> None:
    """Have torch not put `mode` back on its stack when the handler that runs now is left."""
    from torch import overrides

    original = getattr(overrides, "_push_mode", None)
    if original is None:
        return  # it stays, passing every call through, until the recording is stopped once more at the program's end

    def push_all_but_one(other: Any) -> None:
        if other is mode:
            overrides._push_mode = original
        else:
            original(other)

    overrides._push_mode = push_all_but_one
