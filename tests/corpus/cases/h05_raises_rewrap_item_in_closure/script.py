import torch

torch.manual_seed(0)
x = torch.zeros(3, requires_grad=True)
opt = torch.optim.LBFGS([x], lr=0.5)
target = torch.tensor([1.0, -1.0, 2.0])


def rosen(v):
    d = v - target
    return sum(d[i].item() ** 2 for i in range(3))


def closure():
    opt.zero_grad()
    loss = torch.as_tensor(rosen(x))
    loss.backward()
    return loss


opt.step(closure)
