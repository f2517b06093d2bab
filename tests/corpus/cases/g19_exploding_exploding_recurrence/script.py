import torch

torch.manual_seed(0)
W = (torch.randn(8, 8) * 1.2).requires_grad_()
U = torch.randn(8, 3, requires_grad=True)
opt = torch.optim.SGD([W, U], lr=1e-12)
for step in range(2):
    h = torch.zeros(8, 10)
    for t in range(20):
        h = W @ h + U @ torch.randn(3, 10)
    loss = h.abs().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
