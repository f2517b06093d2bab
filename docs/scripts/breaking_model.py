import torch


@torch.compile(backend="eager")
def scaled(x, factor):
    hidden = x.sin()
    if hidden.sum() > 0:  # depends on the data
        hidden = factor * hidden
    return hidden.cos()


x = torch.ones(3, requires_grad=True)
for step in range(4):
    scaled(x, 2 + step / 10).sum().backward()
