"""Notes keys of ``torch.func.functional_call()`` that name no parameter and no buffer of the module.

Without ``strict=True`` torch sets an attribute of that name for the time of the call, and what was given for the key
has no effect unless the module reads such an attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from itertools import islice
from typing import Any

import torch

from gradviz.graph.modules_and_schedules import UnknownKeys
from gradviz.recording.calls.row_writer import CallWriter
from gradviz.recording.calls.rows import Row
from gradviz.recording.run.line_attribution import calling_frame
from gradviz.recording.torch_access.capabilities import works
from gradviz.recording.torch_access.modules import own_buffers, own_modules, own_parameters
from gradviz.recording.torch_access.patches import Replacement

_MAX_CALLS = 200
_MAX_NAMES = 500


class ReplacedParameters:
    """Sees the arguments of ``functional_call`` between `start` and `stop`."""

    def __init__(self, writer: CallWriter) -> None:
        self._writer = writer
        self._replacement = Replacement("torch.nn.utils.stateless._functional_call")
        self.unknown: dict[tuple[str, tuple[str, ...]], tuple[UnknownKeys, int]] = {}
        """By class of the module and keys, each with the stack of its first call."""

    def start(self) -> None:
        """Begin to note, if this torch makes that possible."""
        if works("replaced parameters"):
            self._replacement.put(self._noting)

    def stop(self) -> None:
        """Put torch back; safe to call twice."""
        self._replacement.take_back()

    def _noting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def functional_call(module: Any, tensors: Any, *args: Any, **kwargs: Any) -> Any:
            note(module, tensors)
            return original(module, tensors, *args, **kwargs)

        note = self._note
        return functional_call

    def _note(self, module: Any, tensors: Any) -> None:
        writer = self._writer
        if writer.is_elsewhere() or len(self.unknown) >= _MAX_CALLS:
            return
        with writer.shield():
            if not isinstance(module, torch.nn.Module) or not isinstance(tensors, Mapping):
                return
            found = list(islice(_unknown(module, tensors), _MAX_NAMES))
            place = type(module).__name__, tuple(key for key, _ in found)
            if found and place not in self.unknown:
                row = writer.locate(Row("torch.func.functional_call"), calling_frame())
                names = (name for name in _names(module) if name not in tensors)
                unknown = UnknownKeys(*place, tuple(owner for _, owner in found), None, (*islice(names, _MAX_NAMES),))
                self.unknown[place] = unknown, row.stack


def _unknown(module: torch.nn.Module, tensors: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    """Keys that name nothing, each with the class of the module that would have it; torch raises where there is no such
    module."""
    for key in tensors:
        *path, name = str(key).split(".")
        owner: Any = module
        for part in path:
            owner = None if owner is None else own_modules(owner).get(part)
        if owner is not None and not _has(owner, name):
            yield str(key), type(owner).__name__


def _has(owner: torch.nn.Module, name: str) -> bool:
    """Whether a module has a parameter, a buffer or an attribute; getattr() might run code of the program."""
    return any(name in table for table in (own_parameters(owner), own_buffers(owner), vars(owner))) or hasattr(
        type(owner), name
    )


def _names(module: torch.nn.Module) -> Iterator[str]:
    yield from (name for name, _ in module.named_parameters(remove_duplicate=False))
    yield from (name for name, _ in module.named_buffers(remove_duplicate=False))
