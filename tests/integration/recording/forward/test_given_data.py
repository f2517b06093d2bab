"""What operations are given besides tensors with gradients: parts of tensors, detached tensors, numbers, states."""

# Much of torch has no types: backward.
# mypy: allow-untyped-calls
from __future__ import annotations

import torch
from torch import nn

from gradviz.graph.model import Graph
from tests.integration.recording.helpers import constants_of, nodes_named, record
from tests.integration.recording.small_graphs import weight


def names_given(graph: Graph) -> set[str]:
    return {name for constant in graph.constants for name in constant.names}


def test_a_slice_is_named_after_the_variable_that_it_is_a_part_of() -> None:
    def run() -> None:
        tokens, w = torch.ones(4, 9), weight(4, 8)
        loss = (w * tokens[:, :-1] + tokens[:, 1:] + tokens.T[1:].T[:, ::2].sum()).sum()
        loss.backward()

    assert {"tokens[:, :-1]", "tokens[:, 1:]"} <= names_given(record(run).graph)


def test_a_slice_of_a_buffer_is_named_after_the_buffer() -> None:
    class Positions(nn.Module):
        ids: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("ids", torch.arange(16).expand(1, -1))
            self.table = nn.Embedding(16, 4)

        def forward(self) -> torch.Tensor:
            result: torch.Tensor = self.table(self.ids[:, :5])
            return result

    def run() -> None:
        positions = Positions()
        positions().sum().backward()

    assert "positions.ids[:, :5]" in names_given(record(run).graph)


def test_a_copy_is_named_after_what_it_was_copied_from() -> None:
    def shifted(labels: torch.Tensor) -> torch.Tensor:
        padded = nn.functional.pad(labels, (0, 1), value=4)
        return padded[..., 1:].contiguous().view(-1)

    def run() -> None:
        tokens, table = torch.arange(12).view(2, 6) % 5, nn.Embedding(5, 3)
        loss = table(tokens[:, 1:].reshape(-1)).sum() + table(shifted(tokens)).sum()
        loss += table(tokens.clone()[0].clone()[2:]).sum() + table(tokens.cos().long().abs()[0]).sum()
        loss.backward()

    constants = record(run).graph.constants
    names = [constant.names for constant in constants]
    assert names == [("tokens[:, 1:]",), ("pad(tokens)[:, 1:]",), ("tokens[0][2:]",), ()]
    assert not any(constant.detached_from for constant in constants)


def test_a_detached_tensor_says_what_it_was_detached_from() -> None:
    def run() -> None:
        w, x = weight(3), torch.ones(3)
        fake = w * x
        target = fake.detach()
        loss = (w * fake.detach() + w * target[:1]).sum()
        loss.backward()

    graph = record(run).graph
    found = {constant.names[0]: constant.detached_from for constant in graph.constants}
    assert found["fake.detach()"] == "fake"
    assert all(of == "fake" for name, of in found.items() if name != "x")


def test_data_that_shares_no_memory_is_not_called_detached() -> None:
    def run() -> None:
        w = weight(3)
        copied = (w * 2).detach().clone()
        (w * copied).sum().backward()

    assert [(constant.names, constant.detached_from) for constant in record(run).graph.constants] == [(("copied",), "")]


def test_the_python_number_of_an_operation_is_kept() -> None:
    def run() -> None:
        x, y = weight(3), weight(3)
        (3 * x + (y + 5) / 2 - (1 - y) + torch.add(x, y, alpha=2)).sum().backward()

    graph = record(run).graph
    numbers = {node.name: node.number for node in graph.nodes if node.number is not None}
    assert numbers == {"MulBackward0": 3, "AddBackward0": 5, "DivBackward0": 2, "RsubBackward1": 1}


def test_the_first_states_of_an_lstm_belong_to_its_first_layer() -> None:
    def run() -> None:
        lstm, x = nn.LSTM(4, 3, num_layers=2, batch_first=True), torch.ones(2, 5, 4)
        lstm(x)[0].sum().backward()

    graph = record(run).graph
    given = {node.name: len(constants_of(graph, node)) for node in graph.nodes if node.constants}
    assert "TransposeBackward0" not in given
    assert sum(given.values()) == 3


def test_class_indices_belong_to_the_loss_and_not_to_the_softmax_before_it() -> None:
    def run() -> None:
        logits, labels = weight(2, 3) * 2, torch.tensor([0, 1])
        nn.functional.cross_entropy(logits, labels).backward()

    graph = record(run).graph
    assert [constants_of(graph, node) for node in nodes_named(graph, "NllLossBackward0")] == [[("data", ("labels",))]]
