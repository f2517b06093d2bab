"""A part of the forward pass as TorchScript: its gradients come back all the same."""

import torch
from torch import Tensor, nn


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 6)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.inner(x))


encoder, head = torch.jit.script(Encoder()), nn.Linear(6, 2)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    head(encoder(torch.ones(3, 4))).sum().backward()
    optimizer.step()
