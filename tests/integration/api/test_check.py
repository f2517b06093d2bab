"""`gradviz.check(loss)` and `recording.check()` in a program."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

import gradviz
from gradviz.errors import BadInput


def causes(result: gradviz.Checked) -> list[str]:
    return [finding.cause for finding in result.at_least("warning")]


def test_a_loss_is_checked_where_it_is_and_no_grad_is_touched() -> None:
    model = nn.Linear(2, 1)
    result = gradviz.check((model(torch.zeros(3, 2)) - model.bias).sqrt().sum(), model=model)
    assert causes(result) == ["nan_from_op"]
    assert not result
    assert "nan_from_op" in str(result)
    assert model.weight.grad is None


def test_a_healthy_loss_is_true_and_can_run_its_own_backward_afterwards() -> None:
    model = nn.Linear(2, 1)
    loss = model(torch.ones(3, 2)).sum()
    assert gradviz.check(loss, model=model)
    loss.backward()
    assert model.bias.grad is not None


def test_a_parameter_of_the_given_model_that_the_loss_does_not_reach_is_reported_unless_it_is_frozen() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    loss = model[1](model[0](torch.ones(3, 2)).detach()).sum()
    (finding,) = gradviz.check(loss, model=model).at_least("warning")
    assert (finding.cause, finding.tensors) == ("parameter_without_gradient", ("model.0.weight", "model.0.bias"))
    assert gradviz.check(loss, model=model, ignore="GV799")
    model[0].requires_grad_(False)
    assert gradviz.check(loss, model=model)


def test_a_block_whose_calls_are_logged_knows_what_was_cut_off() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    with gradviz.record(calls=True) as recording:
        features = model[0](torch.ones(3, 2)).detach()
        model[1](features).sum().backward()
    result = recording.check()
    assert causes(result) == ["detached"]
    assert result.findings[0].tensors == ("model.0.weight", "model.0.bias")
    assert causes(recording.check(ignore=["detached"])) == []
    assert "┄ detach" in str(recording.tree())
    assert "GV101 detached" in recording.svg()
    assert recording.graph.cut_edges == (), "what was recorded stays as it is"


def test_a_block_that_raises_can_be_checked() -> None:
    with pytest.raises(RuntimeError), gradviz.record(calls=True) as recording:
        weight = torch.ones(2, requires_grad=True)
        activation = weight.exp()
        activation += 1
        activation.sum().backward()  # type: ignore[no-untyped-call]
    assert causes(recording.check()) == ["inplace_modified_saved"]


def modules_in_log(recording: gradviz.Recording) -> list[str]:
    assert recording.capture.calls is not None
    return [scope.path for scope in recording.capture.calls.scopes]


def test_modules_have_their_names_in_the_log_of_a_block_without_a_backward() -> None:
    with gradviz.record(calls=True) as recording:
        trained = nn.Linear(2, 1)
        loss = trained(torch.ones(3, 2)).sum()
    assert modules_in_log(recording) == ["trained"]
    assert loss.requires_grad


def test_an_inspection_in_a_block_takes_neither_its_log_nor_the_names_in_it() -> None:
    def train() -> Iterator[gradviz.Inspection]:
        layer = nn.Linear(2, 1)
        loss = layer(torch.ones(3, 2)).sum()
        inspected = gradviz.inspect(loss)
        torch.optim.SGD(layer.parameters(), lr=0.1)
        yield inspected  # the layer lives on, and at the end of the block no variable leads to it

    with gradviz.record(calls=True) as recording:
        training = train()
        inspected = next(training)
    assert inspected.capture.calls is None
    assert modules_in_log(recording) == ["layer"]


def test_rules_are_named_as_on_the_command_line() -> None:
    with pytest.raises(BadInput, match="no rule 'detatched'"):
        gradviz.check(torch.ones(1, requires_grad=True).exp(), select="detatched")
    weight = torch.ones(1, requires_grad=True)
    backwards = []
    weight.register_hook(lambda _: backwards.append(1))  # type: ignore[no-untyped-call]
    with pytest.raises(BadInput, match="no rule 'GV999'"):
        gradviz.check(weight.exp(), ignore="GV999")
    assert not backwards
    with pytest.raises(BadInput, match="severity"):
        gradviz.check(torch.ones(1, requires_grad=True).exp()).at_least("grave")  # type: ignore[arg-type]
