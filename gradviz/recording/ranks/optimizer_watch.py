"""Measures what optimizers keep on this rank, and what there is of it in the whole.

State that is a `DTensor`, or that belongs to a part of a flat parameter, is shared out as its parameter is.
`ZeroRedundancyOptimizer` gives each rank the whole state of some parameters: only all ranks together have the whole.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from gradviz.capture.optimizer_state import OptimizerState
from gradviz.capture.replica_log import is_noted
from gradviz.recording.run.recording_failures import Defects
from gradviz.recording.torch_access.distributed.parameter_shards import FlatPart, flat_shards, sharding_of
from gradviz.recording.torch_access.removed_hooks import remove_hooks

MAX_OPTIMIZERS = 64
_ZERO = "torch.distributed.optim.zero_redundancy_optimizer"


class _Seen:
    """An optimizer that stepped."""

    def __init__(self, optimizer: Any) -> None:
        self.weak = weakref.ref(optimizer)
        self.steps = 0
        self.state = OptimizerState(type(optimizer).__name__, 0, 0)
        self.is_inside = False
        """Whether another one steps with it, and tells of its state."""


class OptimizerWatch:
    """A hook on all optimizers between `start` and `stop`."""

    def __init__(self, modules: Callable[[], Iterable[Any]], defects: Defects) -> None:
        """
        Args:
            modules: the modules that have run until now.
        """
        self._modules = modules
        self._defects = defects
        self._hook: Any = None
        self._seen: dict[int, _Seen] = {}
        """By ``id()``."""

    def start(self) -> None:
        """Install the hook; nothing happens if it is there."""
        if self._hook is None:
            self._hook = register_optimizer_step_post_hook(self._after_step)

    def stop(self) -> None:
        """Remove it; safe to call twice."""
        if self._hook is not None:
            remove_hooks([self._hook])
        self._hook = None

    def states(self) -> tuple[OptimizerState, ...]:
        """Of all optimizers that stepped and keep something."""
        outer = [each.state for each in self._seen.values() if not each.is_inside]
        return tuple(each for each in outer if each.bytes or each.whole_bytes is None)

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling():
            return
        with self._defects.caught():
            seen = self._seen.get(id(optimizer))
            if seen is None or seen.weak() is not optimizer:
                if len(self._seen) >= MAX_OPTIMIZERS:
                    return
                seen = self._seen[id(optimizer)] = _Seen(optimizer)
            seen.steps += 1
            if is_noted(seen.steps):
                self._measure(optimizer, seen)

    def _measure(self, optimizer: Any, seen: _Seen) -> None:
        inside = _inside_zero(optimizer)
        flat = dict(flat_shards(self._modules()))
        here, whole = _bytes((optimizer if inside is None else inside).state, flat)
        name = type(optimizer).__name__
        if inside is None:
            seen.state = OptimizerState(name, here, whole)
            return
        seen.state = OptimizerState(f"{type(inside).__name__} in {name}", here)
        if id(inside) in self._seen:
            self._seen[id(inside)].is_inside = True


def _inside_zero(optimizer: Any) -> Any:
    """The optimizer with which a `ZeroRedundancyOptimizer` steps; None for others."""
    zero = sys.modules.get(_ZERO)
    return optimizer.optim if zero is not None and isinstance(optimizer, zero.ZeroRedundancyOptimizer) else None


def _bytes(state: Mapping[Any, Any], flat: Mapping[int, FlatPart]) -> tuple[int, int]:
    here = whole = 0
    of_flat: Counter[int] = Counter()
    """What is kept of the parts of each flat parameter, by its ``id()``."""
    for parameter, kept in state.items():
        part = flat.get(id(parameter))
        for tensor in _tensors(kept):
            sharding = sharding_of(tensor)
            size = tensor.nbytes if sharding is None else sharding.bytes
            here += size
            if part is not None and tensor.shape == parameter.shape:
                of_flat[id(part.flat)] += size
            else:
                whole += size if sharding is None else sharding.whole_bytes
    return here, whole + sum(_whole(size, flat, key) for key, size in of_flat.items())


def _whole(size: int, flat: Mapping[int, FlatPart], key: int) -> int:
    """What all ranks keep for a flat parameter, of which this one keeps `size` bytes.

    A rank can have nothing of some of the parameters that it was made of, and then keeps nothing for them.
    """
    parts = sum(each.sharding.bytes for name, each in flat.items() if id(each.flat) == key and name != key)
    of_flat = flat[key].sharding
    return size * of_flat.whole_bytes // (parts or of_flat.bytes or 1)


def _tensors(kept: Any) -> Iterator[Any]:
    """All tensors in what an optimizer keeps for one parameter, which may be lists and dicts of them."""
    waiting = [kept]
    while waiting:
        each = waiting.pop()
        if isinstance(each, torch.Tensor):
            yield each
        elif isinstance(each, Mapping):
            waiting.extend(each.values())
        elif isinstance(each, (list, tuple)):
            waiting.extend(each)
