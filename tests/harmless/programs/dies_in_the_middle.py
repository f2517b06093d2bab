"""Fails with a chained error of its own after two good steps; the traceback is the program's alone."""

import torch
from torch import nn

torch.manual_seed(0)


class Picky(nn.Module):
    def forward(self, x):
        try:
            return x @ torch.ones(7, 7)
        except RuntimeError as error:
            raise ValueError("shapes are wrong again") from error


model = nn.Sequential(nn.Linear(3, 3), Picky())
for _ in range(2):
    model[0](torch.randn(2, 3)).sum().backward()
model(torch.randn(2, 3)).sum().backward()
