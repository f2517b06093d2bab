"""One training step of a family, plain or recorded, and what it leaves."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import patch

import torch

import gradviz
from tests.leftovers import random_state
from tests.zoo.family import Family, loss_of, seed, tensors_in
from tests.zoo.naive_graph import NaiveNode, walk


@dataclass
class Step:
    """What one step computed: copies, so that nothing of the graph is kept."""

    outputs: list[torch.Tensor] = field(default_factory=list)
    gradients: dict[str, torch.Tensor | None] = field(default_factory=dict)
    buffers: dict[str, torch.Tensor] = field(default_factory=dict)
    random_state: tuple[object, ...] = ()
    seconds: float = 0.0
    """Of processor time: other programs may run as well."""
    walked: list[NaiveNode] = field(default_factory=list)
    recording: gradviz.api.Recording | None = None


def plain_step(family: Family) -> Step:
    """The step as a user's script runs it."""
    return _step(family, nullcontext(), lambda loss, model: [])


def recorded_step(family: Family) -> Step:
    """The same step while gradviz records it; the naive walk is made before backward, inside the block."""
    recording = gradviz.record()
    step = _step(family, recording, walk)
    step.recording = recording
    return step


def _step(family: Family, block: AbstractContextManager[Any], walked_by: Callable[..., list[NaiveNode]]) -> Step:
    step = Step()
    seed(0)
    model, inputs = family.make()
    seed(1)
    began = time.process_time()
    # A Reformer takes new seeds from the system at every layer, so that no two plain runs would be alike.
    with block, patch.object(torch, "seed", partial(random.getrandbits, 31)):
        outputs = model(**inputs)
        loss = loss_of(outputs)
        walking = time.process_time()
        step.walked = walked_by(loss, model)
        walking -= time.process_time()
        loss.backward()  # type: ignore[no-untyped-call]
    step.seconds = time.process_time() - began + walking
    step.random_state = random_state()
    step.outputs = [tensor.detach().clone() for tensor in tensors_in(outputs)]
    step.gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    step.buffers = dict(model.named_buffers())
    return step


def differences(one: Step, other: Step) -> list[str]:
    """What is not the same in two steps, bit for bit."""
    found = []
    if len(one.outputs) != len(other.outputs):
        found.append(f"{len(one.outputs)} outputs, then {len(other.outputs)}")
    for number, (before, after) in enumerate(zip(one.outputs, other.outputs, strict=False)):
        if not same_bits(before, after):
            found.append(f"output {number} differs")
    for what, first, second in (
        ("gradient of", one.gradients, other.gradients),
        ("buffer", one.buffers, other.buffers),
    ):
        if list(first) != list(second):
            found.append(f"not the same names: {what} {sorted(set(first) ^ set(second))}")
        found += [f"{what} {name} differs" for name in first if not same_bits(first[name], second.get(name))]
    if one.random_state != other.random_state:
        found.append("random numbers were drawn")
    return found


def same_bits(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    """Equal in size, type and every bit; two NaNs are alike."""
    if one is None or other is None:
        return one is other
    if one.shape != other.shape or one.dtype != other.dtype or one.layout != other.layout:
        return False
    return torch.equal(_bits(one), _bits(other))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    dense = tensor.detach().to_dense() if tensor.layout is not torch.strided else tensor.detach()
    return dense.contiguous().reshape(-1).view(torch.uint8) if dense.numel() else dense
