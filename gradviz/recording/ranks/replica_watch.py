"""Reads the parameters that `DistributedDataParallel` keeps alike on all ranks: before each backward, around each step.

Where they begin to differ between ranks is found later, from the logs of all of them.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from traceback import walk_stack
from types import FrameType
from typing import Any

import torch
from torch.nn.modules import module as module_call
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from gradviz.capture.replica_log import MomentKind, ReplicaLog, ReplicaMoment, is_noted, packed
from gradviz.recording.backward.gradients.gradient_watch import measuring
from gradviz.recording.fingerprints.fingerprint_meter import FingerprintMeter
from gradviz.recording.run.file_kinds import own_line
from gradviz.recording.run.recording_failures import Defects
from gradviz.recording.torch_access.distributed.sharded_parameters import is_replicating, replicated_parameters
from gradviz.recording.torch_access.removed_hooks import remove_hooks

_UNREAD = 0, 0.0


class ReplicaWatch:
    """Hooks on all optimizers between `start` and `stop`; the recorder tells it of backward calls."""

    def __init__(self, modules: Callable[[], Iterable[Any]], defects: Defects) -> None:
        """
        Args:
            modules: the modules that have run until now.
        """
        self._modules = modules
        self._defects = defects
        self._meter = FingerprintMeter()
        self._hooks: list[Any] = []
        self._backward = 0
        self._running_steps = 0
        """ZeroRedundancyOptimizer steps with another one inside, and makes the ranks alike only after that."""
        self._names: dict[int, tuple[weakref.ref[Any] | None, str]] = {}
        """Each parameter by ``id()``, with its name inside the wrapper, in order; None once it was released."""
        self._wrappers: weakref.WeakSet[Any] = weakref.WeakSet()
        """All that were constructed, also those whose forward the program does not call."""
        self._unreduced: set[int] = set()
        """The ``id()`` of each parameter whose wrapper had not run at the last backward that was noted."""
        self._taken: list[tuple[MomentKind, int, list[int | None], tuple[str, int]]] = []

    def start(self) -> None:
        """Install the hooks; nothing happens if they are there."""
        if not self._hooks:
            self._hooks = [
                register_optimizer_step_pre_hook(self._before_step),
                register_optimizer_step_post_hook(self._after_step),
                module_call.register_module_module_registration_hook(self._on_module),
            ]

    def stop(self) -> None:
        """Remove them; safe to call twice."""
        remove_hooks(self._hooks)
        self._hooks = []

    def before_backward(self, number: int, frame: FrameType | None) -> None:
        """The program is about to call backward."""
        self._backward = number
        self._running_steps = 0  # a step that raised has not ended
        with self._defects.caught():
            if is_noted(number):
                self._find_parameters()
                self._take("backward", frame, lambda parameter: parameter)

    def release(self, tensor: Any) -> None:
        """The program swaps this tensor with another one, which torch refuses where there are weak references."""
        known = self._names.get(id(tensor))
        if known is not None:
            self._names[id(tensor)] = None, known[1]

    def log(self, names: Mapping[int, tuple[str, ...]]) -> ReplicaLog | None:
        """What was noted until now; None if no module has replicas. `names` are those of parameters, by ``id()``."""
        if not self._taken:
            return None
        with measuring():
            known = self._meter.results()
        count = len(self._names)
        moments = []
        for kind, backward, numbers, (file, line) in self._taken:
            read = [_UNREAD if each is None else (known[each].checksum, known[each].norm) for each in numbers]
            read += [_UNREAD] * (count - len(read))  # parameters that were found later
            moments.append(ReplicaMoment(kind, backward, packed(read), file, line))
        told = {key: names.get(key, (inner,))[0] for key, (_, inner) in self._names.items()}
        unreduced = tuple(name for key, name in told.items() if key in self._unreduced)
        return ReplicaLog(tuple(told.values()), tuple(moments), unreduced)

    def _on_module(self, module: Any, name: str, submodule: Any) -> None:
        with self._defects.caught():
            if name == "module" and is_replicating(module):
                self._wrappers.add(module)

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._running_steps += 1
        with self._defects.caught():
            if self._running_steps == 1 and self._is_noted_step(optimizer):
                self._take("gradients", sys._getframe(), lambda parameter: parameter.grad)

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._running_steps -= 1
        with self._defects.caught():
            if self._running_steps == 0 and self._is_noted_step(optimizer):
                self._take("step", sys._getframe(), lambda parameter: parameter)

    def _is_noted_step(self, optimizer: Any) -> bool:
        if not self._backward or not is_noted(self._backward) or torch.compiler.is_compiling():
            return False
        return any(id(each) in self._names for group in optimizer.param_groups for each in group.get("params", ()))

    def _find_parameters(self) -> None:
        ran = list(self._modules())
        idle = [each for each in self._wrappers if not any(each is module for module in ran)]
        self._unreduced = {id(parameter) for _, parameter in replicated_parameters(idle)}
        for name, parameter in replicated_parameters([*ran, *idle]):
            known = self._names.get(id(parameter))
            if known is None or known[0] is None:
                self._names[id(parameter)] = weakref.ref(parameter), name

    def _take(self, kind: MomentKind, frame: FrameType | None, of: Callable[[Any], Any]) -> None:
        if not self._names:
            return
        numbers: list[int | None] = []
        with measuring():
            for weak, _ in self._names.values():
                parameter = None if weak is None else weak()
                tensor = None if parameter is None else of(parameter)
                numbers.append(None if tensor is None else self._meter.take(tensor))
        line = own_line((each.f_code, number) for each, number in walk_stack(frame))
        self._taken.append((kind, self._backward, numbers, line or ("", 0)))
