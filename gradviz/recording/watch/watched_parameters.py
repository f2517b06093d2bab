"""The parameters of a model that is watched: a hook on each, and nothing that refers to them.

Not even weakly: `torch.utils.swap_tensors`, with which modules are converted in place, refuses such tensors. It leaves
hooks behind, too, as does a program that puts other parameters into a module; that is found out at the end.
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
    """Those of `model` that train, by name, in its order."""

    def __init__(self, model: torch.nn.Module, training: Mapping[str, torch.Tensor]) -> None:
        self._model = weakref.ref(model)
        self._addresses = {name: address_of(parameter) for name, parameter in training.items()}
        self._handles: list[RemovableHandle] = []

    def __len__(self) -> int:
        return len(self._addresses)

    def start(self, training: Mapping[str, torch.Tensor], on_gradient: Callable[[int, torch.Tensor], None]) -> None:
        """Have `on_gradient` told the place of a parameter, and the parameter, whenever that has got its gradient."""
        self._handles = [
            parameter.register_post_accumulate_grad_hook(partial(on_gradient, index))  # type: ignore[no-untyped-call]
            for index, parameter in enumerate(training.values())
        ]

    def stop(self) -> None:
        """Take the hooks off."""
        for handle in self._handles:
            handle.remove()

    def has_any_of(self, parameters: Iterable[torch.Tensor]) -> bool:
        """Whether one of these has a hook of ours."""
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


# Tells, from inside the hooks of a model's parameters, which backward call of the program it is.
#
# A hook only knows the engine's task. Tasks are numbered as they begin, but not each is a call of the program:
# reentrant checkpointing runs one of its own, inside the outer one, for every segment.


class CallCounter:
    """Counts backward calls that reach any of `parameters` many parameters."""

    def __init__(self, parameters: int) -> None:
        self.calls = 0
        self._task = -1
        self._newest_task = -1
        self._last_seen = [0] * parameters
        """The call in which each parameter last got a gradient."""
        self._began_inside = False
        self._lock = Lock()

    def is_new_call(self, index: int) -> bool:
        """Note that the parameter at `index` got a gradient; True where it is the first of a new call."""
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
            # Where all parameters are inside checkpoints, nothing tells the outer call but that they come once more.
            if is_inside and not (self._comes_again(index) and (self._began_inside or not self.calls)):
                return False
            self.calls += 1
            self._began_inside = is_inside
            return True

    def _comes_again(self, index: int) -> bool:
        return self._last_seen[index] == self.calls
