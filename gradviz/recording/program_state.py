"""What an extra backward changes of the program besides ``.grad`` of leaves, and how it is put back.

A custom backward, or a checkpoint that computes again, may draw random numbers; and a tensor with ``retain_grad()``
gets its gradient whoever asks for one.
"""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gradviz.recording import torch_compat

HOOKS_RAN = "hooks of the program ran once more for every backward that was measured on request"


@contextmanager
def program_left_as_it_was() -> Iterator[None]:
    """Random generators, and the ``.grad`` of tensors with ``retain_grad()``, are afterwards what they were before."""
    retaining = [(tensor, tensor.grad) for tensor in _tensors_that_retain()]
    states = list(_generator_states())
    try:
        yield
    finally:
        for put_back, state in states:
            put_back(state)
        with torch_compat.DISABLE_TORCH_FUNCTION():
            for tensor, grad in retaining:
                tensor.grad = grad


def _tensors_that_retain() -> list[torch.Tensor]:
    # No list of them is kept anywhere. Whoever can read a `.grad` holds a tensor that the collector knows.
    with torch_compat.DISABLE_TORCH_FUNCTION():
        tensors = [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor)]
        # Only others than leaves retain it; whether one is a leaf torch refuses to say of views that it gave up.
        return [tensor for tensor in tensors if tensor.retains_grad]


def _generator_states() -> Iterator[tuple[Callable[[Any], object], Any]]:
    yield random.setstate, random.getstate()
    yield torch.set_rng_state, torch.get_rng_state()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        yield numpy.random.set_state, numpy.random.get_state()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        yield torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all()
