"""A custom function whose backward raises: the graph is still drawn and shows the node that failed."""

from typing import Any

import torch
from torch import Tensor, nn


class Clamp(torch.autograd.Function):
    """Forgets in backward what forward has kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, limit: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.limit = limit
        return x.clamp(-limit, limit)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        x, mask = ctx.saved_tensors
        return gradient * mask * (x.abs() < ctx.limit), None


torch.manual_seed(0)

encoder = nn.Linear(4, 8)
decoder = nn.Linear(8, 4)
inputs = torch.randn(2, 4)

code = Clamp.apply(torch.tanh(encoder(inputs)), 0.5)
loss = nn.functional.mse_loss(decoder(code), inputs)
loss.backward()
