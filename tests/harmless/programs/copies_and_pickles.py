"""Modules, tensors and optimizers are copied, pickled, saved and loaded in the middle of training."""

import copy
import io
import pickle

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
optimizer = torch.optim.Adam(model.parameters())
copies = []
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    copies.append(copy.deepcopy(model))
    copies.append(pickle.loads(pickle.dumps(model)))
    buffer = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "whole": model}, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)
    copies.append(loaded["whole"])
    assert list(vars(copies[-1])) == list(vars(model))
size = len(pickle.dumps(model))
saved_size = buffer.getbuffer().nbytes
copy.deepcopy(optimizer)
leaf = torch.randn(3, requires_grad=True)
leaf.sum().backward()
twin = copy.deepcopy(leaf)
del buffer, loaded
