"""Ends in the way that its argument names, after one backward."""

import sys

import torch
from torch import nn

model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
model(torch.ones(1, 3)).sum().backward()


def from_another_error() -> None:
    try:
        {}["missing"]
    except KeyError as error:
        raise RuntimeError("while looking it up\nin two lines") from error


def in_a_module() -> None:
    model(torch.ones(1, 4))


def by_a_hook() -> None:
    sys.excepthook = lambda kind, error, trace: print(f"hook: {kind.__name__}: {error}", file=sys.stderr)
    raise ValueError("seen by a hook")


def in_an_import() -> None:
    import broken_neighbour  # noqa: F401


def by_two_errors() -> None:
    try:
        raise ValueError("the first")
    finally:
        [].pop()


def in_a_function_of_torch() -> None:
    nn.functional.cross_entropy(torch.ones(2, 3, requires_grad=True), torch.ones(5, dtype=torch.long))


def by_exit_0() -> None:
    sys.exit(0)


def by_exit_3() -> None:
    sys.exit(3)


def by_exit_text() -> None:
    sys.exit("a last word")


def by_running_out() -> None:
    pass


print("about to end")
globals()[sys.argv[1]]()
