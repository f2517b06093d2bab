"""Ranks that have parts of a model: what they exchange is on the graph, and how parts lie on ranks is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from gradviz.capture.capture_file import load_capture
from tests.end_to_end.command import SCRIPTS, Run, gradviz

HEALTHY = Path(__file__).parents[1] / "distributed" / "healthy"
WIDE = ("--width", "160")
"""So that no name is cut and no cell is wrapped."""
HAS_RECORDER = hasattr(torch._C._distributed_c10d, "_dump_fr_trace")
"""Whether torch notes what is called with gloo."""
shards_on_cpu = pytest.mark.skipif(
    not hasattr(torch.cpu.Stream, "record_event"), reason="fully_shard of this torch does not run on a CPU"
)


def on_two_ranks(command: str, script: str, folder: Path, *options: str) -> Run:
    return gradviz(command, *options, SCRIPTS / "as_ranks.py", "--", HEALTHY / f"{script}.py", "2", cwd=folder)


def recorded(script: str, folder: Path) -> Path:
    run = on_two_ranks("record", script, folder, "--backward", "all", "--keep-going", "-o", "run.gradviz")
    assert run.exit_code == 0, run.stderr
    return folder


def test_stages_of_a_pipeline_name_the_rank_at_their_ends_and_may_differ(tmp_path: Path) -> None:
    folder = recorded("stages_by_hand", tmp_path)
    assert "· from rank 0" in gradviz("tree", "run.gradviz@1", *WIDE, cwd=folder).text
    assert "· to rank 1" in gradviz("tree", "run.gradviz@0", *WIDE, cwd=folder).text
    compared = gradviz("ranks", "run.gradviz", cwd=folder)
    assert "ranks send each other tensors, so their parts of the work may differ" in compared.text
    assert compared.exit_code == 0
    sent, received = (load_capture(folder / f"run.rank{rank}.gradviz").traffic[0] for rank in range(2))
    assert (sent.direction, sent.peer, sent.calls, sent.shape) == ("sent", 1, 3, (2, 4))
    assert (received.direction, received.peer, received.bytes) == ("received", 0, sent.bytes)


@pytest.mark.skipif(
    not hasattr(torch.cpu.Stream, "record_event"), reason="with gloo, pipelines of this torch hang without gradviz, too"
)
def test_what_torchs_pipelines_compute_to_learn_shapes_is_no_backward_call_of_the_program(tmp_path: Path) -> None:
    run = on_two_ranks("check", "pipeline", tmp_path)
    assert "nothing wrong found" in run.text
    assert run.text.count("6 backward calls") == 2


def test_a_redistribution_says_how_its_tensor_lies_on_the_ranks_before_and_after(tmp_path: Path) -> None:
    folder = recorded("redistribute", tmp_path)
    tree = gradviz("tree", "run.gradviz", "--backward", "1", *WIDE, cwd=folder)
    (line,) = [line for line in tree.stdout.splitlines() if "Shard(0)" in line]
    assert "redistribute Partial(sum) → Shard(0)" in line
    assert "redistribute.py:19" in line
    assert "to_local Replicate() → local" in tree.text
    flow = gradviz("flow", "run.gradviz", "--backward", "1", *WIDE, cwd=folder)
    assert "gradients of distributed tensors on other ranks: figures are of this rank's part" in flow.text
    capture = load_capture(folder / "run.rank1.gradviz")
    (graph, *_) = capture.graphs
    first = next(node for node in graph.nodes if "first" in node.names)
    assert first.outputs[0] is not None
    assert (first.outputs[0].shape, first.outputs[0].placements) == ((4, 8), ("Shard(1)",))
    assert first.arrived[0] is not None
    assert (first.arrived[0].shape, first.arrived[0].placements) == ((4, 4), ("Shard(1)",))
    assert gradviz("ranks", "run.gradviz", cwd=folder).exit_code == 0


def test_buckets_are_on_the_graph_in_the_order_in_which_they_are_sent(tmp_path: Path) -> None:
    folder = recorded("buckets", tmp_path)
    graph = load_capture(folder / "run.rank0.gradviz").graphs[-1]
    assert sorted(leaf for each in graph.exchanges for leaf in each.leaves) == [node.id for node in graph.leaves]
    for each in graph.exchanges:
        runs = [graph.nodes[leaf].run for leaf in each.leaves]
        assert each.after is not None
        assert all(run is not None and run.order <= each.after for run in runs)
    (document,) = json.loads(gradviz("flow", "--json", "run.gradviz", "--backward", "3", cwd=folder).stdout)["flows"]
    assert [each["bucket"] for each in document["exchanges"]] == [each.bucket for each in graph.exchanges]
    flow = gradviz("flow", "run.gradviz", "--backward", "3", *WIDE, cwd=folder).text
    assert "exchanged with other ranks by DistributedDataParallel" in flow
    assert "all_reduce of bucket 0" in flow
    replayed = gradviz("replay", "--all", "run.gradviz", "--backward", "3", cwd=folder).text
    assert "DistributedDataParallel begins the all_reduce of bucket 0: the gradients of" in replayed
    assert f"{'of which' if HAS_RECORDER else 'before'} fp16_compress_hook" in " ".join(replayed.split())
    assert "waited for" in replayed
    assert all((each.sent is not None) == HAS_RECORDER for each in graph.exchanges)
    assert all(each.sent is None or 2 * each.sent == each.bytes for each in graph.exchanges)


def test_the_state_of_optimizers_is_told_of_each_rank_and_in_the_whole(tmp_path: Path) -> None:
    folder = recorded("zero", tmp_path)
    parameters, step = 76 * 4, 4
    whole = 2 * parameters + 4 * step
    job = json.loads(gradviz("memory", "--json", "run.gradviz", "--backward", "1", cwd=folder).stdout)["job"]
    assert job["optimizer_bytes"] == sum(each["optimizer_bytes"] for each in job["ranks"]) == whole
    assert [each["whole_optimizer_bytes"] for each in job["ranks"]] == [whole, whole]
    assert "together 608 B 624 B" in gradviz("ranks", "run.gradviz", cwd=folder).text
    (state,) = load_capture(folder / "run.rank0.gradviz").optimizers
    assert state.name == "Adam in ZeroRedundancyOptimizer"


@shards_on_cpu
def test_a_sharded_model_tells_what_is_gathered_when_and_the_memory_of_all_ranks(tmp_path: Path) -> None:
    folder = recorded("fsdp2", tmp_path)
    flow = gradviz("flow", "run.gradviz", "--backward", "1", *WIDE, cwd=folder).text
    assert "exchanged with other ranks by fully_shard" in flow
    assert "1 all_gather in the forward" in flow
    kinds = {each.kind for each in load_capture(folder / "run.rank0.gradviz").graphs[0].exchanges}
    assert kinds == {"all_gather", "reduce_scatter"}
    compared = gradviz("ranks", "run.gradviz", cwd=folder).text
    assert "0-1 152 B 304 B" in compared
    assert "together 304 B" in compared
    sharding = load_capture(folder / "run.rank0.gradviz").parameters[0].sharding
    assert sharding is not None
    assert (sharding.by, sharding.placements, sharding.shape) == ("fully_shard", ("Shard(0)",), (4, 4))
    assert sharding.whole_shape == (8, 4)


def test_a_flat_parameter_names_what_it_is_made_of_and_its_reduced_gradient(tmp_path: Path) -> None:
    flow = gradviz("flow", "run.gradviz", "--backward", "1", *WIDE, cwd=recorded("fsdp1", tmp_path)).text
    inner = "model._fsdp_wrapped_module.0._fsdp_wrapped_module"
    assert f"model._fsdp_wrapped_module.0._flat_param is made of {inner}.weight, {inner}.bias" in flow
    assert "exchanged with other ranks by FullyShardedDataParallel" in flow
    assert ".grad is what the optimizer sees: FullyShardedDataParallel made it of the gradients of all ranks" in flow
    assert "no gradient" not in flow
    capture = load_capture(tmp_path / "run.rank0.gradviz")
    leaves = [node.leaf_gradient for node in capture.graphs[0].leaves]
    assert all(leaf is not None and leaf.reduced_by == "FullyShardedDataParallel" for leaf in leaves)
    assert sum(each.sharding.bytes for each in capture.parameters if each.sharding is not None) == 152


@pytest.mark.parametrize("script", ["zero", "join", "fsdp1", "tensor_parallel"])
def test_ranks_that_differ_as_they_should_raise_no_alarm(tmp_path: Path, script: str) -> None:
    run = on_two_ranks("ranks", script, tmp_path)
    assert run.exit_code == 0, run.stdout


def test_distributed_autograd_is_said_not_to_be_recorded(tmp_path: Path) -> None:
    run = on_two_ranks("check", "remote", tmp_path)
    assert "rank 0: 3 calls of torch.distributed.autograd.backward(): RPC spreads their graphs" in run.text
    assert run.exit_code == 2
