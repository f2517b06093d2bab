"""Checkpointing: whether it packs what nodes save, the arguments that it keeps, each in two ways, and its options."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from types import FrameType
from typing import Any

import torch

from gradviz.recording.frame_variables import local_variables
from gradviz.recording.run.file_kinds import is_torch_file
from gradviz.recording.torch_access.guarded_unpacking import read_slot
from gradviz.recording.torch_access.name_lookup import attribute, find

NEEDED_MODULE = "torch._dynamo"
"""The first call of a checkpoint loads it, which takes a second; before, nothing is checkpointed."""

_MODULE = "torch.utils.checkpoint"


_top_hooks = find("torch._C._autograd._top_saved_tensors_default_hooks")


def hooks_tell() -> bool:
    """Whether the active hooks on saved tensors are those of a checkpoint (since torch 2.7)."""
    hooks = _top_hooks(False)
    return hooks is not None and getattr(hooks[0], "__module__", None) == _MODULE


def stack_tells() -> bool:
    """Whether a call of a non-reentrant checkpoint is on the stack."""
    frame = _frame_of_checkpoint(sys._getframe(1))
    # 'gen' is the generator that packs; a reentrant checkpoint has none.
    return frame is not None and "gen" in local_variables(frame)


def call_checkpoint(function: Callable[..., Any], *args: Any) -> Any:
    """What a non-reentrant checkpoint of the call gives."""
    import torch.utils.checkpoint

    return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, preserve_rng_state=False)


@cache
def working_way() -> Callable[[], bool] | None:
    """The first of the two that tells a tiny checkpoint; None if none does."""
    return next(filter(_tells, (hooks_tell, stack_tells)), None)


def _frame_of_checkpoint(frame: FrameType | None) -> FrameType | None:
    """The innermost frame that runs a checkpointed function: of `checkpoint`, or since torch 2.14 of what it calls."""
    while frame is not None and not _runs_checkpoint(frame):
        frame = frame.f_back
    return frame


def _runs_checkpoint(frame: FrameType) -> bool:
    return "preserve" in frame.f_code.co_varnames and frame.f_globals.get("__name__") == _MODULE


def caller_of_forgetful_checkpoint(frame: FrameType | None) -> FrameType | None:
    """The frame that called a checkpoint with ``preserve_rng_state=False``, if `frame` runs inside of one."""
    if _MODULE not in sys.modules:
        return None
    frame = _frame_of_checkpoint(frame)
    if frame is None or local_variables(frame).get("preserve", True):
        return None
    while frame is not None and is_torch_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _tells(way: Callable[[], bool]) -> bool:
    inside: list[bool] = []

    def work(value: torch.Tensor) -> torch.Tensor:
        inside.append(way())
        return value.sin()

    try:
        call_checkpoint(work, torch.ones(2, device="cpu", requires_grad=True))
        return inside == [True] and not way()
    except Exception:  # whatever this torch lacks
        return False


_read_arguments = attribute("_CheckpointFrame.saved_args")
_read_saver = attribute("_CheckpointFrame.input_saver")


def inputs_of_checkpoint(record: Any) -> Iterator[Any]:
    """Of its record; where slots do not show what they hold, to be called under `with_guard`."""
    if hasattr(record, "saved_args"):
        for saved in _read_arguments(record):
            # They are packed as saved tensors of their own, which must not be unpacked either.
            yield saved.data if hasattr(saved, "unpack_hook") else saved
        return
    # Older torches keep them as what a node saved; the first is an empty tensor of torch's own.
    node = _read_saver(record).grad_fn
    stored = node._raw_saved_tensors
    if stored and not hasattr(stored[0], "data"):
        stored = read_slot(node, "saved_tensors")
        stored = stored if isinstance(stored, tuple) else ()  # a hook packed them
    yield from (each.data for each in stored[1:])
