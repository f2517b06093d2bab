import torch

torch.manual_seed(0)
A = torch.randn(30, 4)
b = A @ torch.tensor([1.0, -2.0, 0.5, 3.0]) + 0.01 * torch.randn(30)
w = torch.zeros(4, requires_grad=True)
opt = torch.optim.LBFGS([w], lr=1, line_search_fn="strong_wolfe")
trace = []


def closure():
    opt.zero_grad()
    loss = ((A @ w - b) ** 2).mean()
    loss.backward()
    trace.append(loss.item())
    return loss


for _ in range(3):
    opt.step(closure)
print(w.data, trace[-1])
