"""Fingerprints: the same for the same bits, another for one changed element, and as far apart as the tensors."""

from __future__ import annotations

from math import isfinite

import pytest
import torch

import gradviz
from gradviz.graph.fingerprints import Fingerprint, distance
from gradviz.recording.backward.gradients.gradient_watch import measuring
from gradviz.recording.fingerprints.fingerprint_meter import FingerprintMeter

DTYPES = (torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.bool, torch.complex64)


def fingerprints(*tensors: torch.Tensor) -> list[Fingerprint]:
    with measuring():
        meter = FingerprintMeter()
        numbers = [meter.take(tensor) for tensor in tensors]
        found = meter.results()
    return [found[number] for number in numbers if number is not None]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("count", [1, 4_096, 5_000, 200_003])
def test_one_changed_element_changes_the_checksum_and_is_as_far_as_it_is(dtype: torch.dtype, count: int) -> None:
    generator = torch.Generator().manual_seed(count)
    before = (3 * torch.randn(count, generator=generator)).to(dtype)
    after = before.clone()
    after[count // 2] = ~after[count // 2] if dtype is torch.bool else after[count // 2] + 1
    one, other = fingerprints(before, after)
    assert one.checksum != other.checksum
    exact = [tensor.to(torch.complex128) for tensor in (before, after)]
    scale = max(float(tensor.norm()) for tensor in exact)
    assert distance(one, other) == pytest.approx(float((exact[0] - exact[1]).norm()) / scale, rel=1e-4)
    assert one.norm == pytest.approx(float(exact[0].norm()), rel=1e-4)


def test_a_fingerprint_depends_on_the_elements_alone() -> None:
    """Not on strides, on the number of threads, or on what is taken beside it."""
    tensor = torch.randn(300, 70, generator=torch.Generator().manual_seed(1))
    (alone,) = fingerprints(tensor)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2 if threads == 1 else 1)
        assert fingerprints(tensor.t().contiguous().t(), tensor.t()) == [alone, *fingerprints(tensor.t().contiguous())]
    finally:
        torch.set_num_threads(threads)
    # Written down from another machine: recordings of all machines are compared.
    (known,) = fingerprints(torch.arange(10_000, dtype=torch.float32))
    assert known == KNOWN


def test_distances_of_noise_are_about_right() -> None:
    generator = torch.Generator().manual_seed(2)
    tensor = torch.randn(50_000, generator=generator)
    for size in (1e-6, 1e-3, 1.0):
        noisy = tensor + size * torch.randn(50_000, generator=generator)
        expected = float((tensor - noisy).norm() / max(tensor.norm(), noisy.norm()))
        assert distance(*fingerprints(tensor, noisy)) == pytest.approx(expected, rel=0.6)


def test_nan_inf_and_the_smallest_numbers_have_fingerprints() -> None:
    broken = torch.tensor([1.0, float("nan"), float("inf"), -2.0])
    found, zero, tiny = fingerprints(broken, torch.zeros(4), torch.full((4,), 1e-42))
    assert (found.unusual, found.largest) == (2, 2.0)
    assert distance(found, zero) == float("inf")
    assert zero.norm == 0 and distance(zero, tiny) == pytest.approx(1.0, rel=0.7)


def test_tensors_without_values_have_none() -> None:
    assert fingerprints(torch.empty(3, device="meta"), torch.eye(3).to_sparse(), torch.empty(0)) == []


def test_fingerprints_are_only_kept_if_they_are_asked_for_and_change_no_result() -> None:
    def step(**options: bool) -> tuple[gradviz.Recording, torch.Tensor, torch.Tensor]:
        torch.manual_seed(0)
        with gradviz.record(**options) as recording:
            weight = torch.randn(8, requires_grad=True)
            torch.nn.functional.dropout(weight * 3).sum().backward()  # type: ignore[no-untyped-call]
        assert weight.grad is not None
        return recording, weight.grad, torch.get_rng_state()

    plain, with_them = step(calls=True), step(fingerprints=True)
    assert torch.equal(plain[1], with_them[1]) and torch.equal(plain[2], with_them[2])
    logs = plain[0].capture.calls, with_them[0].capture.calls
    assert logs[0] is not None and logs[1] is not None
    assert not any(use.fingerprint for call in logs[0].calls for use in call.outputs)
    drawn = [(call.function, call.draw is not None) for call in logs[1].calls if call.outputs]
    assert drawn == [
        ("torch.randn", True),
        ("torch.Tensor.mul", False),
        ("torch.nn.functional.dropout", True),
        ("torch.Tensor.sum", False),
    ]
    nodes = with_them[0].graph.nodes
    assert all(figures is None or figures.fingerprint for node in nodes for figures in node.arrived)


KNOWN = Fingerprint(
    9596077322953885696,
    577306.967739001,
    9999.0,
    0,
    bytes.fromhex(
        "00000000987e12c100000000b8571a4100000000f8e314c100000000401ff7c0"
        "00000000e8de1b4100000000406bfbc000000000e83013c1000000000eb030c1"
    ),
)


def test_the_largest_numbers_of_float64_have_a_finite_fingerprint() -> None:
    (found,) = fingerprints(torch.full((100,), 1.7e308, dtype=torch.float64))
    assert isfinite(found.norm) and all(map(isfinite, found.projections))
