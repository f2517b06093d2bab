"""Two processes train one model with DistributedDataParallel, which averages their gradients; this is the first."""

import tempfile
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

PROCESSES = 2


def loss_of(model, rank):
    """Every process has data of its own."""
    inputs = torch.full((2, 4), rank + 1.0)
    return model(inputs).square().mean()


def train(rank, meeting_point):
    dist.init_process_group(
        "gloo",
        init_method=meeting_point.as_uri(),
        rank=rank,
        world_size=PROCESSES,
        timeout=timedelta(seconds=60),
    )
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    parallel_model = DistributedDataParallel(model)

    loss = loss_of(parallel_model, rank)
    loss.backward()

    weight = model[0].weight
    alone = [torch.autograd.grad(loss_of(model, each), weight)[0] for each in range(PROCESSES)]
    assert torch.allclose(weight.grad, sum(alone) / PROCESSES)
    del parallel_model  # before the group: else the process may never end
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        meeting_point = Path(folder) / "meeting_point"
        second = mp.get_context("spawn").Process(target=train, args=(1, meeting_point))
        second.start()
        try:
            train(0, meeting_point)
        finally:
            second.join()
    assert second.exitcode == 0
