"""Settings of torch that differ between two runs are named, and are the reason where an operation depends on them."""

from __future__ import annotations

import pytest

from gradviz.analysis.diff.runs import Operand, Operation
from gradviz.analysis.diff.settings import reasons_for, settings_that_differ
from gradviz.capture.capture import Settings
from gradviz.graph.tensor_facts import TensorFacts

ONE = Settings(1, False, False, True, False, "AVX2")
OTHER = Settings(8, True, True, False, True, "AVX512")


def operation(word: str, device: str) -> Operation:
    return Operation(0, f"torch.{word}", word, {}, (), (Operand("return", TensorFacts((2,), "float32", device), None),))


def test_every_setting_that_differs_is_named_with_its_side() -> None:
    assert list(settings_that_differ(ONE, OTHER).values()) == [
        "1 thread in A, 8 in B",
        "deterministic algorithms are asked for only in B",
        "matrix products may use TF32 only in B",
        "convolutions may use TF32 only in A",
        "cuDNN may choose the fastest algorithm only in B",
        "the processor's kernels are for AVX2 in A, AVX512 in B",
    ]


def test_what_one_recording_does_not_know_is_no_difference() -> None:
    assert settings_that_differ(ONE, ONE) == settings_that_differ(None, ONE) == {}
    assert settings_that_differ(Settings(), ONE) == {}


@pytest.mark.parametrize(
    ("word", "device", "words"),
    [
        ("sum", "cpu", ["deterministic", "1 thread in A, 8 in B", "AVX512"]),
        ("matmul", "cuda:0", ["deterministic", "matrix products may use TF32"]),
        ("conv2d", "cuda:0", ["deterministic", "convolutions may use TF32", "fastest algorithm"]),
    ],
)
def test_an_operation_depends_on_the_settings_of_its_kind_and_device(word: str, device: str, words: list[str]) -> None:
    found = list(reasons_for(operation(word, device), settings_that_differ(ONE, OTHER)))
    assert len(found) == len(words) and all(part in reason for part, reason in zip(words, found, strict=True))
