"""Keeps Dynamo from tracing a function of gradviz that torch calls while Dynamo is on, as it does until torch 2.9."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any, TypeVar

from gradviz.recording.torch_access.name_lookup import find

_Function = TypeVar("_Function", bound=Callable[..., Any])


def untraced(function: _Function) -> _Function:
    """The same function, of which Dynamo compiles no frame; what it calls is still traced, until Dynamo is off.

    If the program has not imported Dynamo yet, `skip_what_waits` does it later.
    """
    skip = find("torch._dynamo.eval_frame.skip_code")
    if skip is not None:
        skip(function.__code__)
    else:
        _waiting.append(function.__code__)
    return function


def skip_what_waits() -> None:
    """The program has imported Dynamo."""
    skip = find("torch._dynamo.eval_frame.skip_code")
    while skip is not None and _waiting:
        skip(_waiting.pop())


_waiting: list[CodeType] = []


def can_be_off() -> bool:
    """Whether this torch tells how Dynamo is switched off, and kept from a function."""
    names = ("torch._C._dynamo.eval_frame.set_eval_frame", "torch._dynamo.eval_frame.skip_code")
    return all(find(name) is not None for name in names)


def off_switch() -> Callable[[None], Any]:
    """Called with None, it switches Dynamo off on this thread, and returns what was on.

    It is looked up beforehand, and is no function written in Python: Dynamo would trace that.
    """
    switch: Callable[[None], Any] | None = find("torch._C._dynamo.eval_frame.set_eval_frame")
    return (lambda _: None) if switch is None else switch
