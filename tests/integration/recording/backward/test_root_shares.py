"""The share of each of several losses in the gradient of every parameter is that of a backward of that loss alone."""

# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradviz.capture.capture_file import read_capture, write_capture
from gradviz.graph.root_shares import RootShares
from tests.integration.recording.helpers import EVERY_BACKWARD, Recording, leaf_named, record
from tests.integration.recording.small_graphs import weight
from tests.leftovers import random_state

PLAN = replace(EVERY_BACKWARD, root_shares=True)


def shares_in(recording: Recording) -> RootShares:
    shares = recording.graph.root_shares
    assert shares is not None, recording.capture.disclosures
    return shares


def norms(recording: Recording, name: str) -> dict[str, float]:
    """Norms of the gradient of the leaf with this name, by loss."""
    shares = shares_in(recording)
    products = shares.at([leaf_named(recording.graph, name).id])
    assert products is not None
    return {loss.name: products.norm(number) or 0.0 for number, loss in enumerate(shares.losses)}


def test_terms_of_a_sum_are_measured_one_by_one() -> None:
    w, x = weight(3), torch.arange(3.0)

    def run() -> None:
        first = (w * x).sum()
        second = w.exp().mean()
        loss = (first - 0.5 * second + (w * w).sum()) / 4
        loss.backward()

    recording = record(run, PLAN)
    assert norms(recording, "w") == pytest.approx(
        {
            "first": float(x.norm()) / 4,
            "second": float((torch.ones(3).exp() / 3).norm()) / 8,
            "sum": float(torch.full((3,), 2.0).norm()) / 4,
        }
    )
    products = shares_in(recording).together()
    assert products is not None
    assert sum(products.share(number) or 0 for number in range(3)) == pytest.approx(1)
    assert products.cosine(0, 1) == pytest.approx(-float(x.sum() / (x.norm() * 3**0.5)), rel=1e-5)


def test_each_of_several_roots_is_a_loss() -> None:
    w = weight(2)

    def run() -> None:
        first, second = (w * 2).sum(), (w * 3).sum()
        torch.autograd.backward([first, second], [torch.tensor(1.0), torch.tensor(2.0)])

    assert norms(record(run, PLAN), "w") == pytest.approx({"first": 8**0.5, "second": 6 * 2**0.5})


@pytest.mark.parametrize(
    "together",
    [sum, lambda losses: torch.stack(losses).sum(), lambda losses: torch.stack(losses).mean() * len(losses)],
    ids=["sum", "stack", "mean"],
)
def test_a_list_of_losses_is_opened(together: Callable[[Any], Tensor]) -> None:
    w = weight(2)

    def run() -> None:
        losses = [(w * factor).sum() for factor in (1.0, 2.0, 3.0)]
        together(losses).backward()

    expected = {f"losses[{place}]": (place + 1) * 2**0.5 for place in range(3)}
    assert norms(record(run, PLAN), "w") == pytest.approx(expected)


def test_many_losses_of_a_loop_are_combined() -> None:
    w = weight(2)

    def run() -> None:
        other = w.exp().sum()
        total = other * 1
        for _ in range(30):
            total = total + (w * 2).sum()
        total.backward()

    recording = record(run, PLAN)
    assert norms(recording, "w") == pytest.approx({"other": float(torch.ones(2).exp().norm()), "sum": 60 * 2**0.5})


def test_terms_of_the_same_operation_are_named_by_what_they_are_computed_from() -> None:
    w = weight(2)
    recording = record(lambda: (w.sum() + w.pow(2).sum() + w.exp().sum()).backward(), PLAN)
    assert [loss.name for loss in shares_in(recording).losses] == ["sum of w", "sum of pow", "sum of exp"]


def test_a_term_that_is_used_twice_is_not_counted_twice() -> None:
    w = weight(2)

    def run() -> None:
        first = w.sum()
        (first + first * first).backward()

    assert norms(record(run, PLAN), "w") == pytest.approx({"first": 2**0.5, "mul": 4 * 2**0.5})


def test_measuring_leaves_the_gradients_of_the_program_as_they_are() -> None:
    def gradients(plan: Any) -> list[Tensor]:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Linear(3, 1))

        def run() -> None:
            out = net(torch.ones(2, 3))
            (out.sum() + out.pow(2).mean()).backward()

        record(run, plan)
        return [*(parameter.grad for parameter in net.parameters() if parameter.grad is not None), torch.rand(1)]

    assert all(map(torch.equal, gradients(PLAN), gradients(EVERY_BACKWARD)))
    assert random_state()


def test_one_root_that_is_not_a_sum_is_disclosed() -> None:
    recording = record(lambda: weight(2).exp().sum().backward(), PLAN)
    assert recording.graph.root_shares is None
    assert any("one root that is not a sum" in sentence for sentence in recording.capture.disclosures)


def test_a_hook_of_the_program_that_raises_only_removes_the_shares() -> None:
    calls = []

    def raise_once(grad: Tensor) -> None:
        calls.append(grad)
        if len(calls) == 1:
            raise ArithmeticError("mine")

    def run() -> None:
        w = weight(2)
        w.register_hook(raise_once)
        (w.sum() + w.exp().sum()).backward()

    recording = record(run, PLAN)
    assert any(
        "shares of losses could not be measured: ArithmeticError: mine" in s for s in recording.capture.disclosures
    )
    assert leaf_named(recording.graph, "w").arrived


def test_a_loss_with_nan_leaves_the_shares_of_the_others_known() -> None:
    w, v = weight(2), weight(2)

    def run() -> None:
        broken = (w * torch.nan).sum()
        fine = (w + 2 * v).sum()
        (broken + fine).backward()

    recording = record(run, PLAN)
    shares = shares_in(recording)
    at_w, at_v = (shares.at([leaf_named(recording.graph, name).id]) for name in ("w", "v"))
    assert at_w is not None and at_v is not None
    assert at_w.norm(0) is None and at_w.share(1) is None
    assert at_w.norm(1) == pytest.approx(2**0.5)
    assert at_v.share(1) == pytest.approx(1)


def test_shares_survive_the_file() -> None:
    w = weight(2)
    capture = record(lambda: (w.sum() + w.exp().sum()).backward(), PLAN).capture
    assert capture.graphs[0].root_shares is not None
    assert read_capture(write_capture(capture), "x.gradviz") == capture
