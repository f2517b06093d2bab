"""At which moment replicas begin to differ, and why."""

from __future__ import annotations

from gradviz.analysis.ranks.drift import Drift, drift_between, first_difference, moment_digests
from gradviz.capture.capture import Capture, Program
from gradviz.capture.replica_log import MomentKind, ReplicaLog, ReplicaMoment, is_noted, packed

MOMENTS: tuple[tuple[MomentKind, int, int], ...] = (
    ("backward", 1, 9), ("gradients", 1, 10), ("step", 1, 10),
    ("backward", 2, 9), ("gradients", 2, 10), ("step", 2, 10),
)  # fmt: skip


def capture(*checksums: int) -> Capture:
    moments = tuple(
        ReplicaMoment(kind, backward, packed([(7, 1.0), (checksum, float(checksum))]), "train.py", at)
        for (kind, backward, at), checksum in zip(MOMENTS, checksums, strict=True)
    )
    return Capture(Program("train.py"), replicas=ReplicaLog(("weight", "bias"), moments))


def found(usual: Capture, other: Capture) -> Drift | None:
    digests = [moment_digests(each.replicas) for each in (usual, other)]
    number = first_difference(digests, [kind for kind, *_ in MOMENTS])
    return None if number is None else drift_between(usual, other, number)


def test_equal_replicas_have_not_drifted_even_if_a_gradient_differs_that_no_step_uses() -> None:
    assert found(capture(1, 2, 3, 3, 4, 5), capture(1, 2, 3, 3, 4, 5)) is None
    assert found(capture(1, 2, 3, 3, 4, 3), capture(1, 9, 3, 3, 4, 3)) is None


def test_a_parameter_that_the_program_changes_differs_before_the_next_backward() -> None:
    drift = found(capture(1, 2, 3, 3, 4, 5), capture(1, 2, 3, 8, 4, 9))
    assert drift is not None
    assert (drift.when, drift.norms) == ("before backward 2", {"bias": (3.0, 8.0)})
    assert "after the step at train.py:10 they were still the same" in drift.how


def test_a_step_with_other_gradients_and_a_step_with_the_same_ones_are_told_apart() -> None:
    by_gradient = found(capture(1, 2, 3, 3, 4, 5), capture(1, 2, 3, 3, 6, 9))
    by_optimizer = found(capture(1, 2, 3, 3, 4, 5), capture(1, 2, 3, 3, 4, 9))
    assert by_gradient is not None
    assert by_optimizer is not None
    assert by_gradient.when == by_optimizer.when == "after the step at train.py:10 that follows backward 2"
    assert "their gradients differ before it" in by_gradient.how
    assert "state of the optimizer differ" in by_optimizer.how


def test_replicas_that_differ_before_anything_ran_were_changed_after_they_were_wrapped() -> None:
    drift = found(capture(1, 2, 3, 3, 4, 5), capture(6, 2, 3, 3, 4, 5))
    assert drift is not None
    assert "makes them the same when it is constructed" in drift.how


def test_a_run_of_a_million_steps_is_noted_at_a_few_hundred_of_them() -> None:
    noted = [number for number in range(1, 1_000_001) if is_noted(number)]
    assert noted[:18] == [*range(1, 17), 18, 20]
    assert 100 < len(noted) < 200
