"""Notices calls of ``autograd.Function``, which function modes do not see.

``apply`` itself is never replaced: the common ``relu = MyReLU.apply`` would keep the replacement for ever, and Dynamo
would not recognize it. Until torch 2.13 it is written in Python and calls a global function, which is replaced. Since
torch 2.14 it is written in C++ and does only two things in Python: it makes a context, whose constructor notices the
call, and it reads ``forward`` of the class, which is wrapped to see the arguments.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import cache
from types import FrameType
from typing import Any, Protocol

from gradviz.recording.frame_variables import local_variables
from gradviz.recording.run.function_stand_in import StandIns
from gradviz.recording.torch_access.name_lookup import find, method
from gradviz.recording.torch_access.patches import Replacement


class Listener(Protocol):
    """Gets calls of custom functions. None of its methods may raise."""

    def begin(self, frame: FrameType, function: Any, number: int) -> Any:
        """A custom function was called from `frame`; its node has this number. The result is passed to `enter`."""

    def enter(self, call: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType, at: int | None) -> None:
        """Its ``forward`` is about to run. The call lasts as long as `frame` runs, or is at the instruction `at`."""


class Watch(Protocol):
    """Passes calls to a listener between `start` and `stop`."""

    def __init__(self, listener: Listener) -> None: ...
    def start(self) -> None:
        """Begin to notice calls."""

    def stop(self) -> None:
        """Put torch back; safe to call twice."""


class GlobalInApply:
    """Replaces the global function that ``apply`` calls first while it is written in Python (until torch 2.13)."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._replacement = Replacement("torch.autograd.function._is_setup_context_defined")

    def start(self) -> None:
        """Replace that global."""
        self._replacement.put(self._telling)

    def stop(self) -> None:
        """Put it back."""
        self._replacement.take_back()

    def _telling(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        peek = find("torch._C._autograd._get_sequence_nr")

        def is_setup_context_defined(setup_context: Any) -> Any:
            frame = sys._getframe(1)
            variables = local_variables(frame)
            if "cls" in variables:
                # The node is made next.
                call = self._listener.begin(frame, variables["cls"], peek())
                self._listener.enter(call, variables.get("args", ()), variables.get("kwargs", {}), frame, None)
            return original(setup_context)

        return is_setup_context_defined


class _Calls(threading.local):
    """The call of this thread whose context has been made, and whose ``forward`` torch reads next."""

    context: Any = None
    frame: FrameType | None = None
    call: Any = None


class ContextOfCall:
    """Notices each new context, and wraps ``forward`` when torch reads it (since torch 2.14)."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._contexts = Replacement("torch.autograd.function.BackwardCFunction.__init__")
        self._forwards = Replacement("torch.autograd.function.FunctionMeta.forward")
        self._stand_ins = StandIns()
        self._next = _Calls()

    def start(self) -> None:
        """Add a constructor to contexts, and a property ``forward`` to the metaclass of custom functions."""
        if self._contexts.put(lambda _: self._constructor()):
            self._forwards.put(lambda _: property(self._forward_of, self._set_forward, self._delete_forward))

    def stop(self) -> None:
        """Remove both."""
        self._forwards.take_back()
        self._contexts.take_back()

    def _constructor(self) -> Callable[[Any], None]:
        number_of = method("Node._sequence_nr")

        def __init__(context: Any) -> None:
            frame = sys._getframe(1)
            following = self._next
            # The context object is also the node. Where that is only made later this raises; reading the number of what
            # is no node yet would end the process.
            _ = context.next_functions
            following.call = self._listener.begin(frame, type(context)._forward_cls, number_of(context))
            following.context, following.frame = context, frame

        return __init__

    def _forward_of(self, function: Any) -> Any:
        forward = _own_forward(function)
        following = self._next
        context, frame, call = following.context, following.frame, following.call
        # torch runs no code of the program between the two: for another class, the reader is not torch.
        if frame is None or type(context)._forward_cls is not function:
            return forward
        following.context = following.frame = following.call = None

        def told(*given: Any) -> Any:
            args = given[1:] if given and given[0] is context else given
            self._listener.enter(call, args, {}, frame, frame.f_lasti)
            return self._stand_ins.call(frame, forward, given, {})

        return told

    def _set_forward(self, function: Any, forward: Any) -> None:
        self._without_ours(lambda: setattr(function, "forward", forward))

    def _delete_forward(self, function: Any) -> None:
        self._without_ours(lambda: delattr(function, "forward"))

    def _without_ours(self, change: Callable[[], None]) -> None:
        """Change a class for the program, without our property: it would intercept the change."""
        self._forwards.take_back()
        try:
            change()
        finally:
            self._forwards.put(lambda _: property(self._forward_of, self._set_forward, self._delete_forward))


def _own_forward(function: Any) -> Any:
    """``function.forward``, as Python looks it up."""
    for kind in function.__mro__:
        if "forward" in vars(kind):
            found = vars(kind)["forward"]
            bind = getattr(type(found), "__get__", None)
            return found if bind is None else bind(found, None, function)
    raise AttributeError(f"type object {function.__name__!r} has no attribute 'forward'")


WAYS: tuple[type[Watch], ...] = (GlobalInApply, ContextOfCall)
"""The first that works is used."""


@cache
def working_way() -> type[Watch] | None:
    """The first of `WAYS` that notices a call with its class, its arguments and the node's number.

    Call it on a separate thread, because it makes nodes.
    """
    return next((way for way in WAYS if _notices(way)), None)


class _Seen:
    """Remembers what was reported about one function."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self.number: int | None = None
        self.args: tuple[Any, ...] = ()

    def begin(self, frame: FrameType, function: Any, number: int) -> Any:
        if function is self._function:
            self.number = number
        return function

    def enter(self, call: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType, at: int | None) -> None:
        if call is self._function:
            self.args = args


def _notices(way: type[Watch]) -> bool:
    import torch

    from gradviz.recording.torch_access.probes import tiny_function

    function = tiny_function()
    seen = _Seen(function)
    watch = way(seen)
    leaf = torch.ones(2, device="cpu", requires_grad=True)
    watch.start()
    try:
        given = function.apply(leaf)
    except RuntimeError:
        return False  # this torch makes the node after its context
    finally:
        watch.stop()
    return len(seen.args) == 1 and seen.args[0] is leaf and method("Node._sequence_nr")(given.grad_fn) == seen.number
