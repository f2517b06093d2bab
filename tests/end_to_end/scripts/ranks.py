"""Trains with DDP in two forked processes; the first argument says what goes wrong."""

import os
import signal
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 3)
        self.outer = torch.nn.Linear(3, 1)
        self.extra = torch.nn.Linear(3, 1)

    def forward(self, x, with_extra):
        h = self.inner(x).tanh()
        return self.outer(h) + self.extra(h) if with_extra else self.outer(h)


def train(rank, store, case):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = DistributedDataParallel(Net(), find_unused_parameters=case == "unused")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(0 if case == "same data" else rank)
    for step in range(2 if case == "less data" and rank == 1 else 3):
        loss = (model(torch.randn(8, 4), case != "unused" or rank == 0) - 1).pow(2).mean()
        if case != "not cleared":
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 1 and rank == 1:
            go_wrong(case, model)
    if case == "not finite" and rank == 1:
        torch.zeros(2, requires_grad=True).sqrt().sum().backward()
    if case != "one barrier" or rank == 0:
        dist.barrier()
    if case == "one barrier" and rank == 1:
        dist.all_reduce(torch.ones(1))
    # If the reducer of DDP is what frees the group, it waits for gloo's thread, which waits for Python's lock.
    del model, optimizer, loss
    dist.destroy_process_group()


def go_wrong(case, model):
    if case == "raises":
        raise ValueError("bad batch")
    if case == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if case == "terminated":
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
    if case == "exits":
        os._exit(5)
    if case == "drifts":
        with torch.no_grad():
            model.module.inner.weight += 1


def main():
    case = sys.argv[1] if len(sys.argv) > 1 else ""
    context = mp.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        workers = [context.Process(target=train, args=(rank, f"{folder}/store", case)) for rank in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    codes = [worker.exitcode for worker in workers]
    print("exit codes", *codes)
    sys.exit(3 if case == "fails" else 0)


if __name__ == "__main__":
    main()
