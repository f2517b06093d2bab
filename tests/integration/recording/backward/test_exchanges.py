"""What wrappers exchange for parameters is on the graph of the backward call, with its size and its time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore
from torch.nn.parallel import DistributedDataParallel

from gradviz.recording.torch_access.distributed import buckets
from tests.integration.recording.helpers import record


@pytest.fixture
def group() -> Iterator[None]:
    """A process group with this process alone."""
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def model(group: None) -> DistributedDataParallel:
    return DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)))


def test_a_bucket_is_over_when_backward_is_which_waits_for_it_after_its_last_step(
    model: DistributedDataParallel,
) -> None:
    (graph,) = record(lambda: model(torch.ones(2, 8)).sum().backward()).capture.graphs
    assert [each.parameters for each in graph.exchanges] == [4]
    (bucket,) = graph.exchanges
    assert bucket.began is not None
    assert bucket.seconds is not None
    assert bucket.waited is not None
    assert bucket.waited <= bucket.seconds
    assert bucket.sent is None


def test_buckets_of_a_very_large_model_are_said_to_be_left_out(
    model: DistributedDataParallel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "MAX_BYTES", 100)
    capture = record(lambda: model(torch.ones(2, 8)).sum().backward()).capture
    assert not capture.graphs[0].exchanges
    assert capture.disclosures == (
        "the buckets of DistributedDataParallel: it exchanges 324 B of gradients (limit 100 B)",
    )
