"""Forks children that end in every possible way, and prints how they ended."""

import atexit
import os
import sys

import torch

atexit.register(lambda: print("at exit of", name, flush=True))
weight = torch.ones(2, requires_grad=True)
weight.sum().backward()

name = "the parent"
for ending in ("end", "exception", "exit code", "exit text"):
    print("about to fork", flush=True)
    child = os.fork()
    if child == 0:
        name = "the child for " + ending
        (weight * 2).sum().backward()
        print(name, weight.grad.tolist(), flush=True)
        if ending == "exception":
            raise ValueError("only in the child")
        if ending == "exit code":
            sys.exit(6)
        if ending == "exit text":
            sys.exit("the child's last word")
        break
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print("the child ended with", code, flush=True)
