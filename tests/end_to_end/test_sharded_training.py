"""Training under a wrapper that shares out parameters or gradients: true figures, and no false findings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from gradviz.capture.capture_file import load_capture
from tests.end_to_end.command import SCRIPTS, gradviz, python

SHARDING = SCRIPTS / "sharding.py"
shards_on_cpu = pytest.mark.skipif(
    not hasattr(torch.cpu.Stream, "record_event"), reason="fully_shard of this torch does not run on a CPU"
)


@pytest.mark.parametrize(
    ("case", "processes"),
    [
        ("ddp", 2),
        ("ddp unused", 2),
        ("ddp no_sync", 2),
        ("ddp static", 2),
        ("ddp view", 2),
        pytest.param("fsdp2", 1, marks=shards_on_cpu),
        pytest.param("fsdp2", 2, marks=shards_on_cpu),
        ("fsdp1", 2),
    ],
)
def test_a_healthy_training_has_no_findings_and_ends_with_the_same_parameters(
    tmp_path: Path, case: str, processes: int
) -> None:
    words = SHARDING, "--", case, str(processes)
    run = gradviz("check", *words, cwd=tmp_path)
    assert "nothing wrong found" in run.text
    assert run.exit_code == 0
    # Some releases of torch also print how many ranks are connected, each rank when it is.
    digests = python(SHARDING, case, str(processes), cwd=tmp_path).stdout.splitlines()[-1]
    assert digests in run.stderr
    assert digests.count("', '") == processes - 1


@shards_on_cpu
def test_a_missing_zero_grad_is_found_behind_fully_shard(tmp_path: Path) -> None:
    run = gradviz("check", SHARDING, "--", "fsdp2 not cleared", "2", cwd=tmp_path)
    assert run.stdout.count("GV601") == 1
    assert "model.first.weight" in run.stdout
    assert "(all 2 ranks)" in run.text


def test_the_gradient_of_a_rank_and_the_reduced_one_are_told_apart(tmp_path: Path) -> None:
    gradviz("record", "-o", "run.gradviz", SHARDING, "--", "ddp unused", "2", cwd=tmp_path)
    leaves = []
    for rank in range(2):
        (graph,) = load_capture(tmp_path / f"run.rank{rank}.gradviz").graphs
        leaves.append({node.names[0]: node for node in graph.nodes if node.kind == "parameter"})
    first, second = (of_rank["model.module.first.weight"] for of_rank in leaves)
    assert first.leaf_gradient is not None
    assert second.leaf_gradient is not None
    assert first.leaf_gradient.reduced_by == "DistributedDataParallel"
    assert first.leaf_gradient.after == second.leaf_gradient.after
    assert first.arrived[0] != second.arrived[0]
    assert first.leaf_gradient.after != first.arrived[0]
    text = gradviz("flow", "run.gradviz@1", cwd=tmp_path).text
    assert "norm is of this rank's own gradient; .grad is what the optimizer sees: DistributedDataParallel" in text
    assert "not used on this rank: its .grad is made of the gradients of other ranks: model.module.extra" in text
    (flow,) = json.loads(gradviz("flow", "--json", "run.gradviz", cwd=tmp_path).stdout)["flows"]
    assert {each["reduced_by"] for each in flow["parameters"]} == {"DistributedDataParallel"}
    replayed = gradviz("replay", "--all", "run.gradviz", cwd=tmp_path).text
    assert "what DistributedDataParallel made of the gradients of all ranks" in replayed


@shards_on_cpu
def test_a_sharded_parameter_has_its_own_name_and_the_shard_of_its_gradient(tmp_path: Path) -> None:
    gradviz("record", "-o", "run.gradviz", SHARDING, "--", "fsdp2", "2", cwd=tmp_path)
    capture = load_capture(tmp_path / "run.rank1.gradviz")
    assert sorted(each.names[0] for each in capture.parameters) == [
        f"model.{layer}.{name}" for layer in ("extra", "first", "last") for name in ("bias", "weight")
    ]
    leaves = {node.names[0]: node for node in capture.graphs[0].nodes if node.kind == "parameter"}
    weight = leaves["model.first.weight"]
    assert weight.leaf_gradient is not None
    assert weight.leaf_gradient.after is not None
    assert (weight.leaf_gradient.reduced_by, weight.leaf_gradient.after.shape) == ("fully_shard", (3, 4))
    assert weight.outputs[0] is not None
    assert weight.outputs[0].shape == (6, 4)
    assert "it is the norm of the shard on this rank" in " ".join(
        gradviz("flow", "run.gradviz", cwd=tmp_path).stdout.split()
    )
