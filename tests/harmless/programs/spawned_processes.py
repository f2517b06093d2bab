"""torch.multiprocessing: spawned and forked processes train and give back what they found."""

import torch
import torch.multiprocessing as mp
from torch import nn


def train(rank, queue):
    torch.manual_seed(rank)
    model = nn.Linear(3, 1)
    model(torch.ones(2, 3)).sum().backward()
    queue.put((rank, model.weight.grad.tolist(), model.weight.tolist()))


if __name__ == "__main__":
    found = {}
    for method in ("spawn", "fork"):
        context = mp.get_context(method)
        queue = context.Queue()
        processes = [context.Process(target=train, args=(rank, queue)) for rank in range(2)]
        for process in processes:
            process.start()
        found[method] = sorted(queue.get() for _ in processes)
        for process in processes:
            process.join()
    codes = [process.exitcode for process in processes]
    shared = torch.zeros(3).share_memory_()
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    model(torch.ones(2, 3)).sum().backward()
    del queue, processes, process, context
