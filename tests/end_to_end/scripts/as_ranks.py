"""Runs a script in several forked processes, each with the environment of a rank: as_ranks.py SCRIPT [SIZE]."""

import os
import socket
import sys
from pathlib import Path

import torch
import torch.multiprocessing as mp

namespace = {}
"""Of the script. It is kept: torch may wait for ever if a model is freed after its process group."""


def run(script, rank):
    torch.manual_seed(100 + rank)  # processes of their own have different random numbers
    namespace.update(__name__="__main__", __file__=script)
    exec(compile(Path(script).read_text(), script, "exec"), namespace)


def main():
    script, size = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    ranks = [mp.get_context("fork").Process(target=run, args=(script, rank)) for rank in range(size)]
    for number, rank in enumerate(ranks):
        os.environ.update(RANK=str(number), LOCAL_RANK=str(number))
        rank.start()
    for rank in ranks:
        rank.join()
    sys.exit(max(abs(rank.exitcode) for rank in ranks))


if __name__ == "__main__":
    main()
