"""Holds what each call of compiled code gets, so that the call can be run a second time, without compilation.

Only if that is wanted. What a call got is held by the autograd node that it made, and goes with it. Tensors are held
without their graphs; those that the call itself changes in place are copied before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch

from gradviz.recording.compiled.region_replay import CannotReplay, replayed
from gradviz.recording.torch_access.dynamo.dynamo_graphs import TracedGraph, aot_id_of
from gradviz.recording.torch_access.nodes import python_function_class
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION, grad_fn_of, version_of

_KEY = "gradviz: what this call of compiled code got"
_MAX_STEPS = 4
"""Views that torch puts between a compiled call and its result."""
_PLAIN_CLASSES = (torch.Tensor, torch.nn.Parameter)


@dataclass
class HeldCall:
    """What one call got."""

    traced: TracedGraph
    inputs: list[Any]
    versions: list[int | None]
    generators: dict[str, torch.Tensor]
    """The state of the random generator of each kind of device, if the code draws random numbers."""

    @property
    def is_unchanged(self) -> bool:
        """Whether no input was changed in place since."""
        now = [version_of(each) if isinstance(each, torch.Tensor) else None for each in self.inputs]
        return now == self.versions


def held_call_of(wrapper: Any) -> HeldCall | None:
    """What the call got that made this node; None if it is not held."""
    found: HeldCall | None = wrapper.metadata.get(_KEY)
    return found


def drop_held_call(wrapper: Any) -> None:
    """Let go of it."""
    wrapper.metadata.pop(_KEY, None)


def why_not_twice(traced: TracedGraph) -> str:
    """Why the code must not run a second time; empty if it may."""
    found = replayed(traced)
    unknown = list(found.operators.foreign) if found.operators is not None else []
    unknown += [name for node in traced.graph.nodes if (name := _foreign_function(node.target, node.op))]
    return f"it calls {unknown[0]}, which may do more than compute" if unknown else ""


def _foreign_function(target: Any, kind: str) -> str:
    """The name of a function that torch did not bring along; empty for others."""
    if kind != "call_function":
        return ""
    package = str(getattr(target, "__module__", None) or "").partition(".")[0]
    is_known = package in ("", "torch", "_operator", "operator", "builtins", "math", "functools")
    return "" if is_known else f"{getattr(target, '__name__', target)}()"


class RegionCalls:
    """Holds the calls that are made between `start` and `stop`."""

    def __init__(self, note_defect: Callable[[Exception], None]) -> None:
        self._note_defect = note_defect
        self._is_on = False

    def start(self) -> None:
        """Hold calls from now on."""
        self._is_on = True

    def stop(self) -> None:
        """Hold no further ones."""
        self._is_on = False

    def around(self, traced: TracedGraph, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """What is to be called in place of `compiled`."""
        if not traced.aot_ids:
            return compiled  # it runs as autograd's own nodes

        @wraps(compiled)
        def compiled_and_held(*args: Any, **options: Any) -> Any:
            if not self._is_on or not torch.is_grad_enabled():
                return compiled(*args, **options)
            held = None
            with self._defects_noted():
                held = _held(traced, args)
            result = compiled(*args, **options)
            if held is not None:
                with self._defects_noted():
                    _attach(held, result)
            return result

        return compiled_and_held

    @contextmanager
    def _defects_noted(self) -> Iterator[None]:
        try:
            with DISABLE_TORCH_FUNCTION():
                yield
        except Exception as defect:  # must not reach the program
            self._note_defect(defect)


def _held(traced: TracedGraph, args: tuple[Any, ...]) -> HeldCall | None:
    """None if the code cannot be run again anyway, for a reason that is told later."""
    try:
        found = replayed(traced)
    except CannotReplay:  # the region is closed
        return None
    tensors = [each for each in args if isinstance(each, torch.Tensor)]
    if len(args) != len(traced.inputs) or any(type(each) not in _PLAIN_CLASSES for each in tensors):
        return None
    inputs = [
        (each.detach().clone() if index in found.written else each.detach()) if isinstance(each, torch.Tensor) else each
        for index, each in enumerate(args)
    ]
    draws = found.operators is not None and found.operators.draws_random_numbers
    kinds = {each.device.type for each in tensors} if draws else set()
    return HeldCall(traced, inputs, [], {kind: _generator_state(kind) for kind in sorted(kinds - {"meta"})})


def _generator_state(kind: str) -> torch.Tensor:
    return torch.get_rng_state() if kind == "cpu" else torch.get_device_module(kind).get_rng_state()


def set_generator_state(kind: str, state: torch.Tensor) -> None:
    """Put the generator of a kind of device into that state."""
    if kind == "cpu":
        torch.set_rng_state(state)
    else:
        torch.get_device_module(kind).set_rng_state(state)


def _attach(held: HeldCall, result: Any) -> None:
    node = compiled_node(held.traced, result)
    if node is not None:
        held.versions = [version_of(each) if isinstance(each, torch.Tensor) else None for each in held.inputs]
        node.metadata[_KEY] = held


def compiled_node(traced: TracedGraph, result: Any) -> Any:
    """The node that the call of compiled code made: torch may have made views of its results."""
    results = result if isinstance(result, (tuple, list)) else (result,)
    waiting = [grad_fn_of(each) for each in results if isinstance(each, torch.Tensor)]
    for _ in range(_MAX_STEPS):
        for node in waiting:
            if node is not None and aot_id_of(python_function_class(node)) in traced.aot_ids:
                return node
        waiting = [follower for node in waiting if node is not None for follower, _ in node.next_functions[:1]]
    return None
