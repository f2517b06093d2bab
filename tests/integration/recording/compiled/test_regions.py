"""A compiled region opens into the operations that were compiled, as in the same model without compiling."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from gradviz.recording.torch_access.nodes import SHOWS_SLOTS
from tests.integration.recording.child import forked_result
from tests.shared_runs import SharedFolders

Found = dict[str, dict[str, Any]]

NAMES = (
    "whole",
    "breaking",
    "changing",
    "listed",
    "checkpointed",
    "custom",
    "repeated_blocks",
    "autocast",
    "sigmoids",
    "data",
)

UNMEASURED = "the gradients between the "
OTHER_NODES = "forward() traced again makes other autograd nodes"
TORCH = tuple(map(int, torch.__version__.split(".")[:2]))

_RUN = """
import logging
import warnings

logging.disable(logging.WARNING)
warnings.filterwarnings("ignore", "Skipping serialization of")  # torch 2.6 has no words for its own settings
import torch._dynamo

from tests.integration.recording.compiled.programs import told

names = {names!r}
print(json.dumps({{str(backend): {{name: told(name, backend) for name in names}} for backend in {backends!r}}}))
"""


@pytest.fixture
def found(shared: SharedFolders) -> dict[str, Found]:
    """What is told of each program: by backend (``None`` for uncompiled), then by name."""

    def fill(folder: Path) -> None:
        result = forked_result(_RUN.format(names=NAMES, backends=(None, "eager", "aot_eager")))
        (folder / "found.json").write_text(json.dumps(result))

    result: dict[str, Found] = json.loads((shared.folder("compiled-regions", fill) / "found.json").read_text())
    return result


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", NAMES)
def test_operations_have_the_modules_lines_shapes_and_data_of_uncompiled_code(
    found: dict[str, Found], backend: str, name: str
) -> None:
    compiled, plain = found[backend][name], found["None"][name]
    if any(OTHER_NODES in each for each in compiled["disclosures"]):
        assert (TORCH < (2, 7), name, backend) == (True, "changing", "eager")
        return  # without memory, torch 2.6 makes a node more for a view that is changed
    assert compiled["operations"] == plain["operations"]
    assert compiled["parameters"] == plain["parameters"]
    assert compiled["regions"] and not any(compiled["regions"])
    assert [each for each in compiled["disclosures"] if not each.startswith(UNMEASURED)] == plain["disclosures"]


def test_a_compiled_module_of_torch_has_no_other_modules_around_it_than_uncompiled(found: dict[str, Found]) -> None:
    plain, *compiled = (found[backend]["sigmoids"]["modules_around_modules"] for backend in found)
    assert compiled == [plain, plain]


def test_it_is_told_that_nothing_was_measured_between_compiled_operations(found: dict[str, Found]) -> None:
    told = {
        name: sum(each.startswith(UNMEASURED) for each in one["disclosures"])
        for name, one in found["aot_eager"].items()
    }
    assert told == dict.fromkeys(NAMES, 1)
    assert not any(each.startswith(UNMEASURED) for one in found["eager"].values() for each in one["disclosures"])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_was_not_compiled_belongs_to_no_region(found: dict[str, Found], backend: str) -> None:
    assert found[backend]["whole"]["outside"] == ["MeanBackward0", "PowBackward0"]
    assert len(found[backend]["breaking"]["regions"]) == 2
    assert len(found[backend]["repeated_blocks"]["regions"]) == 3


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_recording_changes_no_gradient(found: dict[str, Found], backend: str) -> None:
    assert all(each["same_gradients"] for each in found[backend].values())


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_flow_judges_depth_as_in_uncompiled_code(found: dict[str, Found], backend: str) -> None:
    assert found["None"]["sigmoids"]["verdict"] == "vanishing"
    assert {name: each["verdict"] for name, each in found[backend].items()} == {
        name: each["verdict"] for name, each in found["None"].items()
    }


def test_what_a_region_saves_belongs_to_lines_of_the_model(found: dict[str, Found]) -> None:
    assert found["aot_eager"]["whole"]["unknown_saved"] == (0 if SHOWS_SLOTS else 1)
    if not SHOWS_SLOTS:
        return  # what compiled code saved cannot be read on this torch, and is listed as unknown
    compiled, plain = found["aot_eager"]["whole"], found["None"]["whole"]
    assert len(compiled["lines_of_memory"]) > 3
    assert set(compiled["lines_of_memory"]) <= set(plain["lines_of_memory"])


def test_seeding_numpy_in_compiled_code_is_not_repeated_by_gradviz() -> None:
    # Compiled, it seeds torch's generator, when the code is compiled.
    result = forked_result(
        """
import numpy
import torch._dynamo

@torch.compile(backend="aot_eager")
def loss(x):
    numpy.random.seed(3)
    return (x * x).sum()

def drawn():
    torch._dynamo.reset()
    torch.manual_seed(0)
    result = loss(torch.randn(3, requires_grad=True))
    before = torch.rand(2).tolist()
    result.backward()
    return [before, torch.rand(2).tolist()]

from dataclasses import replace
from tests.integration.recording.helpers import EVERY_BACKWARD
plans = [EVERY_BACKWARD, replace(EVERY_BACKWARD, inside=True)]
print(json.dumps([drawn(), *(record(drawn, plan).value for plan in plans), torch.rand(2).tolist()]))
"""
    )
    assert result[0] == result[1] == result[2]
    assert result[3] not in result[0]


def test_a_region_compiled_before_the_recording_says_why_it_is_closed() -> None:
    result = forked_result(
        """
from tests.integration.recording.compiled.programs import Net
from gradviz.analysis.flow.gradient_flow import gradient_flow

net = torch.compile(Net(), backend="aot_eager")
net(torch.randn(4, 8)).sum().backward()
recording = record(lambda: net(torch.randn(4, 8)).sum().backward())
flow = gradient_flow(recording.capture, recording.graph)
regions = [region.closed for region in recording.graph.regions]
print(json.dumps([regions, recording.capture.disclosures, flow.closed_regions, flow.trend]))
"""
    )
    reason = "it was compiled before the recording began"
    assert result[0] == [reason]
    assert result[1] == [f"the operations inside 1 compiled function, each a single node: {reason}"]
    assert result[2:] == [1, None]


def test_a_compiled_optimizer_step_is_a_step_and_is_compiled_without_the_recorder() -> None:
    result = forked_result(
        """
import logging
logging.disable(logging.WARNING)
import torch._dynamo
from torch._dynamo.utils import counters
from tests.integration.recording.helpers import EVERY_CALL

def train():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step = torch.compile(optimizer.step, backend="aot_eager")
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        step()
    return [parameter.detach().clone() for parameter in model.parameters()]

alone = train()
native = {key: dict(counters[key]) for key in ("stats", "frames", "graph_break")}
torch._dynamo.reset()
counters.clear()
recording = record(train, EVERY_CALL)
recorded = {key: dict(counters[key]) for key in ("stats", "frames", "graph_break")}
calls = recording.capture.calls
steps = [call for call in calls.calls if call.kind == "step"]
changed = [sorted(use.place for use in call.outputs) for call in steps]
parameters = len([tensor for tensor in calls.tensors if tensor.role == "parameter"])
same = all(torch.equal(*pair) for pair in zip(alone, recording.value, strict=True))
print(json.dumps([native == recorded, changed, parameters, same, recording.capture.disclosures]))
"""
    )
    assert result == [True, [["groups[0][0]", "groups[0][1]"]] * 2, 2, True, []]


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
def test_inductor_opens_with_a_cold_and_with_a_warm_cache(
    found: dict[str, Found], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", os.fspath(tmp_path))
    plain = found["None"]["whole"]
    for _ in ("cold", "warm"):
        compiled = forked_result(_RUN.format(names=("whole",), backends=("inductor",)))["inductor"]["whole"]
        assert compiled["operations"] == plain["operations"]
        assert compiled["same_gradients"]
        assert [each[: len(UNMEASURED)] for each in compiled["disclosures"]] == [UNMEASURED]


def test_fake_tensors_do_not_change_what_the_engine_asks_for_gpus() -> None:
    """Where torch was built for CUDA and there is no GPU, that ends the program with a segmentation fault."""
    source = """
    from gradviz.recording.torch_access.dynamo.dynamo_graphs import fake_tensors
    from gradviz.recording.torch_access.probes import graphs_of_compiled_code

    changes = []
    torch._C._ensureCUDADeviceGuardSet = lambda: changes.append("guard")
    with fake_tensors():
        sizes = list(torch.ones(2).mul(2).shape)
    print(json.dumps([sizes, graphs_of_compiled_code(), changes]))
    """
    assert forked_result(source) == [[2], True, []]
