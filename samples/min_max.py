"""A two-player game: one optimizer minimizes the value; the other maximizes it, by minimizing its negative."""

import torch

x = torch.tensor(1.0, requires_grad=True)
y = torch.tensor(1.0, requires_grad=True)
minimizer = torch.optim.SGD([x], lr=0.1)
maximizer = torch.optim.SGD([y], lr=0.1)


def value() -> torch.Tensor:
    return x**2 + 2 * x * y - y**2


for _ in range(50):
    loss = value()
    minimizer.zero_grad()
    loss.backward()
    minimizer.step()

    flipped = -value()
    maximizer.zero_grad()
    flipped.backward()
    maximizer.step()

# Neither can do better than at the saddle point.
assert torch.allclose(torch.stack([x, y]), torch.zeros(2), atol=1e-3)
