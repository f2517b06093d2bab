"""Many tensors of a device in one copy: what goes in comes out, whatever the shapes and dtypes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradviz.recording.calls.tensor_uses import ValueReader, read_at_once
from gradviz.recording.torch_access.transfers import in_memory, packed, unpacked

_DTYPES = (torch.uint8, torch.bool, torch.float16, torch.bfloat16, torch.float32, torch.int64, torch.float64)
_SHAPES = st.lists(st.integers(0, 4), max_size=3)


@given(st.lists(st.tuples(st.sampled_from(_DTYPES), _SHAPES), min_size=1, max_size=8))
def test_packed_tensors_come_out_as_they_went_in(kinds: list[tuple[torch.dtype, list[int]]]) -> None:
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(shape, generator=generator).to(dtype) for dtype, shape in kinds]

    found = unpacked(packed(tensors), tensors)

    for tensor, there in zip(tensors, found, strict=True):
        assert there.dtype == tensor.dtype
        assert there.shape == tensor.shape
        assert torch.equal(there, tensor)


def test_nan_and_rows_with_gaps_survive() -> None:
    tensors = [torch.tensor([float("nan"), -0.0], dtype=torch.float64), torch.arange(12.0).view(3, 4)[:, ::2]]

    nan, gaps = unpacked(packed(tensors), tensors)

    assert nan.isnan().tolist() == [True, False]
    assert nan[1].signbit()
    assert gaps.tolist() == tensors[1].tolist()


def test_what_is_in_memory_already_is_not_copied() -> None:
    tensors = [torch.ones(3), torch.zeros((), dtype=torch.int64)]

    assert all(there is tensor for there, tensor in zip(in_memory(tensors), tensors, strict=True))


def test_nothing_in_nothing_out() -> None:
    assert in_memory([]) == []


@given(st.lists(st.floats(width=32), min_size=1, max_size=6))
def test_what_an_accelerator_is_asked_at_once_is_what_the_processor_is_asked_in_turn(numbers: list[float]) -> None:
    tensor = torch.tensor(numbers)

    assert read_at_once(tensor, len(numbers)) == ValueReader().facts(tensor)


@pytest.mark.parametrize(
    ("rows", "equal"),
    [
        ([[1.0, 2.0]] * 4, True),
        ([[1.0, 2.0]] * 3 + [[1.0, 3.0]], False),
        ([[1.0, 2.0], [5.0, 5.0], [1.0, 2.0], [1.0, 2.0]], False),
        ([[1.0, 2.0]] * 3, False),
        ([[1.0, 1.0]] * 4, False),
        ([[1.0, float("nan")]] * 4, False),
    ],
)
def test_rows_that_are_all_the_same_are_seen_in_both_ways(rows: list[list[float]], equal: bool) -> None:
    tensor = torch.tensor(rows)

    at_once, in_turn = read_at_once(tensor, tensor.numel()), ValueReader().facts(tensor)

    assert in_turn is not None
    assert (at_once.equal_rows, in_turn.equal_rows) == (equal, equal)
