"""Which line is to blame for a missing gradient; cuts without a missing gradient are not blamed."""

from __future__ import annotations

import warnings
from pathlib import Path
from textwrap import dedent, indent

import pytest

from gradviz.analysis.case import Case
from gradviz.analysis.check.checker import check_case
from gradviz.analysis.check.marked_findings import with_findings
from gradviz.analysis.finding import Finding
from gradviz.analysis.rules import RULES
from gradviz.capture.capture import Capture
from gradviz.recording.run.program import find_script
from gradviz.recording.run.recording_plan import RecordingPlan
from gradviz.recording.script_runner import run

BEGINNING = """\
import numpy as np
import torch
from torch import nn
torch.manual_seed(0)
body, head = nn.Linear(4, 4), nn.Linear(4, 2)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
for step in range(2):
    x = torch.randn(6, 4)
"""
END = """\
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def findings_in(middle: str, folder: Path, beginning: str = BEGINNING, end: str = END) -> list[Finding]:
    """The findings of `check` for a training whose step is `middle`."""
    found = check_case(Case(recorded(middle, folder, beginning, end)), RULES).findings
    return [finding for finding in found if finding.is_alarm]


def recorded(middle: str, folder: Path, beginning: str = BEGINNING, end: str = END) -> Capture:
    """That training, with every call of torch."""
    script = folder / "train.py"
    script.write_text(beginning + indent(dedent(middle).strip("\n"), "    ") + "\n" + end)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Torch's own, on what the script does wrong.
        return run(
            find_script(str(script)), (), RecordingPlan(backward=None, keep_going=True, calls=True, for_pictures=False)
        ).capture


CUTS = {
    "leaf made of a result": ("detached", "loss = head(body(x).detach().requires_grad_()).square().mean()"),
    "whole loss": ("detached", "loss = head(body(x)).square().mean().detach().requires_grad_()"),
    "gradients kept off": (
        "no_grad_block",
        "with torch.set_grad_enabled(step > 5):\n    h = body(x)\nloss = head(h).square().mean()",
    ),
    "weight itself": (
        "no_grad_block",
        "with torch.no_grad():\n    w = body.weight * 2\nloss = head(x @ w + body.bias).square().mean()",
    ),
    "data": ("data_access", "loss = head(torch.tanh(body(x).data)).square().mean()"),
    "array in between": (
        "numpy_roundtrip",
        "h = np.sort(body(x).detach().numpy())\nloss = head(torch.from_numpy(h)).square().mean()",
    ),
    "array in the same memory": (
        "numpy_roundtrip",
        "h = body(x).data.numpy()\nloss = head(torch.from_numpy(h)).square().mean()",
    ),
    "NumPy's function on a tensor": ("numpy_roundtrip", "loss = head(np.tanh(body(x).detach())).square().mean()"),
    "tensor of a tensor": ("tensor_rewrap", "loss = head(torch.tensor(body(x), requires_grad=True)).square().mean()"),
    "number in between": ("tensor_rewrap", "scale = body(x).mean().item()\nloss = head(x * scale).square().mean()"),
    "list": ("tensor_rewrap", "rows = body(x).tolist()\nloss = head(torch.tensor(rows)).square().mean()"),
    "old constructor": ("tensor_rewrap", "h = [float(v) for v in body(x[0])]\nloss = head(torch.FloatTensor(h)).sum()"),
    "largest entry": ("non_differentiable_op", "loss = head(x[body(x).argmax(1)]).square().mean()"),
    "threshold": ("non_differentiable_op", "loss = (head(x) * (body(x)[:, :2] > 0).float()).square().mean()"),
    "draw": ("non_differentiable_op", "h = torch.distributions.Normal(body(x), 1.0).sample()\nloss = head(h).sum()"),
    "choice of what runs": (
        "non_differentiable_op",
        "best = body(x[0]).argmax().item()\nloss = [head, head, head, head][best](x).square().mean()",
    ),
    "cast": ("integer_cast", "loss = head(body(x).mul(9).long().float()).square().mean()"),
    "bounds of a slice": ("integer_cast", "n = int(body(x).abs().mean()) + 2\nloss = head(x[:n]).square().mean()"),
}


@pytest.mark.parametrize("name", CUTS)
def test_the_line_that_cuts_is_named_with_its_cause(name: str, tmp_path: Path) -> None:
    cause, middle = CUTS[name]
    first = findings_in(middle, tmp_path)[0]
    assert (first.cause, first.location is not None and first.location.line) == (cause, 9)
    assert "body.weight" in first.tensors


REPLACED_LEAF = """\
import torch
weight = torch.ones(3, requires_grad=True)
for step in range(2):
"""


def test_where_values_are_beside_the_index_the_remedy_is_to_use_them(tmp_path: Path) -> None:
    middle = "_, best = body(x).topk(2, dim=1)\nloss = head(torch.zeros(6, 4).scatter(1, best, 0.5)).square().mean()"
    finding = findings_in(middle, tmp_path)[0]
    assert "the index that topk returns has no derivative" in finding.message
    assert "the values that topk returns beside the index" in finding.fix


def test_who_replaced_a_leaf_by_its_new_value_is_told_to_write_into_it(tmp_path: Path) -> None:
    middle = (
        "loss = weight.square().sum()\nloss.backward()\nwith torch.no_grad():\n    weight = weight - 0.1 * weight.grad"
    )
    finding = findings_in(middle, tmp_path, REPLACED_LEAF, "")[0]
    assert (finding.cause, finding.symptom) == ("no_grad_block", "raises")
    assert "weight.copy_(...)" in finding.fix


HEALTHY = {
    "straight through": "h = body(x)\nloss = head(h + (h.sign() - h).detach()).square().mean()",
    "target": "with torch.no_grad():\n    y = head(body(x)).exp()\nloss = (head(body(x)) - y).square().mean()",
    "other side of a pair": "a, b = body(x), body(x + 1)\nloss = (head(a) - head(b).detach()).square().mean()",
    "metric": "out = head(body(x))\nloss = out.square().mean()\nprint((out.argmax(1) == 0).float().mean().item())",
    "weight of a term": "out = head(body(x))\nloss = out.square().mean() * out.detach().abs().max().item()",
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_cut_without_a_missing_gradient_is_not_blamed(name: str, tmp_path: Path) -> None:
    assert findings_in(HEALTHY[name], tmp_path) == []


def test_a_target_network_is_not_missing_gradients_if_another_model_is_trained_by_hand(tmp_path: Path) -> None:
    beginning = BEGINNING.replace("optimizer = ", "# ")
    middle = "with torch.no_grad():\n    y = body(x)[:, :2]\nloss = (head(x) - y).square().mean()"
    end = """\
    loss.backward()
    with torch.no_grad():
        for p in head.parameters():
            p -= 0.1 * p.grad
            p.grad = None
"""
    assert findings_in(middle, tmp_path, beginning, end) == []


def test_without_anything_that_trains_a_missing_gradient_is_a_warning(tmp_path: Path) -> None:
    beginning = BEGINNING.replace("optimizer = ", "# ")
    (finding,) = findings_in("loss = head(body(x).detach()).sum()", tmp_path, beginning, "    loss.backward()\n")
    assert (finding.cause, finding.severity) == ("detached", "warning")


def test_a_refused_backward_is_explained_by_what_cut_the_loss_off(tmp_path: Path) -> None:
    (finding, *_) = findings_in("out = head(body(x))\nloss = out.argmax(1).float().mean()", tmp_path)
    assert (finding.cause, finding.symptom) == ("non_differentiable_op", "raises")
    assert finding.location is not None and finding.symptom_location is not None
    assert (finding.location.line, finding.symptom_location.line) == (10, 12)
    assert finding.path[:2] == ("body.weight", "cut: argmax (line 10)")
    assert finding.path[-1] == "loss"


TAKEN_IN_NO_GRAPH = {"choice of what runs", "bounds of a slice"}
"""These only decide what is computed: no node uses their results."""


@pytest.mark.parametrize("name", [name for name in CUTS if name not in TAKEN_IN_NO_GRAPH])
def test_the_node_that_used_the_result_of_the_cut_is_known(name: str, tmp_path: Path) -> None:
    first = findings_in(CUTS[name][1], tmp_path)[0]
    assert first.cut is not None
    in_graphs = [each.at.graph for each in first.cut.inputs]
    assert in_graphs in ([0], [0, 1]), "one in each step, as far as values are not guessed to be the same"
    assert first.nodes == tuple(each.at for each in first.cut.inputs[:1])


def test_every_node_that_used_it_is_reported_with_its_constant(tmp_path: Path) -> None:
    middle = "h = body(x).detach()\nloss = (head(x) + torch.tanh(h)[:, :2]).mean() + head(h).mean()"
    (finding,) = findings_in(middle, tmp_path)
    assert finding.cut is not None
    first_step = [each for each in finding.cut.inputs if each.at.graph == 0]
    assert finding.nodes == tuple(each.at for each in first_step)
    assert len({each.constant for each in first_step} - {None}) == 2


def test_a_line_that_cuts_several_times_lists_the_tensors_of_each_cut(tmp_path: Path) -> None:
    middle = "loss = x.sum()\nfor layer in (body, head):\n    loss = loss + layer(x).detach().sum() + layer.bias.sum()"
    (finding,) = findings_in(middle, tmp_path)
    assert finding.tensors == ("body.weight", "head.weight")
    assert finding.cut is not None
    assert [each.tensors for each in finding.cut.inputs if each.at.graph == 0] == [("body.weight",), ("head.weight",)]


def test_a_corrected_line_is_proposed_if_it_is_certain(tmp_path: Path) -> None:
    (finding,) = findings_in("loss = (head(x) + body(x).detach()[:, :2]).square().mean()", tmp_path)
    assert finding.changed_line == "    loss = (head(x) + body(x)[:, :2]).square().mean()"


def test_values_that_leave_torch_after_they_were_computed_with_are_no_part_of_the_first_cut(tmp_path: Path) -> None:
    middle = "h = body(x).detach().requires_grad_()\nloss = torch.tensor(head(h).sum().item(), requires_grad=True)"
    found = {finding.tensors[0]: finding.cause for finding in findings_in(middle, tmp_path)}
    assert (found["body.weight"], found["head.weight"]) == ("detached", "tensor_rewrap")


def test_a_draw_is_the_cut_and_not_what_prepares_it(tmp_path: Path) -> None:
    finding = findings_in(CUTS["draw"][1], tmp_path)[0]
    assert finding.evidence["cut"] == "torch.normal"


REFUSED = {
    "under no_grad": (
        "h = body(x).relu()\nwith torch.no_grad():\n    out = head(h)\nloss = out.square().mean()",
        ("linear under no_grad", ("h",), ("head.weight", "head.bias"), ("square", "mean")),
    ),
    "as a number": (
        "out = head(body(x))\nloss = torch.tensor([each.sum().item() for each in out]).mean()",
        ("item", ("out",), (), ("tensor", "mean")),
    ),
    "freed": (
        "loss = head(body(x)).detach().mean()",
        ("detach", (), ("body.weight", "body.bias", "head.weight", "head.bias"), ("mean",)),
    ),
    "frozen": (
        "for p in optimizer.param_groups[0]['params']: p.requires_grad_(False)\nloss = head(body(x)).mean()",
        ("requires_grad=False", (), ("body.weight", "body.bias", "head.weight", "head.bias"), ()),
    ),
}
"""Each with the cut, the nodes before it, tensors without a gradient that are in no graph, and the calls after it."""


@pytest.mark.parametrize("name", REFUSED)
def test_where_backward_is_refused_the_graph_shows_what_is_left_before_the_cut(name: str, tmp_path: Path) -> None:
    middle, wanted = REFUSED[name]
    capture = recorded(middle, tmp_path)
    findings = check_case(Case(capture), RULES).findings
    (graph,) = with_findings(capture, findings).graphs
    assert [root.name for root in graph.refused] == ["loss"]
    assert graph.roots == ()
    assert graph.backward is not None and graph.backward.number == 1
    (cut_edge,) = graph.cut_edges
    held = tuple(name for node in cut_edge.sources for name in graph.nodes[node].names)
    assert (cut_edge.cut, held, cut_edge.tensors, cut_edge.path) == wanted
    assert (cut_edge.node, cut_edge.refused) == (None, 0)


def test_refused_calls_that_the_program_goes_on_after_are_graphs_of_their_own_step(tmp_path: Path) -> None:
    end = "    try:\n        loss.backward()\n    except RuntimeError:\n        pass\n"
    capture = recorded("out = head(body(x))\nloss = out.detach().mean()", tmp_path, end=end)
    assert [len(graph.refused) for graph in capture.graphs] == [1, 1]
    first, second = ({node.sequence_nr for node in graph.nodes} - {None} for graph in capture.graphs)
    assert first and second and first.isdisjoint(second)


FUSED = """\
import torch
from torch import nn
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True, norm_first=True)
encoder, head = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval(), nn.Linear(4, 2)
prompt = nn.Parameter(torch.randn(1, 3, 4))
"""


@pytest.mark.parametrize(
    ("beginning", "starved"),
    [
        ("encoder.requires_grad_(False)\noptimizer = torch.optim.SGD([prompt, *head.parameters()], lr=0.1)", "prompt"),
        (
            "prompt.requires_grad_(False)\n"
            "optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)",
            "encoder.layers.0.norm1.weight",
        ),
    ],
    ids=["what goes in", "its own weights"],
)
def test_a_layer_that_runs_one_fused_kernel_without_gradients_cuts(
    beginning: str, starved: str, tmp_path: Path
) -> None:
    middle = "with torch.no_grad():\n    h = encoder(prompt)\nloss = head(h).square().mean()"
    finding = findings_in(middle, tmp_path, FUSED + beginning + "\nfor step in range(3):\n")[0]
    assert finding.cause == "no_grad_block"
    assert starved in finding.tensors
    assert "TransformerEncoder under no_grad cuts the path back" in finding.message


def test_a_layer_that_runs_one_fused_kernel_may_compute_features(tmp_path: Path) -> None:
    beginning = FUSED + "optimizer = torch.optim.SGD(head.parameters(), lr=0.1)\nfor step in range(3):\n"
    middle = "with torch.no_grad():\n    h = encoder(torch.randn(2, 3, 4))\nloss = head(h).square().mean()"
    assert findings_in(middle, tmp_path, beginning) == []


WITHOUT_DERIVATIVE = {
    "floor division": ("", "h = body(x) // 0.1"),
    "operator without a formula": (
        "@torch.library.custom_op('gradviz_test::twice', mutates_args=())\n"
        "def twice(x: torch.Tensor) -> torch.Tensor:\n    return x * 2\n",
        "h = twice(body(x))",
    ),
}


@pytest.mark.parametrize("name", WITHOUT_DERIVATIVE)
def test_an_operation_through_which_backward_raises_is_told(name: str, tmp_path: Path) -> None:
    before, cut = WITHOUT_DERIVATIVE[name]
    beginning = BEGINNING.replace("for step", before + "for step")
    finding = findings_in(f"{cut}\nloss = head(h).square().mean()", tmp_path, beginning)[0]
    assert (finding.cause, finding.symptom) == ("non_differentiable_op", "raises")
    line = next(n for n, text in enumerate((tmp_path / "train.py").read_text().splitlines(), 1) if cut in text)
    assert finding.location is not None and finding.location.line == line
