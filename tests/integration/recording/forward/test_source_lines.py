"""Which line made a node, which lines called that line, and in which module call this happened."""

# Much of torch has no types: backward, register_hook, Function.apply.
# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from gradviz.capture.capture import Capture
from gradviz.graph.model import Graph
from tests.integration.recording.helpers import (
    call_site,
    line_of,
    node_named,
    nodes_named,
    record,
    recorded_script,
    scope_of,
    stack_of,
)
from tests.integration.recording.small_graphs import weight

SCRIPT = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        hidden = self.linear(x)
        return activation(
            hidden
        )


def activation(x):
    return x.tanh()


model = nn.Sequential(Block(), Block())
loss = model(torch.ones(1, 3)).sum()
(loss * 2).backward()
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Capture, Graph]:
    """A small script with two blocks."""
    capture = recorded_script(tmp_path_factory.mktemp("script"), SCRIPT)
    return capture, capture.graphs[0]


def test_a_node_knows_the_line_that_made_it(run: tuple[Capture, Graph]) -> None:
    capture, graph = run
    for node in nodes_named(graph, "TanhBackward0"):
        assert line_of(capture, graph, node) == "return x.tanh()"
        assert call_site(graph, node).function == "activation"
    assert line_of(capture, graph, node_named(graph, "MulBackward0")) == "(loss * 2).backward()"


def test_the_lines_above_lead_to_the_scripts_top(run: tuple[Capture, Graph]) -> None:
    capture, graph = run
    stack = stack_of(graph, nodes_named(graph, "TanhBackward0")[1])
    lines = [capture.sources[site.file][site.line].strip() for site in stack]
    assert lines == ["return x.tanh()", "return activation(", "loss = model(torch.ones(1, 3)).sum()"]
    assert [site.function for site in stack] == ["activation", "Block.forward", "<module>"]


def test_neither_lines_of_torch_nor_of_gradviz_are_shown(run: tuple[Capture, Graph]) -> None:
    capture, graph = run
    assert {Path(site.file).name for site in graph.call_sites} == {"train.py"}
    assert not any(site.is_library for site in graph.call_sites)
    assert set(capture.sources) == {site.file for site in graph.call_sites}


def test_lines_around_the_users_own_are_kept_and_those_far_away_are_not(tmp_path: Path) -> None:
    before, after = [f"before = {number}" for number in range(30)], [f"after = {number}" for number in range(30)]
    used = ["import torch", "x = torch.ones(2, requires_grad=True)", "x.sum().backward()"]
    capture = recorded_script(tmp_path, "\n".join([*before, *used, *after]))
    (lines,) = capture.sources.values()
    assert list(lines.values()) == [*before[-8:], *used, *after[:10]]


def test_backward_knows_its_own_line(run: tuple[Capture, Graph]) -> None:
    capture, graph = run
    assert graph.backward is not None
    assert graph.backward.call_site is not None
    site = graph.call_sites[graph.backward.call_site]
    assert capture.sources[site.file][site.line] == "(loss * 2).backward()"


def test_a_node_knows_the_module_call_in_which_it_was_made(run: tuple[Capture, Graph]) -> None:
    _, graph = run
    assert [scope_of(graph, node) for node in nodes_named(graph, "TanhBackward0")] == ["model.0", "model.1"]
    assert [scope_of(graph, node) for node in nodes_named(graph, "AddmmBackward0")] == [
        "model.0.linear",
        "model.1.linear",
    ]
    assert scope_of(graph, node_named(graph, "SumBackward0")) is None


def test_module_calls_lie_in_one_another(run: tuple[Capture, Graph]) -> None:
    _, graph = run
    node = nodes_named(graph, "AddmmBackward0")[1]
    assert node.scope is not None
    inner = graph.scopes[node.scope]
    assert inner.parent is not None
    middle = graph.scopes[inner.parent]
    assert middle.parent is not None
    outer = graph.scopes[middle.parent]
    assert [scope.class_name for scope in (inner, middle, outer)] == ["Linear", "Block", "Sequential"]
    assert [scope.parameter_count for scope in (inner, middle, outer)] == [12, 12, 24]
    assert outer.parent is None


def test_a_module_that_is_called_twice_has_two_scopes() -> None:
    def twice() -> None:
        layer = nn.Linear(2, 2)
        layer(layer(torch.ones(1, 2))).sum().backward()

    graph = record(twice).graph
    assert [(scope.path, scope.call) for scope in graph.scopes] == [("layer", 0), ("layer", 1)]


def test_each_call_in_a_loop_has_the_line_of_its_own_caller() -> None:
    def helper(x: Tensor) -> Tensor:
        return x.sin()

    def run() -> None:
        x = weight(2)
        x = helper(x)
        x = helper(x)
        x.sum().backward()

    recording = record(run)
    callers = [stack_of(recording.graph, node)[1].line for node in nodes_named(recording.graph, "SinBackward0")]
    assert callers[1] == callers[0] + 1


def test_lines_inside_a_module_differ_for_each_place_that_calls_it() -> None:
    """The stack above a module call is read once for each call of it, not once for all."""
    layer = nn.Tanh()

    def run() -> None:
        x = layer(weight(2))
        x = layer(x)
        x.sum().backward()

    recording = record(run)
    lines = [line_of(recording.capture, recording.graph, n) for n in nodes_named(recording.graph, "TanhBackward0")]
    assert lines == ["x = layer(weight(2))", "x = layer(x)"]


def test_a_library_line_is_marked_and_the_users_own_is_its_caller() -> None:
    from transformers.activations import NewGELUActivation

    def run() -> None:
        NewGELUActivation()(weight(2)).sum().backward()

    graph = record(run).graph
    innermost, *above = stack_of(graph, node_named(graph, "TanhBackward0"))
    assert innermost.is_library
    assert not above[0].is_library
    assert Path(above[0].file).name == Path(__file__).name


def test_later_nodes_are_not_assigned_to_a_module_that_raised() -> None:
    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise ValueError

    def run() -> None:
        broken, layer = Broken(), nn.Tanh()
        with pytest.raises(ValueError):
            broken(weight(2))
        layer(weight(2)).sum().backward()

    graph = record(run).graph
    assert [scope.path for scope in graph.scopes] == ["layer"]
    assert scope_of(graph, node_named(graph, "SumBackward0")) is None


def test_later_nodes_are_not_assigned_to_a_module_call_that_ctrl_c_ended() -> None:
    class Slow(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise KeyboardInterrupt

    def run() -> None:
        slow, layer = nn.Sequential(Slow()), nn.Tanh()
        with pytest.raises(KeyboardInterrupt):
            slow(weight(2))
        layer(weight(2)).sum().backward()

    recording = record(run)
    graph = recording.graph
    assert [scope.path for scope in graph.scopes] == ["layer"]
    assert scope_of(graph, node_named(graph, "SumBackward0")) is None
    assert line_of(recording.capture, graph, node_named(graph, "TanhBackward0")) == "layer(weight(2)).sum().backward()"


def test_a_module_call_that_ctrl_c_ended_inside_another_ends_with_that_one() -> None:
    class Slow(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise KeyboardInterrupt

    class Patient(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.slow, self.quick = Slow(), nn.Tanh()

        def forward(self, x: Tensor) -> Tensor:
            with pytest.raises(KeyboardInterrupt):
                self.slow(x)
            return self.quick(x) * 2

    def run() -> None:
        model = Patient()
        model(weight(2)).sum().backward()

    recording = record(run)
    graph = recording.graph
    assert scope_of(graph, node_named(graph, "TanhBackward0")) == "model.quick"
    assert scope_of(graph, node_named(graph, "MulBackward0")) == "model"
    lines = [
        recording.capture.sources[site.file][site.line].strip()
        for site in stack_of(graph, node_named(graph, "TanhBackward0"))[:2]
    ]
    assert lines[0].startswith("return self.quick(x) * 2")
    assert lines[1] == "model(weight(2)).sum().backward()"


def test_a_method_that_is_no_forward_call_belongs_to_no_module() -> None:
    class Net(nn.Module):
        def embed(self, x: Tensor) -> Tensor:
            return x.sin()

    graph = record(lambda: Net().embed(weight(2)).sum().backward()).graph
    assert scope_of(graph, node_named(graph, "SinBackward0")) is None


def test_gpt2_modules_are_named_from_the_variable_that_holds_the_model(tmp_path: Path) -> None:
    capture = recorded_script(
        tmp_path,
        """
        import torch
        from transformers import GPT2Config, GPT2LMHeadModel

        config = GPT2Config(n_layer=2, n_embd=8, n_head=2, n_positions=8, vocab_size=11, bos_token_id=0, eos_token_id=0)
        model = GPT2LMHeadModel(config)
        tokens = torch.zeros(1, 4, dtype=torch.long)
        out = model(input_ids=tokens, labels=tokens)
        out.loss.backward()
        """,
    )
    (graph,) = capture.graphs
    assert graph.roots[0].name in {"out['loss']", "out.loss"}
    assert {"model.transformer.h.0.attn", "model.transformer.h.1.mlp"} <= {scope.path for scope in graph.scopes}
    (tied,) = [node.names for node in graph.nodes if "model.lm_head.weight" in node.names]
    assert "model.transformer.wte.weight" in tied
    attention = node_named_in(graph, "model.transformer.h.0.attn")
    assert attention.forward_call is not None
    assert stack_of(graph, attention)[0].is_library
    assert stack_of(graph, attention)[-1].file.endswith("train.py")
    assert len(graph.scopes) == len({(scope.path, scope.call) for scope in graph.scopes})


def node_named_in(graph: Graph, path: str):  # type: ignore[no-untyped-def]
    """Any node made directly in the module of this path."""
    return next(node for node in graph.nodes if scope_of(graph, node) == path)


def test_code_that_a_library_wrote_to_a_file_is_not_the_users(tmp_path: Path) -> None:
    file = tmp_path / "generated_7f3a.py"
    file.write_text("def double(x):\n    return x * 2\n")
    spec = spec_from_file_location("pytest.generated", file)  # torch_geometric names its modules so
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["pytest.generated"] = module
    try:
        spec.loader.exec_module(module)
        recording = record(lambda: module.double(weight(3)).sum().backward())
        node = node_named(recording.graph, "MulBackward0")
        sites = stack_of(recording.graph, node)
        assert [(Path(site.file).name, site.is_library) for site in sites[:2]] == [
            ("generated_7f3a.py", True),
            ("test_source_lines.py", False),
        ]
    finally:
        del sys.modules["pytest.generated"]
