"""Calls backward, says so, and then sleeps until somebody interrupts it."""

import time

import torch

weight = torch.ones(3, requires_grad=True)
loss = weight.exp().sum()
loss.backward()
print("ready", flush=True)
time.sleep(60)
