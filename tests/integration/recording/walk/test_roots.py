"""Where a walk starts: at each tensor that backward was called on, at the value of ``--root``, or at unused results."""

# Much of torch has no types: backward, register_hook, Function.apply.
# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from gradviz.errors import BadInput, NothingRecorded
from gradviz.recording.run.recording_plan import RecordingPlan
from tests.integration.recording.helpers import names_of_nodes, record, recorded_script
from tests.integration.recording.small_graphs import weight

PREAMBLE = """
import dataclasses
from collections import namedtuple
import torch

w = torch.ones(3, requires_grad=True)
hidden = w * 2
loss = hidden.sum()
other = hidden.exp().mean()
"""


def roots_of(folder: Path, expression: str, more: str = "") -> list[tuple[str | None, str]]:
    """Name and node of every root that an expression of a script gives."""
    script = PREAMBLE + more
    (graph,) = recorded_script(folder, script, RecordingPlan(root=expression)).graphs
    return [(root.name, graph.nodes[root.node].name) for root in graph.roots]


def test_every_tensor_given_to_backward_is_a_root() -> None:
    def run() -> None:
        hidden = weight(3) * 2
        first, second = hidden.sum(), hidden.exp()
        torch.autograd.backward([first, second], [None, torch.ones(3)])

    graph = record(run).graph
    assert [(root.name, graph.nodes[root.node].name) for root in graph.roots] == [
        ("first", "SumBackward0"),
        ("second", "ExpBackward0"),
    ]


def test_a_root_has_the_shape_of_its_tensor_and_the_output_of_its_node() -> None:
    w = weight(3)

    def run() -> None:
        _, second = w.unbind(0)[:2]
        torch.autograd.backward([second, w], [torch.ones(()), torch.ones(3)])

    second, leaf = record(run).graph.roots
    assert second.tensor is not None and leaf.tensor is not None
    assert (second.tensor.shape, second.output_nr) == ((), 1)
    assert (leaf.tensor.shape, leaf.output_nr) == ((3,), 0)


def test_outputs_of_grad_are_roots() -> None:
    def run() -> None:
        w = weight(3)
        first, second = (w * 2).sum(), w.exp().sum()
        torch.autograd.grad([first, second], w)

    graph = record(run).graph
    assert [root.name for root in graph.roots] == ["first", "second"]
    assert graph.backward is not None
    assert graph.backward.function == "grad"


def test_a_gradient_edge_is_a_root_without_a_tensor() -> None:
    def run() -> None:
        w = weight(3)
        hidden = (w * 2).sum()
        edge = torch.autograd.graph.get_gradient_edge(hidden)
        torch.autograd.backward((edge,), (torch.tensor(1.0),))

    graph = record(run).graph
    assert [(root.tensor, graph.nodes[root.node].name) for root in graph.roots] == [(None, "SumBackward0")]


def test_a_leaf_as_root_is_its_own_graph() -> None:
    def run() -> None:
        w = weight()
        w.backward()

    graph = record(run).graph
    assert [node.names for node in graph.nodes] == [("w",)]
    assert graph.roots[0].node == 0


def test_roots_have_names_shapes_and_outputs() -> None:
    def run() -> None:
        low, high = (weight(2) * 1).unbind()
        torch.autograd.backward([high])
        assert low.requires_grad

    (root,) = record(run).graph.roots
    assert (root.name, root.output_nr) == ("high", 1)
    assert root.tensor is not None
    assert root.tensor.shape == ()


@pytest.mark.parametrize(
    ("expression", "more", "names"),
    [
        ("loss", "", ["loss"]),
        ("results", "results = [loss, other]", ["results[0]", "results[1]"]),
        ("results[1]", "results = (loss, other)", ["results[1]"]),
        ("out", 'out = {"loss": loss, "aux": [other], "text": "no tensor"}', ["out['loss']", "out['aux'][0]"]),
        ('out["aux"]', 'out = {"aux": other}', ['out["aux"]']),
        ("state", "@dataclasses.dataclass\nclass S:\n    a: object\n\nstate = S(loss)", ["state.a"]),
        ("pair", "pair = namedtuple('Pair', 'left right')(loss, other)", ["pair.left", "pair.right"]),
        (
            "box.inner.loss",
            "class Box: pass\nbox = Box()\nbox.inner = Box()\nbox.inner.loss = loss",
            ["box.inner.loss"],
        ),
    ],
)
def test_a_named_root_may_be_any_structure_of_tensors(
    expression: str, more: str, names: list[str], tmp_path: Path
) -> None:
    assert [name for name, _ in roots_of(tmp_path, expression, more)] == names


def test_every_tensor_of_a_model_output_is_a_root(tmp_path: Path) -> None:
    more = (
        "from transformers.modeling_outputs import SequenceClassifierOutput\n"
        "out = SequenceClassifierOutput(loss=loss, logits=other)\n"
    )
    found = roots_of(tmp_path, "out", more)
    assert [(name or "").replace("['", ".").replace("']", "") for name, _ in found] == ["out.loss", "out.logits"]
    assert [node for _, node in found] == ["SumBackward0", "MeanBackward0"]


def test_what_has_no_graph_in_a_structure_is_left_out(tmp_path: Path) -> None:
    assert roots_of(tmp_path, "mixed", "mixed = [loss.detach(), loss]") == [("mixed[1]", "SumBackward0")]


@pytest.mark.parametrize(
    ("expression", "more", "words"),
    [
        ("lss", "", "did you mean 'loss'"),
        ("out.lgits", "class Out: logits = loss\nout = Out()", "logits"),
        ("out['lost']", "out = {'loss': loss}", "loss"),
        ("number", "number = 3", "not a tensor"),
        ("plain", "plain = torch.ones(2)", "requires grad"),
        ("loss + other", "", "is not a name"),
        ("loss(", "", "is not a name"),
    ],
)
def test_a_root_that_cannot_be_shown_is_refused_in_one_line(
    expression: str, more: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput) as refusal:
        roots_of(tmp_path, expression, more)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_without_backward_the_tensors_that_nothing_was_computed_from_are_roots(tmp_path: Path) -> None:
    (graph,) = recorded_script(tmp_path, PREAMBLE).graphs
    assert [root.name for root in graph.roots] == ["loss", "other"]
    assert graph.backward is None
    assert len(graph.nodes) == 5


def test_unconsumed_results_that_share_a_node_are_one_root_for_each_output(tmp_path: Path) -> None:
    script = "import torch\nlow, high = (torch.ones(2, requires_grad=True) * 1).unbind()\nsame = high\n"
    (graph,) = recorded_script(tmp_path, script).graphs
    assert [(root.name, root.output_nr) for root in graph.roots] == [("low", 0), ("high", 1)]


def test_a_stale_view_is_no_root_and_removes_none(tmp_path: Path) -> None:
    script = """
    import torch
    base = torch.ones(2, 3, requires_grad=True) * 2
    first, second = base.unbind()
    base.add_(1)
    loss = base.sum()
    """
    (graph,) = recorded_script(tmp_path, script).graphs
    assert "loss" in [root.name for root in graph.roots]


def test_a_script_without_any_graph_says_so(tmp_path: Path) -> None:
    with pytest.raises(NothingRecorded):
        recorded_script(tmp_path, "import torch\nx = torch.ones(3)\n")


def test_only_the_wanted_backward_is_recorded(tmp_path: Path) -> None:
    script = """
    import torch
    for power in (1, 2, 3):
        loss = (torch.ones(2, requires_grad=True) ** power).sin().sum()
        loss.backward()
    """
    second = recorded_script(tmp_path, script, RecordingPlan(backward=2))
    assert (second.backward_calls, second.outcome) == (2, "stopped")
    assert second.graphs[0].backward is not None
    assert second.graphs[0].backward.number == 2
    assert second.graphs[0].nodes[1].attributes == {"exponent": 2}
    with pytest.raises(BadInput, match="called backward or grad only 3 times"):
        recorded_script(tmp_path, script, RecordingPlan(backward=4))


def test_recording_all_ends_when_enough_nodes_are_kept(tmp_path: Path) -> None:
    script = """
    import torch
    for _ in range(5):
        torch.ones(2, requires_grad=True).sin().sum().backward()
    """
    plan = RecordingPlan(backward=None, keep_going=True, max_kept_nodes=6)
    capture = recorded_script(tmp_path, script, plan)
    assert len(capture.graphs) == 2
    assert any("limit 6 nodes" in sentence for sentence in capture.disclosures)


def test_recording_of_one_backward_while_the_script_goes_on_leaves_torch_alone() -> None:
    def run() -> Tensor:
        layer = nn.Linear(2, 2)
        for _ in range(3):
            layer(torch.ones(1, 2)).sum().backward()
        assert torch._C._len_torch_function_stack() == 0
        assert layer.weight.grad is not None
        return layer.weight.grad

    recording = record(run, RecordingPlan(backward=2, keep_going=True))
    assert len(recording.capture.graphs) == 1
    assert names_of_nodes(recording.graph).count("AddmmBackward0") == 1
    assert torch.equal(recording.value, torch.full((2, 2), 3.0))
