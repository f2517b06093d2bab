"""Computes much, calls backward on none of it, and keeps the results in every kind of container."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class State:
    hidden: Tensor
    epoch: int


weight = torch.ones(3, requires_grad=True)
doubled = weight * 2
logits = doubled.exp()
loss = logits.sum()
out = {"loss": loss, "logits": logits}
pair = [weight.sin(), weight.cos()]
state = State(hidden=weight.tanh(), epoch=4)
without_graph = torch.ones(3)
epochs = 10
