"""Finds saved tensors that are not plainly in a node's slots: packed by hooks, put on ``ctx``, or captured by hooks.

Nothing is unpacked: that would compute checkpointed parts again, move offloaded tensors, and run the user's code.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from gradviz.recording.forward.tensor_hooks import hook_name
from gradviz.recording.forward.tensors_in_containers import closure_variables, named_tensors, stored_attributes
from gradviz.recording.torch_access.nodes import CHECKPOINT_MODULE, CheckpointRecord, checkpoint_record


def packer_of(unpack_hook: Any) -> str:
    """Who packed: ``checkpoint``, ``offload``, or the name of the user's hook."""
    module, name = getattr(unpack_hook, "__module__", None), hook_name(unpack_hook)
    if module == CHECKPOINT_MODULE:
        return "checkpoint"
    if module == "torch.autograd.graph" and name.startswith("save_on_cpu."):
        return "offload"
    return name


def tensors_in_pack(packed: Any) -> Iterator[torch.Tensor]:
    """Every tensor in the result of a pack hook, in containers or in the attributes of an object."""
    found = False
    for _, tensor in named_tensors(packed, ""):
        found = True
        yield tensor
    if not found:
        for value in stored_attributes(packed).values():
            yield from (tensor for _, tensor in named_tensors(value, ""))


def holds_no_memory(packed: Any) -> bool:
    """True for plain values, whose memory is not counted."""
    return packed is None or isinstance(packed, (bool, int, float, torch.device, torch.dtype))


class CheckpointedTensors:
    """Reads what non-reentrant checkpointing keeps: its inputs, and shapes of the tensors that it dropped."""

    def __init__(self) -> None:
        self._indices: dict[int, tuple[Any, dict[int, int]]] = {}

    def frame_of(self, unpack_hook: Any) -> Any:
        """The record of one checkpointed call; None if this torch keeps it elsewhere."""
        return checkpoint_record(value for _, value in closure_variables(unpack_hook))

    def is_new(self, frame: Any) -> bool:
        """True if this call's record has not been seen before."""
        return id(frame) not in self._indices

    def facts_of(self, frame: Any, holder: Any) -> Any:
        """What checkpointing noted of the tensor that `holder` stands for: a dict with its shape, or None."""
        indices = self._indices_in(frame)
        index = indices.get(id(holder))
        noted = CheckpointRecord(frame).noted()
        facts = noted[index] if index is not None and index < len(noted) else None
        return facts if isinstance(facts, dict) else None

    def _indices_in(self, frame: Any) -> dict[int, int]:
        # The frame is kept beside its table, so that its id is not reused.
        known = self._indices.get(id(frame))
        if known is None:
            holders = CheckpointRecord(frame).holders()
            known = self._indices[id(frame)] = (frame, {id(each): index for index, each in enumerate(holders)})
        return known[1]

    def inputs_of(self, frame: Any) -> Iterator[tuple[str, torch.Tensor]]:
        """Arguments that the checkpointed call keeps to run again."""
        for index, tensor in enumerate(CheckpointRecord(frame).inputs()):
            if issubclass(type(tensor), torch.Tensor):
                yield f"argument {index}", tensor


def tensors_on_ctx(wrapper: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors that a custom function set as attributes on its ``ctx``, without ``save_for_backward``."""
    for name, value in list(stored_attributes(wrapper).items()):
        yield from named_tensors(value, name)


def tensors_of_hook(hook: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors in a hook's closure, its bound arguments, or its object; named ``hook.variable``."""
    name = hook_name(hook)
    while isinstance(hook, partial):
        for index, value in enumerate(hook.args):
            yield from named_tensors(value, f"{name}[{index}]")
        for key, value in hook.keywords.items():
            yield from named_tensors(value, f"{name}.{key}")
        hook = hook.func
    owner = getattr(hook, "__self__", None)
    if owner is not None and not issubclass(type(owner), torch.nn.Module):
        for attribute, value in list(stored_attributes(owner).items()):
            yield from named_tensors(value, f"{name}.{attribute}")
    for variable, value in closure_variables(getattr(hook, "__func__", hook)):
        yield from named_tensors(value, f"{name}.{variable}")
