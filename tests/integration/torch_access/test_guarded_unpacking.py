"""Where a torch does not show what its nodes store, they are unpacked, and no hook of the program runs for it."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from gradviz.recording.torch_access.guarded_unpacking import read_slot, with_guard
from gradviz.recording.walk.tensors_beside_slots import packer_of


def _leaf() -> torch.Tensor:
    return torch.ones(2, requires_grad=True)


def _read(result: torch.Tensor, slot: str) -> Any:
    return with_guard(lambda: read_slot(result.grad_fn, slot))


def test_what_no_hook_packed_is_the_tensor_itself() -> None:
    x = _leaf()
    result = x * x
    assert _read(result, "_saved_self").data is x


def test_a_result_that_its_node_keeps_is_read_without_keeping_the_node() -> None:
    result = _leaf().exp()
    kept = _read(result, "_saved_result").data
    assert kept.data_ptr() == result.data_ptr()
    assert kept.grad_fn is None


def test_no_hook_runs_and_what_it_was_given_is_told() -> None:
    ran: list[object] = []

    class Unpack:
        def __call__(self, packed: Any) -> torch.Tensor:
            ran.append(packed)
            return torch.ones(2)

    for unpack in (Unpack().__call__, Unpack()):
        x = _leaf()
        with saved_tensors_hooks(lambda tensor: ("packed", tensor), unpack):
            result = x * x
        stored = _read(result, "_saved_self")
        assert stored.data[0] == "packed"
        assert stored.unpack_hook is not None
    assert ran == []


def test_checkpointed_parts_are_not_computed_again() -> None:
    runs = []

    def part(x: torch.Tensor) -> torch.Tensor:
        runs.append(x)
        return x.sin().exp()

    x = _leaf()
    result = checkpoint(part, x, use_reentrant=False)
    assert packer_of(_read(result, "_saved_result").unpack_hook) == "checkpoint"
    assert len(runs) == 1


def test_offloaded_tensors_stay_where_they_are() -> None:
    x = _leaf()
    with save_on_cpu():
        result = x * x
    assert packer_of(_read(result, "_saved_self").unpack_hook) == "offload"


def test_what_was_freed_or_changed_raises_as_torch_does() -> None:
    freed, changed = _leaf().exp(), _leaf().exp()
    freed.sum().backward()  # type: ignore[no-untyped-call]
    changed.add_(1)
    node = changed.grad_fn.next_functions[0][0] if changed.grad_fn is not None else None
    with pytest.raises(RuntimeError, match="second time"):
        _read(freed, "_saved_result")
    with pytest.raises(RuntimeError, match="is at version 1; expected version 0"):
        with_guard(lambda: read_slot(node, "_saved_result"))


def test_the_programs_own_profiler_stays() -> None:
    def profiler(*_: object) -> None:
        pass

    before = sys.getprofile()
    sys.setprofile(profiler)
    try:
        x = _leaf()
        _read(x * x, "_saved_self")
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(before)
