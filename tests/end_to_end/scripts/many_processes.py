"""Uses every way of working in parallel, and prints what each of them gave."""

import atexit
import multiprocessing
import os
import threading

import torch
from torch.utils.data import DataLoader, Dataset


def say(*words: object) -> None:
    """One write a line: what several processes print at once then never mixes, buffered or not."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Squares(Dataset):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> int:
        return index * index


def work(number: int) -> float:
    x = torch.full((3,), float(number), requires_grad=True)
    x.square().sum().backward()
    return x.grad.sum().item()


def in_pool(method: str) -> list[float]:
    with multiprocessing.get_context(method).Pool(2) as pool:
        return pool.map(work, [1, 2, 3])


def in_threads() -> list[float]:
    found: dict[int, float] = {}
    threads = [threading.Thread(target=lambda n=n: found.update({n: work(n)})) for n in (4, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[4], found[5]]


if __name__ == "__main__":
    torch.set_num_threads(1)
    atexit.register(say, "at exit")
    say("own", work(6))
    say("forked", in_pool("fork"))
    say("spawned", in_pool("spawn"))
    say("loaded", [batch.tolist() for batch in DataLoader(Squares(), batch_size=3, num_workers=2)])
    say("threads", in_threads())
else:
    say("imported as", __name__)
