"""Trains three steps in several processes, wrapped as the first argument says; prints what the parameters are then."""

import hashlib
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 6)
        self.last = torch.nn.Linear(6, 2)
        self.extra = torch.nn.Linear(6, 2)

    def forward(self, x, with_extra=True):
        h = self.first(x).relu()
        return self.last(h) + self.extra(h) if with_extra else self.last(h)


def wrapped(case, world):
    model = Net()
    if case.startswith("fsdp2"):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (world,))
        for part in (model.first, model.last, model.extra, model):
            fully_shard(part, mesh=mesh)
        return model
    if case == "fsdp1":
        from torch.distributed.fsdp import FullyShardedDataParallel

        return FullyShardedDataParallel(model, use_orig_params=True, device_id=torch.device("cpu"))
    return DistributedDataParallel(
        model,
        find_unused_parameters=case == "ddp unused",
        static_graph=case == "ddp static",
        gradient_as_bucket_view=case == "ddp view",
    )


def train(rank, folder, case, world):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    torch.manual_seed(0)
    model = wrapped(case, world)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for _ in range(3):
        if case == "ddp no_sync":
            with model.no_sync():
                model(torch.randn(8, 4)).pow(2).mean().backward()
        loss = (model(torch.randn(8, 4), case != "ddp unused" or rank == 0) - 1).pow(2).mean()
        loss.backward()
        optimizer.step()
        if case != "fsdp2 not cleared":
            optimizer.zero_grad()
    digest = hashlib.sha256()
    for parameter in model.parameters():
        local = parameter.to_local() if hasattr(parameter, "to_local") else parameter
        digest.update(local.detach().contiguous().numpy().tobytes())
    Path(folder, f"digest{rank}").write_text(digest.hexdigest())
    # If the reducer of DDP is what frees the group, it waits for gloo's thread, which waits for Python's lock.
    del model, optimizer, loss, parameter, local
    dist.destroy_process_group()


def main(case, world):
    with tempfile.TemporaryDirectory() as folder:
        if world == 1:
            train(0, folder, case, 1)
        else:
            context = mp.get_context("fork")
            workers = [context.Process(target=train, args=(rank, folder, case, world)) for rank in range(world)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        print([Path(folder, f"digest{rank}").read_text() for rank in range(world)])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
