"""Finds the code objects by which frames of torch are recognized."""

from __future__ import annotations

from types import CodeType

import torch

from gradviz.recording.torch_access.name_lookup import find


def module_call_code() -> CodeType | None:
    """Code of the frame in which `Module._call_impl` runs a call while any hook is registered.

    That is a function inside it, if there is one; None if torch no longer has `_call_impl`.
    """
    own = module_runner_code()
    if own is None:
        return None
    nested = (constant for constant in own.co_consts if isinstance(constant, CodeType))
    return next((code for code in nested if code.co_name == "inner"), own)


def module_runner_code() -> CodeType | None:
    """Code of the frame in which each module call runs, also without hooks."""
    return getattr(find("torch.nn.modules.module.Module._call_impl"), "__code__", None)


def custom_function_code() -> CodeType | None:
    """Code of the frame from which torch runs the forward of a custom function; None where that is not Python."""
    return getattr(torch.autograd.Function.apply, "__code__", None)


def custom_backward_code() -> CodeType | None:
    """Code of the frame from which the engine runs the backward of a custom function."""
    apply = getattr(find("torch.autograd.function.BackwardCFunction"), "apply", None)
    return getattr(apply, "__code__", None)
