"""Anomaly mode: what it finds, what it prints, and that it goes on afterwards."""

import torch

torch.manual_seed(0)
x = torch.zeros(3, requires_grad=True)
with torch.autograd.detect_anomaly():
    try:
        (torch.sqrt(x) * 0).sum().backward()
    except RuntimeError as error:
        message = str(error)
    torch.exp(x).sum().backward()
torch.autograd.set_detect_anomaly(True, check_nan=False)
y = torch.zeros(2, requires_grad=True)
torch.sqrt(y * 0).sum().backward()
