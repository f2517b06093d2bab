"""`gradviz.inspect`: the graph of existing tensors."""

# Much of torch has no types: backward, register_hook, Function.apply.
# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

import gc
import weakref
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers.modeling_outputs import CausalLMOutput

import gradviz
from gradviz.errors import BadInput, GradvizError, NothingRecorded
from tests.integration.recording.child import forked_result
from tests.leftovers import random_state

Pair = namedtuple("Pair", "first second")


@dataclass
class Output:
    loss: Tensor
    steps: int


def weight(*shape: int) -> Tensor:
    return torch.ones(*shape, requires_grad=True)


def root_names(inspection: gradviz.Inspection) -> list[str | None]:
    return [root.name for root in inspection.graph.roots]


# -- what can be given -------------------------------------------------------------------------------------------


def test_a_tensor_and_its_leaves_are_named_after_the_variables_of_the_caller() -> None:
    w = weight(3)
    loss = (w * 2).sum()
    inspection = gradviz.inspect(loss)
    assert root_names(inspection) == ["loss"]
    assert inspection.graph.find("w")[0].names == ("w",)


def test_names_are_found_from_inside_a_lambda_and_from_a_caller_further_up() -> None:
    w = weight(3)

    def inner(value: Tensor) -> gradviz.Inspection:
        return (lambda: gradviz.inspect(value))()

    graph = inner((w * 2).sum()).graph
    assert [node.names for node in graph.leaves] == [("w",)]


@pytest.mark.parametrize("kind", ["tuple", "list", "dict", "dataclass", "named tuple", "model output", "nested"])
def test_any_structure_of_tensors_gives_its_roots(kind: str) -> None:
    def values() -> Any:
        return weight(3).exp().sum()

    given, names = {
        "tuple": ((values(), 1), ["given[0]"]),
        "list": ([values(), values()], ["given[0]", "given[1]"]),
        "dict": ({"loss": values()}, ["given['loss']"]),
        "dataclass": (Output(values(), 3), ["given.loss"]),
        "named tuple": (Pair(values(), None), ["given.first"]),
        "model output": (CausalLMOutput(loss=values(), logits=values()), ["given.loss", "given.logits"]),
        "nested": ([{"parts": (values(),)}], ["given[0]['parts'][0]"]),
    }[kind]
    assert root_names(gradviz.inspect(given)) == names


def test_several_tensors_are_several_roots_in_the_order_given() -> None:
    hidden = weight(3) * 2
    first, second = hidden.sum(), hidden.mean()
    assert root_names(gradviz.inspect(second, first, second)) == ["second", "first"]


def test_a_grad_fn_or_a_gradient_edge_will_do() -> None:
    loss = weight(3).exp().sum()
    edge = torch.autograd.graph.get_gradient_edge(loss)
    for given in (loss.grad_fn, edge):
        graph = gradviz.inspect(given).graph
        assert [graph.nodes[root.node].name for root in graph.roots] == ["SumBackward0"]


def test_what_has_no_graph_beside_what_has_one_is_reported() -> None:
    out = {"loss": weight(3).sum(), "mask": torch.ones(3), "labels": torch.ones(2)}
    inspection = gradviz.inspect(out)
    assert root_names(inspection) == ["out['loss']"]
    told = "2 of the 3 tensors given have no grad_fn and are not shown: out['mask'], out['labels']"
    assert told in inspection.capture.disclosures


# -- names of parameters -----------------------------------------------------------------------------------------


def parameter_names(inspection: gradviz.Inspection) -> set[str]:
    return {name for node in inspection.graph.parameters for name in node.names}


def test_a_model_that_a_variable_holds_names_its_parameters() -> None:
    net = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    loss = net(torch.ones(4, 3)).sum()
    inspection = gradviz.inspect(loss)
    assert parameter_names(inspection) == {"net.0.weight", "net.0.bias", "net.1.weight", "net.1.bias"}
    assert [parameter.names for parameter in inspection.capture.parameters] == [
        ("net.0.weight",), ("net.0.bias",), ("net.1.weight",), ("net.1.bias",)
    ]  # fmt: skip


def test_a_model_that_no_variable_holds_is_called_model() -> None:
    holder = SimpleNamespace(network=nn.Linear(3, 1))
    loss = holder.network(torch.ones(4, 3)).sum()
    assert parameter_names(gradviz.inspect(loss)) == set()
    assert parameter_names(gradviz.inspect(loss, model=holder.network)) == {"model.weight", "model.bias"}
    both = gradviz.inspect(loss, model={"student": holder.network})
    assert parameter_names(both) == {"model['student'].weight", "model['student'].bias"}


def test_parameters_that_the_loss_does_not_reach_are_known_too() -> None:
    net = nn.ModuleDict({"used": nn.Linear(3, 1), "idle": nn.Linear(3, 1)})
    loss = net["used"](torch.ones(4, 3)).sum()
    known = {name for parameter in gradviz.inspect(loss).capture.parameters for name in parameter.names}
    assert {"net.idle.weight", "net.used.weight"} <= known


# -- what is known and what is not ---------------------------------------------------------------------------------


def test_that_lines_and_modules_are_unknown_is_said_with_the_remedy() -> None:
    inspection = gradviz.inspect(weight(3).sum())
    (sentence,) = inspection.capture.disclosures
    assert "lines and module calls are unknown" in sentence
    assert "with gradviz.record():" in sentence
    assert sentence in " ".join(inspection.tree(width=400).split())


def test_inside_a_recording_lines_and_modules_are_known() -> None:
    model = nn.Linear(3, 1)
    before = weight(3).exp()
    with gradviz.record() as recording:
        loss = model(torch.ones(4, 3)).sum()
        inspection = gradviz.inspect(loss)
        mixed = gradviz.inspect((before.sum() * loss).sum())
    (scope,) = inspection.graph.scopes
    assert (scope.path, inspection.capture.disclosures) == ("model", ())
    assert all(node.call_site is not None for node in inspection.graph.nodes if not node.is_leaf)
    assert any("made before the recording began" in sentence for sentence in mixed.capture.disclosures)
    assert recording.graphs[0].roots[0].name == "loss"
    assert recording.capture.disclosures == ()  # what was looked at meanwhile left nothing behind


# -- what it must not do -------------------------------------------------------------------------------------------


def test_nothing_is_changed() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(), nn.Linear(3, 1))
    loss = model(torch.ones(2, 3)).sum()
    before = random_state()
    gradviz.inspect(loss, model=model)
    assert random_state() == before
    assert all(parameter.grad is None and not parameter._backward_hooks for parameter in model.parameters())
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_a_graph_that_backward_has_freed_can_still_be_inspected() -> None:
    loss = weight(3).exp().sum()
    loss.backward()
    assert [node.name for node in gradviz.inspect(loss).graph.nodes][1:] == ["ExpBackward0", "SumBackward0"]


def test_nothing_is_kept_alive() -> None:
    gc.collect()
    gc.disable()
    try:
        model = nn.Linear(3, 1)
        big = torch.ones(100, 3)
        loss = model(big).sum()
        inspection = gradviz.inspect(loss, model=model)
        assert inspection.svg()
        seen = [weakref.ref(thing) for thing in (model, big, loss)]
        del model, big, loss
        assert [reference() for reference in seen] == [None, None, None]
        assert inspection.graph.leaves
    finally:
        gc.enable()


def test_deep_graphs_can_be_inspected_in_a_loop_and_freed() -> None:
    source = """
    import gradviz, threading
    def steps():
        for _ in range(2):
            x = torch.ones(1, requires_grad=True)
            for _ in range(200_000 if threading.current_thread() is threading.main_thread() else 20_000):
                x = x + 1
            counts.append(len(gradviz.inspect(x).graph.nodes))
    counts = []
    steps()
    thread = threading.Thread(target=steps)
    thread.start()
    thread.join()
    print(json.dumps(counts))
    """
    assert forked_result(source) == [200_001, 200_001, 20_001, 20_001]


# -- what cannot be inspected --------------------------------------------------------------------------------------


def refusal(*given: Any) -> GradvizError:
    with pytest.raises(GradvizError) as found:
        gradviz.inspect(*given)
    assert "\n" not in str(found.value)
    return found.value


def test_a_model_is_to_be_called_first() -> None:
    net = nn.Linear(3, 1)
    assert "call it first: gradviz.inspect(net(...), model=net)" in str(refusal(net))


def test_what_is_no_model_names_no_parameters() -> None:
    with pytest.raises(BadInput, match="model is an object of type str, not a module"):
        gradviz.inspect(weight(1).sum(), model="net")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((), "was given nothing"),
        ((None,), "was given None"),
        (([],), "there is no tensor in the empty list"),
        (({"loss": 1.5, "name": "x"},), "no tensor in the dict of 2 values (1 float, 1 str)"),
        (("run.gradviz",), "did you mean gradviz.load('run.gradviz')?"),
        ((Path("run.gradviz"),), "did you mean gradviz.load('run.gradviz')?"),
        ((np.ones(3),), "a NumPy ndarray, which has no graph"),
        ((torch.relu,), "calls nothing"),
        ((3.0,), "not an object of type float"),
        ((SimpleNamespace(loss=torch.ones(1)),), "pass one of its tensors: .loss"),
    ],
)
def test_what_holds_no_tensor_is_refused_and_named(given: tuple[Any, ...], words: str) -> None:
    found = refusal(*given)
    assert isinstance(found, BadInput)
    assert words in str(found)


def test_why_a_tensor_has_no_graph_is_said() -> None:
    leaf, data = weight(2), torch.ones(2)
    with torch.no_grad():
        cut = leaf * 2
        assert "gradients are off right now" in str(refusal(cut))
    with torch.inference_mode():
        inferred = data * 2
    for given, words in (
        (leaf, "leaf has no grad_fn: it is a leaf, which no operation made"),
        (cut, "cut has no grad_fn: it was computed under torch.no_grad(), was detached"),
        (leaf.argmax(), "holds int64, of which there are no gradients"),
        (inferred, "was computed under torch.inference_mode()"),
        ([data, leaf], "none of the 2 tensors has a grad_fn"),
    ):
        found = refusal(given)
        assert isinstance(found, NothingRecorded)
        assert words in str(found)
