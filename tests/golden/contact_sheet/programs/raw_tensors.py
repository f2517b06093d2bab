"""A network of plain tensors: 40 parameters in a dictionary, no module."""

from itertools import pairwise

import torch

torch.manual_seed(0)

SIZES = (6, 9, 12, 8, 10, 14, 11, 7, 13, 9, 8, 12, 10, 9, 11, 8, 7, 12, 10, 6, 4)
parameters = {}
for number, (rows, columns) in enumerate(pairwise(SIZES)):
    parameters[f"w{number}"] = (torch.randn(rows, columns) / rows**0.5).requires_grad_()
    parameters[f"b{number}"] = torch.zeros(columns, requires_grad=True)
inputs, targets = torch.randn(5, 6), torch.randn(5, 4)


def forward(x):
    last = len(SIZES) - 2
    for number in range(last + 1):
        x = x @ parameters[f"w{number}"] + parameters[f"b{number}"]
        x = torch.tanh(x) if number < last else x
    return x


loss = ((forward(inputs) - targets) ** 2).mean()
loss.backward()
