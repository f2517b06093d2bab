"""Calls that come again and again without gradients, and that the log leaves out: of loaders, and under no_grad."""

# Much of torch has no types: backward, step.
# mypy: allow-untyped-calls
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from gradviz.capture.capture import Capture
from gradviz.recording.calls import data_loading, repeated_blocks
from tests.integration.recording.helpers import EVERY_CALL, record

BATCHES = 40


class Images(Dataset[torch.Tensor]):
    """Pictures that a function changes at each access."""

    def __init__(self, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self.data = torch.rand(BATCHES, 3)
        self.change = change

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.change(self.data[index])


def calls_of(capture: Capture, name: str) -> int:
    assert capture.calls is not None
    return sum(call.function == name for call in capture.calls.calls)


def trained_on(data: Sequence[torch.Tensor] | Dataset[torch.Tensor]) -> Capture:
    def program() -> None:
        model = nn.Linear(3, 1)
        for batch in DataLoader(data):  # type: ignore[arg-type]
            model(batch).sum().backward()

    return record(program, EVERY_CALL).capture


def acting(act: Callable[[nn.Module, torch.Tensor], Any], runs: int) -> Capture:
    """A program that acts without gradients, and then trains."""
    model, state = nn.Linear(3, 1), torch.zeros(3)

    def program() -> None:
        for _ in range(runs):
            with torch.no_grad():
                act(model, state)
        model(torch.ones(3)).sum().backward()

    return record(program, EVERY_CALL).capture


def test_of_a_loader_that_only_reads_few_batches_are_logged_and_all_steps() -> None:
    capture = trained_on(Images(lambda image: image.exp()))
    logged = data_loading.ALWAYS_LOGGED + sum(
        number % data_loading.ONE_IN == 0 for number in range(data_loading.ALWAYS_LOGGED + 1, BATCHES + 1)
    )
    assert calls_of(capture, "torch.Tensor.exp") == logged
    assert calls_of(capture, "torch.nn.functional.linear") == BATCHES
    told = f"DataLoaders made {BATCHES - logged} batches of {BATCHES}"
    assert any(told in sentence for sentence in capture.disclosures)


def test_the_first_batches_of_a_data_set_are_logged_that_takes_the_place_of_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(data_loading, "id", lambda _: 1, raising=False)  # As where memory is used again.

    def program() -> None:
        model = nn.Linear(3, 1)
        for _ in range(6):
            for batch in DataLoader(Images(lambda image: image.exp())):
                model(batch).sum().backward()

    capture = record(program, EVERY_CALL).capture
    assert calls_of(capture, "torch.Tensor.exp") >= 6 * data_loading.ALWAYS_LOGGED


def test_a_loader_that_changes_its_data_in_place_is_logged_whole() -> None:
    capture = trained_on(Images(lambda image: image.mul_(2.0)))
    assert calls_of(capture, "torch.Tensor.mul_") == BATCHES
    assert not any("DataLoaders" in sentence for sentence in capture.disclosures)


def test_a_loader_that_makes_a_graph_is_logged_whole() -> None:
    weight = torch.ones(3, requires_grad=True)
    assert calls_of(trained_on(Images(lambda image: image * weight)), "torch.Tensor.mul") == BATCHES


def test_what_a_loader_changes_in_memory_of_its_own_does_not_matter() -> None:
    capture = trained_on(Images(lambda image: image * torch.empty(1).uniform_(0.5, 1.5)))
    assert calls_of(capture, "torch.Tensor.uniform_") < BATCHES


def test_a_block_without_gradients_that_ran_often_is_logged_once_in_sixteen() -> None:
    runs = repeated_blocks.ALWAYS_LOGGED + 3 * repeated_blocks.ONE_IN
    capture = acting(lambda model, state: model(state).argmax(), runs)
    assert calls_of(capture, "torch.Tensor.argmax") == repeated_blocks.ALWAYS_LOGGED + 3
    assert any("under torch.no_grad()" in sentence for sentence in capture.disclosures)


def test_of_steps_with_blocks_that_ran_often_some_are_logged_whole() -> None:
    model, state = nn.Linear(3, 1), torch.zeros(3)
    steps = repeated_blocks.ALWAYS_LOGGED + 3 * repeated_blocks.ONE_IN

    def program() -> None:
        for _ in range(steps):
            for _ in range(3):
                with torch.no_grad():
                    model(state).exp()
            with torch.no_grad():
                target = model(state).sin()
            (model(torch.ones(3)) - target).sum().backward()

    capture = record(program, EVERY_CALL).capture
    assert capture.calls is not None
    backward = [call for call in capture.calls.calls if call.kind == "backward"]
    whole = [number for number, call in enumerate(backward) if not call.misses_calls]
    assert len(whole) >= 3 + repeated_blocks.ALWAYS_LOGGED // 3
    assert max(whole) >= repeated_blocks.ALWAYS_LOGGED + 2 * repeated_blocks.ONE_IN
    assert len(whole) < steps / 2


def test_what_is_changed_in_place_is_logged_also_where_other_calls_are_not() -> None:
    seen = torch.zeros(3)

    def act(model: nn.Module, state: torch.Tensor) -> None:
        seen.add_(model(state).exp())

    runs = 2 * repeated_blocks.ALWAYS_LOGGED
    capture = acting(act, runs)
    assert calls_of(capture, "torch.Tensor.add_") == runs
    assert calls_of(capture, "torch.Tensor.exp") < runs


def test_a_block_that_writes_into_a_parameter_is_logged_whole() -> None:
    def average(model: nn.Module, state: torch.Tensor) -> None:
        weight = next(model.parameters())
        weight.copy_(weight * 0.9 + state.exp())

    runs = 2 * repeated_blocks.ALWAYS_LOGGED
    assert calls_of(acting(average, runs), "torch.Tensor.exp") == runs


def test_gradients_that_are_switched_on_inside_of_such_a_block_are_logged() -> None:
    def act(model: nn.Module, state: torch.Tensor) -> None:
        model(state)
        with torch.enable_grad():
            model(state).exp()

    runs = 2 * repeated_blocks.ALWAYS_LOGGED
    assert calls_of(acting(act, runs), "torch.Tensor.exp") == runs


def test_steps_of_an_optimizer_are_no_such_blocks() -> None:
    def program() -> None:
        model = nn.Linear(3, 1)
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(repeated_blocks.ALWAYS_LOGGED + 2):
            optimizer.zero_grad()
            model(torch.ones(3)).sum().backward()
            optimizer.step()

    assert not any("no_grad" in sentence for sentence in record(program, EVERY_CALL).capture.disclosures)
