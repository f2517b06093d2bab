"""Reads saved tensors where this torch does not show what is stored: by unpacking, and only where that runs no hook.

Without hooks, unpacking hands the tensor out and checks its version. An unpack hook is a Python function: a profile
function refuses its call before its first line runs, and sees in its frame which function it is and what it was given.
The thread is one of ours, so that no profiler of the program is replaced.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any, TypeVar

import torch

from gradviz.recording.torch_access.own_thread import result_of_own_thread

_Result = TypeVar("_Result")


class _Refused(BaseException):
    """The call of an unpack hook that was not let through."""

    def __init__(self, hook: Any, packed: Any) -> None:
        self.hook = hook
        self.packed = packed


@dataclass(frozen=True, slots=True)
class ReadSlot:
    """What newer torches tell of a slot, under their names."""

    data: Any
    _hook: Any = None
    _qualified_name: Callable[[CodeType], str] | None = None

    @property
    def unpack_hook(self) -> Any:
        """The hook, as far as its call told it."""
        if self._hook is not None and self._qualified_name is not None:
            self._hook.__qualname__ = self._qualified_name(self._hook.__code__)
        return self._hook


class _Guard:
    """Refuses calls of Python functions while a slot is read."""

    def __init__(self) -> None:
        self._is_reading = False
        self._codes: dict[CodeType, str] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if self._is_reading and event == "call":
            self._is_reading = False
            raise _Refused(self._function_of(frame), _argument_of(frame))

    def read(self, node: Any, slot: str) -> Any:
        """What the attribute hands out; raises `_Refused` instead of running a hook."""
        self._is_reading = True
        try:
            return getattr(node, slot)
        finally:
            self._is_reading = False

    def _function_of(self, frame: FrameType) -> FunctionType:
        """The function whose call this is, as far as a frame tells: the same code, module and variables around it."""
        code, variables = frame.f_code, frame.f_locals
        cells = tuple(CellType(variables[each]) if each in variables else CellType() for each in code.co_freevars)
        return FunctionType(code, frame.f_globals, code.co_name, None, cells)

    def qualified_name(self, code: CodeType) -> str:
        """Of the function with this code. Before Python 3.11 it is searched for among all objects: that takes 30 ms."""
        name = self._codes.get(code)
        if name is None:
            name = getattr(code, "co_qualname", None)
            if name is None:
                functions = (each for each in gc.get_referrers(code) if type(each) is FunctionType)
                names = (each.__qualname__ for each in functions)  # those made here have the plain one
                name = next((each for each in names if each != code.co_name), code.co_name)
            self._codes[code] = name
        return name


def _argument_of(frame: FrameType) -> Any:
    """What the hook was given: its last argument, after ``self``."""
    names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
    return frame.f_locals.get(names[-1]) if names else None


_of_thread = threading.local()


def with_guard(work: Callable[[], _Result]) -> _Result:
    """What `work` gives, which may use `read_slot`."""

    def run() -> _Result:
        _of_thread.guard = guard = _Guard()
        sys.setprofile(guard)
        try:
            with torch.enable_grad():
                return work()
        finally:
            sys.setprofile(None)

    return result_of_own_thread(run)


def read_slot(node: Any, slot: str) -> Any:
    """What is stored in the slot of that unpacking name: a `ReadSlot`, several for a list, None for nothing.

    Raises `RuntimeError` where it was freed, or changed in place since.
    """
    guard = _of_thread.guard
    try:
        found = guard.read(node, slot)
    except _Refused as refused:
        sys.setprofile(guard)  # Python takes off a profile function that raised
        return ReadSlot(refused.packed, refused.hook, guard.qualified_name)
    if isinstance(found, (tuple, list)):
        return tuple(_stored(each, node) for each in found)
    return _stored(found, node)


def _stored(tensor: Any, node: Any) -> ReadSlot | None:
    if tensor is None:
        return None
    if isinstance(tensor, torch.Tensor) and tensor.requires_grad and not tensor.is_leaf and tensor.grad_fn is node:
        with torch.no_grad():
            # A result of the node itself, unpacked, would keep the node alive.
            return ReadSlot(tensor.detach())
    return ReadSlot(tensor)
