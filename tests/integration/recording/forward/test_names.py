"""Names that the user gave: variables, parameters, buffers, and what is frozen or tied."""

# Much of torch has no types: backward, register_hook, Function.apply.
# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gradviz.graph.model import HeldTensor
from gradviz.recording.forward.tensor_names import NameTable
from tests.integration.recording.helpers import (
    constants_of,
    leaf_named,
    node_named,
    nodes_named,
    record,
    recorded_script,
)
from tests.integration.recording.small_graphs import weight


class Net(nn.Module):
    """Two layers that share their weight, a buffer, and a frozen parameter."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.register_buffer("scale", torch.ones(3))
        self.shift = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.second(self.first(x).relu())
        return hidden * self.scale + self.shift


def run_net() -> None:
    net, x, y = Net(), torch.ones(2, 3), torch.zeros(2, 3)
    y_hat = net(x)
    loss = F.mse_loss(y_hat, y)
    loss.backward()


def test_variables_name_the_results_that_they_hold() -> None:
    graph = record(run_net).graph
    assert node_named(graph, "MseLossBackward0").names == ("loss",)
    assert graph.nodes[node_named(graph, "MseLossBackward0").id - 1].names == ("y_hat",)
    assert graph.roots[0].name == "loss"


def test_parameters_have_their_dotted_names_and_tied_ones_all_of_them() -> None:
    graph = record(run_net).graph
    parameters = {node.names for node in graph.nodes if node.kind == "parameter"}
    assert parameters == {
        ("net.first.weight", "net.second.weight"),
        ("net.first.bias",),
        ("net.second.bias",),
    }


def test_inputs_that_need_no_gradient_have_kinds_and_names() -> None:
    graph = record(run_net).graph
    first = next(node for node in nodes_named(graph, "AddmmBackward0"))
    assert constants_of(graph, first) == [("data", ("x",))]
    assert constants_of(graph, node_named(graph, "MulBackward0")) == [("buffer", ("net.scale",))]
    assert constants_of(graph, node_named(graph, "AddBackward0")) == [("parameter", ("net.shift",))]
    assert constants_of(graph, node_named(graph, "MseLossBackward0")) == [("data", ("y",))]


def test_every_parameter_of_a_module_that_ran_is_listed_also_if_frozen() -> None:
    parameters = record(run_net).capture.parameters
    assert {parameter.names: parameter.requires_grad for parameter in parameters} == {
        ("net.shift",): False,
        ("net.first.weight", "net.second.weight"): True,
        ("net.first.bias",): True,
        ("net.second.bias",): True,
    }


def test_a_tensor_in_two_variables_has_both_names() -> None:
    def run() -> None:
        w = weight(3)
        hidden = w * 2
        kept = hidden  # noqa: F841
        hidden.sum().backward()

    assert set(node_named(record(run).graph, "MulBackward0").names) == {"hidden", "kept"}


def test_a_variable_that_was_rebound_names_only_what_it_holds_now() -> None:
    def run() -> None:
        x = weight(3)
        x = x * 2
        x = x.sin()
        x.sum().backward()

    graph = record(run).graph
    assert [node.names for node in graph.nodes] == [(), (), ("x",), ()]


def test_the_status_of_leaves_and_results_is_kept() -> None:
    def run() -> None:
        w, used = weight(3), weight(3)
        used.grad = torch.ones(3)
        kept = w * used
        kept.retain_grad()
        kept.sum().backward()

    graph = record(run).graph
    assert leaf_named(graph, "w").held == (HeldTensor(("w",), is_leaf=True),)
    assert leaf_named(graph, "used").held == (HeldTensor(("used",), is_leaf=True, has_grad=True),)
    assert node_named(graph, "MulBackward0").held == (HeldTensor(("kept",), retains_grad=True),)


def test_several_outputs_of_one_node_keep_their_names_apart() -> None:
    def run() -> None:
        low, high = (weight(2) * 1).unbind()
        (low * high).backward()

    held = node_named(record(run).graph, "UnbindBackward0").held
    assert {(tensor.names, tensor.output_nr) for tensor in held} == {(("low",), 0), (("high",), 1)}


def test_names_are_found_in_containers_and_on_self() -> None:
    @dataclass
    class State:
        hidden: Tensor

    class Trainer:
        def step(self) -> None:
            self.loss = weight(3).sum()
            self.loss.backward()

    def run() -> None:
        parts, state = {"a": weight(1)}, State(weight(1))
        results = [parts["a"] * 2, state.hidden * 3]
        torch.cat(results).sum().backward()

    graph = record(run).graph
    assert [leaf_named(graph, name).kind for name in ("parts['a']", "state.hidden")] == ["input", "input"]
    assert [node.names for node in nodes_named(graph, "MulBackward0")] == [("results[0]",), ("results[1]",)]
    assert record(Trainer().step).graph.roots[0].name == "self.loss"


def test_a_tensor_among_many_numbers_of_a_list_or_dict_is_named() -> None:
    def run() -> None:
        losses: list[float | Tensor] = [0.5] * 900
        figures = {"losses": losses, "rates": [0.1] * 900}  # noqa: F841
        losses.append(weight(2).sum())
        losses[-1].backward()  # type: ignore[union-attr]

    assert record(run).graph.roots[0].name == "losses[900]"


def test_a_parameter_outside_any_module_is_named_by_its_variable() -> None:
    def run() -> None:
        bias = nn.Parameter(torch.ones(3))
        bias.sum().backward()

    assert leaf_named(record(run).graph, "bias").kind == "parameter"


def test_parameters_of_a_functional_call_are_named_as_the_variables_that_hold_them() -> None:
    def run() -> None:
        layer = nn.Linear(2, 2)
        replaced = {"weight": weight(2, 2), "bias": weight(2)}
        torch.func.functional_call(layer, replaced, torch.ones(1, 2)).sum().backward()

    graph = record(run).graph
    assert leaf_named(graph, "replaced['weight']").kind == "input"


def test_a_model_that_only_a_function_of_the_script_holds_is_named_after_its_variable(tmp_path: Path) -> None:
    capture = recorded_script(
        tmp_path,
        """
        import torch

        def main():
            network = torch.nn.Linear(2, 1)
            loss = network(torch.ones(1, 2)).sum()
            loss.backward()

        main()
        """,
    )
    (graph,) = capture.graphs
    assert leaf_named(graph, "network.weight").kind == "parameter"


def test_layers_of_a_list_are_named_by_index_not_by_the_variable_of_the_loop(tmp_path: Path) -> None:
    capture = recorded_script(
        tmp_path,
        """
        import torch

        blocks = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)])
        hidden = torch.ones(1, 2)
        for block in blocks:
            hidden = block(hidden)
        hidden.sum().backward()
        """,
    )
    (graph,) = capture.graphs
    assert [scope.path for scope in graph.scopes] == ["blocks.0", "blocks.1"]


def test_a_variable_whose_view_is_stale_removes_no_graph() -> None:
    """torch refuses even to look at such a view, but only the view is broken."""

    def run() -> None:
        base = weight(2, 3) * 2
        first, second = base.unbind()  # noqa: RUF059
        base.add_(1)
        loss = base.sum()
        loss.backward()

    graph = record(run).graph
    assert graph.roots[0].name == "loss"
    assert node_named(graph, "AddBackward0").names == ("base",)


def test_data_that_is_passed_on_in_another_shape_keeps_its_name() -> None:
    labels, frozen, scores = (
        torch.tensor([[0, 1], [2, 0]]),
        nn.Linear(3, 4, bias=False).requires_grad_(False),
        weight(4, 3),
    )

    def run() -> None:
        hidden = scores @ frozen.weight.t()
        loss = nn.functional.cross_entropy(hidden, labels.view(-1))
        (loss + nn.functional.mse_loss(hidden[:2, 0], labels[0].float())).backward()

    graph = record(run).graph
    assert constants_of(graph, node_named(graph, "MmBackward0")) == [("parameter", ("frozen.weight",))]
    assert constants_of(graph, node_named(graph, "NllLossBackward0")) == [("data", ("labels",))]
    assert constants_of(graph, node_named(graph, "MseLossBackward0")) == [("data", ("labels[0].float()",))]


def test_a_parameter_of_a_module_has_no_name_of_a_loop_beside_it(tmp_path: Path) -> None:
    capture = recorded_script(
        tmp_path,
        """
        import torch

        net = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for param_group in optimizer.param_groups:
            for p in param_group["params"]:
                p.requires_grad_(True)
        everything = list(net.parameters())
        for _, each in net.named_parameters():
            pass
        net(torch.ones(1, 2)).sum().backward()
        """,
    )
    (graph,) = capture.graphs
    assert {leaf.names for leaf in graph.leaves} == {("net.weight",), ("net.bias",)}


def test_a_tensor_in_an_object_of_the_program_is_named_by_its_attribute(tmp_path: Path) -> None:
    capture = recorded_script(
        tmp_path,
        """
        import torch

        class Model:
            def __init__(self):
                self.w = torch.ones(2, requires_grad=True)

            def loss(self, x):
                _ = self.w * x
                loss = _.sum()
                loss.backward()

        model = Model()
        model.loss(torch.ones(2))
        """,
    )
    (graph,) = capture.graphs
    assert [leaf.names[0] for leaf in graph.leaves] == ["model.w"]
    assert [name for node in graph.nodes for name in node.names if name == "_"] == []


def test_of_a_long_container_the_first_values_are_named_and_other_variables_are_not_affected() -> None:
    names = NameTable(max_looks=4)
    transitions = [(torch.zeros(2), torch.zeros(2)) for _ in range(9)]
    state = torch.zeros(2)
    names.add_namespace({"transitions": transitions, "state": state})
    assert names.variables_of(transitions[0][1]) == ("transitions[0][1]",)
    assert names.variables_of(transitions[8][0]) == ()
    assert names.variables_of(state) == ("state",)
