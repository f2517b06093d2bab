"""The parameters of a model that is watched: a hook on each, and nothing that refers to them.

Not even weakly: `torch.utils.swap_tensors`, with which modules are converted in place, refuses such tensors. It leaves
hooks behind, too, as does a program that puts other parameters into a module; that is found out at the end.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import torch
from torch.utils.hooks import RemovableHandle

from gradviz.recording import torch_compat
from gradviz.recording.module_tree import modules_inside

_address = torch_compat.tensor_getter("_cdata")


class WatchedParameters:
    """Those of `model` that train, by name, in its order."""

    def __init__(self, model: torch.nn.Module, training: Mapping[str, torch.Tensor]) -> None:
        self._model = weakref.ref(model)
        self._addresses = {name: _address(parameter) for name, parameter in training.items()}
        self._handles: list[RemovableHandle] = []

    def __len__(self) -> int:
        return len(self._addresses)

    def start(self, training: Mapping[str, torch.Tensor], on_gradient: Callable[[int, torch.Tensor], None]) -> None:
        """Have `on_gradient` told the place of a parameter, and the parameter, whenever that has got its gradient."""
        self._handles = [
            parameter.register_post_accumulate_grad_hook(partial(on_gradient, place))  # type: ignore[no-untyped-call]
            for place, parameter in enumerate(training.values())
        ]

    def stop(self) -> None:
        """Take the hooks off."""
        for handle in self._handles:
            handle.remove()

    def has_any_of(self, parameters: Iterable[torch.Tensor]) -> bool:
        """Whether one of these has a hook of ours."""
        ours = {handle.id for handle in self._handles}
        return any(not ours.isdisjoint(torch_compat.post_accumulate_hooks(parameter)) for parameter in parameters)

    def replaced(self) -> list[str]:
        """Names under which the model now holds another parameter, or the same object with other contents."""
        model = self._model()
        modules = modules_inside(model) if model is not None else ()
        now = {
            f"{path}.{name}".lstrip("."): _address(parameter)
            for path, module in modules
            for name, parameter in module._parameters.items()
            if parameter is not None
        }
        return [name for name, address in self._addresses.items() if now.get(name, address) != address]
