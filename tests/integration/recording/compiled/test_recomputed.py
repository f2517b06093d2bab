"""What compiled code keeps for backward, and what it computes again instead, against the memory of uncompiled code."""

from __future__ import annotations

from typing import Any

import pytest

from gradviz.recording.torch_access.nodes import SHOWS_SLOTS
from tests.integration.recording.child import forked_result

_RUN = """
import warnings

import msgspec
from torch import nn

from gradviz.analysis.memory.kept_memory import memory_of
from gradviz.analysis.memory.memory_document import memory_document
from gradviz.rendering.reports.memory_report import ReportOptions, memory_report
from gradviz.rendering.words.compiled_tooltips import compiled_lines
from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.view.build import view_of

warnings.simplefilter("ignore")

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(16, 16), nn.LayerNorm(16)

    def forward(self, x):
        h = torch.tanh(self.linear(x))
        h = torch.tanh(h) * torch.sigmoid(h)  # again
        return x + self.norm(h)

def of(backend):
    model = Block()
    net = model if backend is None else torch.compile(model, backend=backend)
    recording = record(lambda: net(torch.randn(64, 16)).sum().backward())
    capture, graph = recording.capture, recording.graph
    document = memory_document(capture, graph)
    results = sum(each.bytes for each in document.storages if each.kind == "intermediate")
    report = memory_report(capture, graph, ReportOptions(width=200))
    facts = SubjectFacts(capture, graph, view_of(graph).view)
    made_into = [(node.name, list(compiled_lines(facts, node))) for node in graph.nodes]
    compiled = msgspec.to_builtins(document.compiled)
    return {"results": results, "compiled": compiled, "report": report, "made into": made_into}

print(json.dumps({str(backend): of(backend) for backend in (None, "aot_eager", "aot_eager_decomp_partition")}))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    result: dict[str, Any] = forked_result(_RUN)
    return result


def test_without_a_partitioner_it_keeps_what_uncompiled_code_keeps(found: dict[str, Any]) -> None:
    assert found["None"]["compiled"] == []
    (compiled,) = found["aot_eager"]["compiled"]
    assert compiled["uncompiled_bytes"] == found["None"]["results"]
    assert compiled["kept_bytes"] == (found["None"]["results"] if SHOWS_SLOTS else None)
    assert SHOWS_SLOTS or "torch does not show which of its results it keeps" in found["aot_eager"]["report"]
    assert compiled["recomputed"] == []
    assert "nothing is computed again in backward" in found["aot_eager"]["report"]


def test_what_a_partitioner_saves_and_what_that_costs_have_their_figures_and_lines(found: dict[str, Any]) -> None:
    one = found["aot_eager_decomp_partition"]
    (compiled,) = one["compiled"]
    assert compiled["uncompiled_bytes"] == found["None"]["results"]
    if SHOWS_SLOTS:
        assert compiled["kept_bytes"] == one["results"] < found["None"]["results"]
    again = {name: count for line in compiled["recomputed"] for name, count in line["operations"].items()}
    assert again["sigmoid"] == 1
    assert again["tanh"] >= 1
    operations = sum(sum(line["operations"].values()) for line in compiled["recomputed"])
    assert f"{operations} operations computed again in backward" in one["report"]


def test_an_operation_says_what_of_it_is_computed_again_and_what_its_backward_was_compiled_into(
    found: dict[str, Any],
) -> None:
    plain, whole, divided = (
        dict(found[backend]["made into"]) for backend in ("None", "aot_eager", "aot_eager_decomp_partition")
    )
    assert not any(plain.values())
    assert whole["NativeLayerNormBackward0"] == ["its backward was compiled into: native_layer_norm_backward"]
    assert whole["SigmoidBackward0"] == ["its backward was compiled into: sigmoid_backward"]
    again, into = divided["SigmoidBackward0"]
    assert again == "computed again in backward: sigmoid"
    assert "mul" in into
    assert "sigmoid_backward" not in into, "divided into smaller operators"
