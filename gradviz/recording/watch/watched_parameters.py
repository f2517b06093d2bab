"""The parameters of a model that is watched: a hook on each, and no reference to them.

Not even a weak one: `torch.utils.swap_tensors`, which converts modules in place, refuses tensors with weak references.
Swapping leaves the hooks behind; so does a program that replaces parameters of a module. Both are found out at the end.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from threading import Lock

import torch
from torch.utils.hooks import RemovableHandle

from gradviz.recording.forward.module_tree import modules_inside
from gradviz.recording.torch_access.engine import current_graph_task_id, is_inside_custom_backward
from gradviz.recording.torch_access.modules import own_parameters
from gradviz.recording.torch_access.tensors import address_of, post_accumulate_hooks


class WatchedParameters:
    """The trained parameters of `model`, by name, in its order."""

    def __init__(self, model: torch.nn.Module, training: Mapping[str, torch.Tensor]) -> None:
        self._model = weakref.ref(model)
        self._addresses = {name: address_of(parameter) for name, parameter in training.items()}
        self._handles: list[RemovableHandle] = []

    def __len__(self) -> int:
        return len(self._addresses)

    def start(self, training: Mapping[str, torch.Tensor], on_gradient: Callable[[int, torch.Tensor], None]) -> None:
        """Call `on_gradient` with a parameter and its index, whenever the parameter has got its gradient."""
        self._handles = [
            parameter.register_post_accumulate_grad_hook(partial(on_gradient, index))  # type: ignore[no-untyped-call]
            for index, parameter in enumerate(training.values())
        ]

    def stop(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()

    def has_any_of(self, parameters: Iterable[torch.Tensor]) -> bool:
        """Whether one of these has a hook of this watch."""
        ours = {handle.id for handle in self._handles}
        return any(not ours.isdisjoint(post_accumulate_hooks(parameter)) for parameter in parameters)

    def replaced(self) -> list[str]:
        """Names under which the model now holds another parameter, or the same object with other contents."""
        model = self._model()
        modules = modules_inside(model) if model is not None else ()
        now = {
            f"{path}.{name}".lstrip("."): address_of(parameter)
            for path, module in modules
            for name, parameter in own_parameters(module).items()
            if parameter is not None
        }
        return [name for name, address in self._addresses.items() if now.get(name, address) != address]


# -- Which backward call of the program a hook belongs to --------------------------------------------------------------
# A hook only knows the engine's task. Tasks are numbered in order of their start, but not each is a call of the
# program: reentrant checkpointing runs one inside the outer task for every segment.


class CallCounter:
    """Counts backward calls that reach any parameter; `parameters` is their number."""

    def __init__(self, parameters: int) -> None:
        self.calls = 0
        self._task = -1
        self._newest_task = -1
        self._last_seen = [0] * parameters
        """The call in which each parameter last got a gradient."""
        self._began_inside = False
        self._lock = Lock()

    def is_new_call(self, index: int) -> bool:
        """Note that the parameter got a gradient; True if it is the first one in a new call."""
        task = current_graph_task_id()
        is_new = task != self._task and self._begins(task, index)
        self._last_seen[index] = self.calls
        return is_new

    def _begins(self, task: int, index: int) -> bool:
        with self._lock:
            self._task = task
            if task <= self._newest_task:
                return False  # an outer or a concurrent call goes on
            self._newest_task = task
            is_inside = is_inside_custom_backward(sys._getframe(1))
            # If all parameters are inside checkpoints, a new outer call only shows by a parameter that gets a gradient
            # again.
            if is_inside and not (self._comes_again(index) and (self._began_inside or not self.calls)):
                return False
            self.calls += 1
            self._began_inside = is_inside
            return True

    def _comes_again(self, index: int) -> bool:
        return self._last_seen[index] == self.calls
