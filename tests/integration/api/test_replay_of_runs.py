"""Replays of programs that really ran."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import gradviz
from gradviz.analysis.replay.steps import Replay
from gradviz.rendering.replay.step_text import ReplayText, TextLook
from gradviz.rendering.replay.step_words import ReplayWords
from gradviz.rendering.subjects import subject_of
from gradviz.view.keywords import view_options


def screens_of(recording: gradviz.Recording, **options: object) -> list[str]:
    capture = recording.capture
    subject = subject_of(capture, capture.graphs[0], view_options(options))
    replay = Replay(subject.graph, subject.view)
    screens = ReplayText(ReplayWords(subject, replay), TextLook(width=80))
    return [screens.screen(at) for at in range(len(replay) + 1)]


def lines_of(screen: str, label: str) -> list[str]:
    """The text after a label."""
    return list(_said(screen.splitlines(), label))


def _said(lines: list[str], label: str) -> Iterator[str]:
    begins = next(place for place, line in enumerate(lines) if line.startswith(label))
    yield lines[begins][14:].strip()
    for line in lines[begins + 1 :]:
        if line[:14].strip():
            return
        yield line[14:].strip()


def test_a_step_shows_line_formula_and_numbers_as_one_does_by_hand() -> None:
    x = torch.tensor(2.0, requires_grad=True)
    y = torch.tensor(5.0, requires_grad=True)
    with gradviz.record(values=64) as recording:
        product = x * y
        torch.log(product).backward()
    screen = screens_of(recording)[2]
    assert lines_of(screen, "line") == ["product = x * y"]
    assert lines_of(screen, "formula") == ["ā = ȳ ∘ b", "b̄ = ȳ ∘ a", "a is x, b is y"]
    assert lines_of(screen, "gradient out") == ["ā = 0.1 · 5 = 0.5 → x", "b̄ = 0.1 · 2 = 0.2 → y"]


def test_branches_are_reported_one_by_one_and_then_their_sum() -> None:
    x = torch.tensor(3.0, requires_grad=True)
    with gradviz.record(values=64) as recording:
        y = x * x + torch.exp(0 * x)
        y.backward()
    last = screens_of(recording)[-1]
    amounts = [line.split("  ")[0] for line in lines_of(last, "gradient in")]
    assert amounts == ["0", "+ 3", "+ 3", "= 6"]
    assert lines_of(last, ".grad") == ["6  (there was none before)"]


def test_what_is_added_to_a_gradient_says_what_was_there_before() -> None:
    x = torch.tensor(3.0, requires_grad=True)
    x.grad = torch.tensor(10.0)
    with gradviz.record(values=64) as recording:
        x.exp().backward()
    assert lines_of(screens_of(recording)[-1], ".grad") == ["30.1  (10 was there before)"]


def test_a_hook_is_between_what_arrived_and_what_was_sent_on() -> None:
    x = torch.tensor(3.0, requires_grad=True)
    with gradviz.record(values=64) as recording:
        y = x * 2
        y.register_hook(lambda gradient: gradient * 100)
        y.exp().backward()
    screen = next(screen for screen in screens_of(recording) if "MulBackward0" in screen.splitlines()[0])
    first, second = lines_of(screen, "gradient in")
    assert first.startswith("403  from exp")
    assert second == "ȳ = 4.03e+04  after 1 hook"


def test_no_gradient_is_reported_before_it_has_arrived() -> None:
    x = torch.tensor([3.0, 5.0], requires_grad=True)
    with gradviz.record(values=64) as recording:
        (x * 7).sum().backward()
    screens = screens_of(recording)
    assert ["[7, 7]" in screen for screen in screens] == [False, False, True, True]
    assert ["[1, 1]" in screen for screen in screens] == [False, True, True, True]


def test_numbers_that_were_not_kept_are_shapes_and_norms() -> None:
    x = torch.ones(30, 2, requires_grad=True)
    with gradviz.record() as recording:
        (x * 7).sum().backward()
    assert lines_of(screens_of(recording)[2], "gradient out") == ["[30, 2] of norm 54.2 → x"]


def test_the_gradient_that_grad_gives_back_is_the_last_step() -> None:
    x = torch.tensor(3.0, requires_grad=True)
    with gradviz.record(values=64) as recording:
        torch.autograd.grad(x.exp(), x)
    last = screens_of(recording)[-1]
    assert last.startswith("step 2 of 2   x")
    assert lines_of(last, ".grad") == ["unchanged: grad() returns it"]


def test_a_backward_that_raised_is_replayed_to_the_node_that_did() -> None:
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx: torch.autograd.function.FunctionCtx, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: torch.autograd.function.FunctionCtx, *gradients: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("not today")

    x = torch.tensor(3.0, requires_grad=True)
    with pytest.raises(RuntimeError, match="not today"), gradviz.record(values=64) as recording:
        Broken.apply(x).exp().backward()
    last = screens_of(recording)[-1]
    assert lines_of(last, "✗ failed") == ["backward raised here: RuntimeError: not today"]
    assert "gradient out" not in last


def test_without_a_backward_the_order_is_that_of_the_engine() -> None:
    x = torch.tensor(3.0, requires_grad=True)
    w = torch.tensor(2.0, requires_grad=True)

    def loss() -> torch.Tensor:
        return (w * x).sin() * x + w.exp()

    with gradviz.record() as watched:
        loss().backward()
    with gradviz.record(gradients=False) as unwatched:
        loss().backward()
    assert [screen.split("\n")[0] for screen in screens_of(unwatched)] == [
        screen.split("\n")[0] for screen in screens_of(watched)
    ]
    assert "would have run" in screens_of(unwatched)[1]


def test_of_a_part_of_a_graph_it_is_said_that_more_is_summed_than_is_shown() -> None:
    x = torch.tensor(3.0, requires_grad=True)
    with gradviz.record(values=64) as recording:
        y = x.exp()
        z = y.sin()
        (z * 2 + y).backward()
    whole = next(screen for screen in screens_of(recording) if "   exp   " in screen)
    part = next(screen for screen in screens_of(recording, path=("x", "z")) if "   exp   " in screen)
    assert [line.split("  ")[0] for line in lines_of(whole, "gradient in")] == ["1", "+ 0.657", "ȳ = 1.66"]
    first, rest, total = lines_of(part, "gradient in")
    assert first == "0.657  from sin (z)"
    assert rest.endswith("from nodes that are not shown")
    assert total == "ȳ = 1.66"


def test_formulas_of_complex_numbers_have_their_conjugates() -> None:
    x = torch.tensor([1j, 2.0], requires_grad=True)
    with gradviz.record() as recording:
        (x * x).abs().sum().backward()
    screen = next(screen for screen in screens_of(recording) if "MulBackward0" in screen)
    assert "conj" in lines_of(screen, "formula")[0]


def test_a_recording_replays_itself_and_refuses_steps_that_are_not_there() -> None:
    x = torch.tensor(2.0, requires_grad=True)
    with gradviz.record(values=64) as recording:
        x.exp().backward()
    assert recording.replay(first=1, last=1, width=80).startswith("step 1 of 2   exp")
    assert recording.replay().count("─" * 100) == 2
    refused: list[dict[str, Any]] = [{"first": 3}, {"last": -1}, {"first": 2, "last": 1}, {"width": 5}, {"depht": 1}]
    for wrong in refused:
        with pytest.raises(gradviz.BadInput):
            recording.replay(**wrong)
