"""Calls backward inside context managers and try statements that must be left in order."""

import atexit
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def opened() -> Iterator[None]:
    print("opened", flush=True)
    try:
        yield
    finally:
        print("closed", flush=True)


atexit.register(print, "at exit")
weight = torch.ones(2, requires_grad=True)
try:
    with opened():
        try:
            weight.sum().backward()
        except Exception as error:
            print("swallowed", error, flush=True)
        print("after backward", flush=True)
finally:
    print("finally", flush=True)
print("the end", flush=True)
