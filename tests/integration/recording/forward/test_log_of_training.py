"""What the log keeps about training: classes that are looked up and compared, learning rates, and shared parameters."""

# Much of torch has no types: backward, step.
# mypy: allow-untyped-calls
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from gradviz.capture.capture import Capture
from gradviz.capture.capture_file import read_capture, write_capture
from gradviz.graph.call_log import CallLog, Padding
from tests.integration.recording.helpers import EVERY_CALL, record


def capture_of(program: Callable[[], Any]) -> Capture:
    """What was recorded, which goes through a file unchanged."""
    capture = record(program, EVERY_CALL).capture
    assert read_capture(write_capture(capture), "run.gradviz") == capture
    return capture


def log_of(program: Callable[[], Any]) -> CallLog:
    calls = capture_of(program).calls
    assert calls is not None
    return calls


def step(model: nn.Module, optimizer: torch.optim.Optimizer, sign: float = 1.0) -> None:
    optimizer.zero_grad()
    (sign * model(torch.ones(2, 3)).sum()).backward()
    optimizer.step()


def test_equal_classes_have_the_same_checksum_whatever_their_shape() -> None:
    table = nn.Embedding(5, 4)
    tokens = torch.tensor([[1, 2, 0], [4, 4, 3]])

    def program() -> None:
        logits = table(tokens).flatten(0, 1)
        for targets in (tokens.flatten(), tokens.t().flatten(), tokens.flatten() * 0):
            cross_entropy(logits @ torch.ones(4, 5), targets).backward(retain_graph=True)

    sums = [next(iter(call.checksums.values())) for call in log_of(program).calls if call.checksums]
    looked_up, same, transposed, other = sums
    assert looked_up == same
    assert len({same, transposed, other}) == 3


def test_what_pads_the_ids_of_the_first_calls_of_a_line_is_noted() -> None:
    table = nn.Embedding(9, 9)
    ids = torch.tensor([[5, 3, 4, 7, 6], [2, 8, 3, 0, 0], [8, 1, 4, 0, 0], [2, 1, 0, 0, 0], [7, 4, 8, 5, 0]])

    def program() -> None:
        for given in (ids, ids, ids.flip(1), ids, ids):
            cross_entropy(table(given).flatten(0, 1), given.flatten())
        table(ids % 3)

    calls = [call for call in log_of(program).calls if call.checksums]
    looked_up, compared = (calls[kind:-1:2] for kind in (0, 1))
    for of_line, place in ((looked_up, "0"), (compared, "1")):
        assert [list(call.padding) for call in of_line] == [[place]] * 3 + [[]] * 2
        found = [call.padding[place] for call in of_line[:3]]
        assert found == [Padding(0, 8, 25), Padding(0, 8, 25), Padding(0, 8, 25, is_at_end=False)]
    assert calls[-1].padding == {}


def test_the_turns_of_a_learning_rate_are_noted() -> None:
    def program() -> None:
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for rate in (0.1, 0.1, 0.05, 0.01, 0.02, 0.03, 0.01):
            optimizer.param_groups[0]["lr"] = rate
            step(model, optimizer)

    (optimizer,) = log_of(program).optimizers
    assert (optimizer.steps, optimizer.rate_changes, optimizer.first_rate) == (7, 5, 0.1)
    assert [(turn.step, turn.rate, turn.following) for turn in optimizer.rate_turns] == [
        (3, 0.01, 0.02),
        (5, 0.03, 0.01),
    ]


@pytest.mark.parametrize(("sign", "cosine"), [(1.0, 1.0), (-1.0, -1.0)])
def test_gradients_of_two_optimizers_on_the_same_parameters_are_compared(sign: float, cosine: float) -> None:
    def program() -> None:
        model, other = nn.Linear(3, 1), nn.Linear(3, 1)
        first = torch.optim.SGD(model.parameters(), lr=0.1)
        second = torch.optim.SGD([*model.parameters(), *other.parameters()], lr=0.1)
        for _ in range(3):
            step(model, first)
            step(model, second, sign)

    log = log_of(program)
    (shared,) = log.shared_steps
    assert {log.tensors[number].facts.shape for number in shared.tensors} == {(1, 3), (1,)}
    assert shared.cosines == pytest.approx((cosine,) * len(shared.cosines))
    assert len(shared.cosines) >= 3


def test_optimizers_with_parameters_of_their_own_are_not_compared() -> None:
    def program() -> None:
        model, other = nn.Linear(3, 1), nn.Linear(3, 1)
        for _ in range(2):  # each takes the place of the one before
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            step(model, optimizer)
        step(other, torch.optim.SGD(other.parameters(), lr=0.1))

    assert log_of(program).shared_steps == ()


@pytest.mark.parametrize(("workers", "told"), [(0, False), (2, True)])
def test_it_is_told_that_worker_processes_of_a_loader_are_not_seen(workers: int, told: bool) -> None:
    def program() -> None:
        DataLoader(TensorDataset(torch.ones(4)), num_workers=workers)
        torch.ones(2, requires_grad=True).sum().backward()

    sentences = capture_of(program).disclosures
    assert any("worker processes of 1 DataLoader: " in sentence for sentence in sentences) == told
