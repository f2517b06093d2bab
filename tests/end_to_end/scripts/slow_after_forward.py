"""Builds a graph, says so, and then sleeps until somebody interrupts it; backward never comes."""

import time

import torch

weight = torch.ones(3, requires_grad=True)


def train() -> None:
    prediction = weight.exp()
    loss = prediction.sum()
    print("ready", flush=True)
    time.sleep(60)
    loss.backward()


train()
