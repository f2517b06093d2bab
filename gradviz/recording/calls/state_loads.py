"""Notes what ``load_state_dict(..., strict=False)`` left out, and optimizers that load the state that they have.

With ``strict=True`` torch raises by itself.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from functools import wraps
from itertools import islice
from typing import Any

import torch

from gradviz.graph.modules_and_schedules import StateLoad
from gradviz.recording.calls.row_writer import CallWriter
from gradviz.recording.calls.rows import Row
from gradviz.recording.run.line_attribution import calling_frame
from gradviz.recording.torch_access.patches import Replacement

_MAX_LOADS = 1_000
_MAX_NAMES = 500


class StateLoads:
    """Replaces ``load_state_dict`` of modules and optimizers between `start` and `stop`."""

    def __init__(self, writer: CallWriter, find_optimizer: Callable[[Any], Any]) -> None:
        self._writer = writer
        self._find_optimizer = find_optimizer
        self._replacement = Replacement("torch.nn.Module.load_state_dict")
        self._of_optimizers = Replacement("torch.optim.Optimizer.load_state_dict")
        self._numbers: dict[int, tuple[weakref.ref[Any], int]] = {}
        self.all: list[tuple[StateLoad, int]] = []
        """Each with its stack."""
        self.own_states: dict[int, int] = {}
        """By the ``id()`` of what is known of an optimizer, which is kept: the stack of the first call that gave it
        tensors of its own state."""

    def start(self) -> None:
        """Begin to note."""
        self._replacement.put(self._noting)
        self._of_optimizers.put(self._noting_own_states)

    def stop(self) -> None:
        """Put the methods back; safe to call twice."""
        self._replacement.take_back()
        self._of_optimizers.take_back()

    def _noting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def load_state_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            note(self, args, kwargs, result)
            return result

        note = self._note
        return load_state_dict

    def _note(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        writer = self._writer
        if writer.is_elsewhere() or len(self.all) >= _MAX_LOADS:
            return
        with writer.shield():
            strict = kwargs.get("strict", args[1] if len(args) > 1 else True)
            state = kwargs.get("state_dict", args[0] if args else None)
            missing, unexpected = getattr(result, "missing_keys", None), getattr(result, "unexpected_keys", None)
            if strict or not isinstance(state, Mapping) or type(missing) is not list or type(unexpected) is not list:
                return
            row = writer.locate(Row("torch.nn.Module.load_state_dict"), calling_frame())
            nested = [key for key in islice(unexpected, _MAX_NAMES) if isinstance(state.get(key), Mapping)]
            load = StateLoad(
                self._number_of(module),
                type(module).__name__,
                given=len(state),
                missing_count=len(missing),
                unexpected_count=len(unexpected),
                missing=_names(missing),
                unexpected=_names(unexpected),
                nested=_names(nested),
            )
            self.all.append((load, row.stack))

    def _noting_own_states(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def load_state_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
            note(self, kwargs.get("state_dict", args[0] if args else None))
            return original(self, *args, **kwargs)

        note = self._note_own_state
        return load_state_dict

    def _note_own_state(self, optimizer: Any, state: Any) -> None:
        writer = self._writer
        if writer.is_elsewhere():
            return
        with writer.shield():
            given = state.get("state") if isinstance(state, Mapping) else None
            if not _tensors_in(given).isdisjoint(_tensors_in(getattr(optimizer, "state", None))):
                row = writer.locate(Row("torch.optim.Optimizer.load_state_dict"), calling_frame())
                self.own_states.setdefault(id(self._find_optimizer(optimizer)), row.stack)

    def _number_of(self, module: Any) -> int:
        known = self._numbers.get(id(module))
        if known is None or known[0]() is not module:
            number = len(self.all)
            known = self._numbers[id(module)] = weakref.ref(module), number
        return known[1]


def _tensors_in(state: Any) -> set[int]:
    """The ``id()`` of each tensor of many elements that an optimizer keeps for its parameters."""
    entries = state.values() if isinstance(state, Mapping) else ()
    values = (value for entry in entries if isinstance(entry, Mapping) for value in entry.values())
    return {id(value) for value in values if issubclass(type(value), torch.Tensor) and value.dim()}


def _names(keys: list[Any]) -> tuple[str, ...]:
    return tuple(str(key) for key in keys[:_MAX_NAMES])
