"""With ``--values`` the small values of the forward are kept as they were when they were made."""

# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from gradviz.capture.capture_file import read_capture, write_capture
from gradviz.graph.model import Node
from tests.integration.recording.helpers import EVERY_BACKWARD, leaf_named, node_named, nodes_named, record
from tests.integration.recording.small_graphs import weight
from tests.leftovers import random_state

WITH_VALUES = replace(EVERY_BACKWARD, values_up_to=8)


def values(node: Node) -> list[tuple[float, ...] | None]:
    return [None if each is None else each.values for each in node.values]


def test_every_number_of_a_small_graph_is_there() -> None:
    x, y = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)

    def run() -> None:
        z = torch.log(x * y)
        (z * torch.tensor([1.0, 2.0])).sum().backward()

    graph = record(run, WITH_VALUES).graph
    log_of_six = torch.tensor(6.0).log().item()
    assert [values(leaf_named(graph, name)) for name in "xy"] == [[(2.0,)], [(3.0,)]]
    assert [values(node) for node in nodes_named(graph, "MulBackward0")] == [[(6.0,)], [(log_of_six, 2 * log_of_six)]]
    assert [constant.value and constant.value.values for constant in graph.constants] == [(1.0, 2.0)]


def test_a_value_is_that_of_the_moment_when_it_was_made() -> None:
    def run() -> None:
        y = weight(2) * 3
        y.add_(1)
        y.sum().backward()

    graph = record(run, WITH_VALUES).graph
    assert values(node_named(graph, "MulBackward0")) == [(3.0, 3.0)]
    assert values(node_named(graph, "AddBackward0")) == [(4.0, 4.0)]


def test_each_of_several_results_has_its_own_value() -> None:
    def run() -> None:
        first, second = (weight(4) * torch.arange(4.0)).split(2)
        (first * second).sum().backward()

    assert values(node_named(record(run, WITH_VALUES).graph, "SplitBackward0")) == [(0.0, 1.0), (2.0, 3.0)]


def test_nan_of_the_forward_is_counted() -> None:
    graph = record(lambda: (weight(2) - 2).log().sum().backward(), WITH_VALUES).graph
    (value,) = node_named(graph, "LogBackward0").values
    assert value is not None and value.nans == 2


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * 2


def test_values_that_are_too_large_or_were_not_seen_are_disclosed() -> None:
    def run() -> None:
        held = Doubled.apply(weight(2))
        (held.sum() + Doubled.apply(weight(2)).sum() + weight(3, 3).sum()).backward()

    recording = record(run, WITH_VALUES)
    assert [values(node) for node in nodes_named(recording.graph, "DoubledBackward")] == [[(2.0, 2.0)], []]
    told = " ".join(recording.capture.disclosures)
    assert "the value of 1 output is not kept: it has more than 8 elements" in told
    assert "the value of 1 small output is unknown" in told


def test_a_plain_number_and_a_result_inside_a_call_are_known_from_what_was_saved() -> None:
    def run() -> None:
        (2 / (weight(2) * 4)).sum().backward()

    graph = record(run, WITH_VALUES).graph
    numbers = [
        [saved.value and saved.value.values for saved in node.saved] for node in nodes_named(graph, "MulBackward0")
    ]
    assert numbers == [[(4.0,)], [(2.0,)]]
    assert values(node_named(graph, "ReciprocalBackward0")) == [(0.25, 0.25)]


def test_what_was_saved_and_changed_since_has_no_value() -> None:
    def run() -> None:
        mask = torch.ones(2)
        product = weight(2) * mask
        mask.zero_()
        with suppress(RuntimeError):
            product.sum().backward()

    (saved,) = node_named(record(run, WITH_VALUES).graph, "MulBackward0").saved
    assert saved.is_changed and saved.value is None


def test_keeping_values_draws_no_random_numbers_and_changes_no_version() -> None:
    layer, x = nn.Linear(2, 2), torch.ones(2)
    before = random_state(), x._version, layer.weight._version
    record(lambda: layer(x).sum().backward(), WITH_VALUES)
    assert (random_state(), x._version, layer.weight._version) == before


def test_values_survive_the_file_and_are_left_out_unless_asked_for() -> None:
    def run() -> None:
        (weight(2) * torch.ones(2)).sum().backward()

    capture = record(run, WITH_VALUES).capture
    assert read_capture(write_capture(capture), "x.gradviz") == capture
    graph = record(run).graph
    assert not any(node.values for node in graph.nodes if not node.is_leaf)
    assert not any(constant.value for constant in graph.constants)
