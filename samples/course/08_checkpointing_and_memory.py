"""What an operation needs for its backward is kept until then, unless it is computed again."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
calls = 0


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(256, 256)

    def forward(self, x):
        global calls
        calls += 1
        return torch.tanh(self.linear(x))


plain, checkpointed = Block(), Block()
inputs = torch.randn(64, 256, requires_grad=True)

kept = []
with torch.autograd.graph.saved_tensors_hooks(lambda tensor: (kept.append(tensor.shape), tensor)[1], lambda held: held):
    loss = plain(inputs).sum()
assert kept.count(torch.Size([64, 256])) == 2  # the input, for the weight's gradient, and the result of tanh
loss.backward()
assert calls == 1

loss = checkpoint(checkpointed, inputs, use_reentrant=False).sum()
loss.backward()
assert calls == 3  # once forward, and once more inside backward
