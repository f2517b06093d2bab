"""Fails where its argument says."""

import sys
from typing import Any

import torch
from torch import Tensor, nn

place = sys.argv[1]


class Fragile(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        raise RuntimeError("the backward of Fragile is broken")


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(5 if place == "forward" else 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x).relu()
        if place == "custom backward":
            hidden = Fragile.apply(hidden)
        return self.second(hidden)


if place == "start":
    raise LookupError("nothing was computed yet")
model = Model()
prediction = model(torch.ones(2, 3))
kept = prediction.exp()
if place == "inplace":
    with torch.no_grad():
        kept.add_(1)
if place == "before backward":
    raise ValueError("the labels are missing")
loss = kept.sum()
loss.backward()
if place == "second backward":
    loss.backward()
