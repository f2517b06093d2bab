"""Two ways to keep a computation out of the graph, and what that does to gradients."""

import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder = nn.Linear(4, 2), nn.Linear(2, 4)
inputs = torch.randn(8, 4)

with torch.no_grad():  # nothing inside is recorded
    code = encoder(inputs)
assert code.grad_fn is None and not code.requires_grad

code = encoder(inputs).detach()  # the same values, without their history
loss = (decoder(code) - inputs).square().mean()
loss.backward()
assert encoder.weight.grad is None  # no path leads there: not zero, but no gradient at all
assert decoder.weight.grad is not None

# Without a cut both get one.
loss = (decoder(encoder(inputs)) - inputs).square().mean()
loss.backward()
assert encoder.weight.grad is not None
