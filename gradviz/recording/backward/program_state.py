"""Restores what an extra backward changes in the program besides ``.grad`` of leaves.

A custom backward, or a checkpoint that computes again, may draw random numbers. A tensor with ``retain_grad()`` gets
its gradient whoever asks for one. A custom backward may also call backward itself, as reversible layers do, which adds
to the ``.grad`` of leaves that are in no walk.
"""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gradviz.graph.model import Graph
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION, may_be_asked

HOOKS_RAN = "hooks of the program ran once more for every backward that was measured on request"


@contextmanager
def program_state_restored(graph: Graph) -> Iterator[None]:
    """Restores random generators, and every ``.grad`` that a backward through `graph` may set, on exit."""
    with DISABLE_TORCH_FUNCTION():
        tensors = _tensors()
        # Only non-leaves retain it; for some views torch refuses to say whether they are leaves.
        kept = [(tensor, tensor.grad) for tensor in tensors if tensor.retains_grad]
        if any(node.kind in _MAY_CALL_BACKWARD for node in graph.nodes):
            leaves = [tensor for tensor in tensors if _is_trained_leaf(tensor)]
            kept += [(leaf, leaf.grad) for leaf in leaves]
            for leaf in leaves:
                leaf.grad = None  # so that nothing is added to it in place
    try:
        with generators_restored():
            yield
    finally:
        with DISABLE_TORCH_FUNCTION():
            for tensor, grad in kept:
                tensor.grad = grad


@contextmanager
def generators_restored() -> Iterator[None]:
    """Restores the random generators that the program may use, on exit."""
    states = list(_generator_states())
    try:
        yield
    finally:
        for put_back, state in states:
            put_back(state)


_MAY_CALL_BACKWARD = frozenset({"custom", "checkpoint"})


def _tensors() -> list[torch.Tensor]:
    # There is no list of them. Who can read a `.grad` holds a tensor that the garbage collector knows.
    return [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor)]


def _is_trained_leaf(tensor: torch.Tensor) -> bool:
    return tensor.requires_grad and may_be_asked(tensor) and tensor.is_leaf


def _generator_states() -> Iterator[tuple[Callable[[Any], object], Any]]:
    yield random.setstate, random.getstate()
    yield torch.set_rng_state, torch.get_rng_state()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        yield numpy.random.set_state, numpy.random.get_state()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        yield torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all()
