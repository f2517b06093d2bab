import torch
import torch.nn as nn

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 9), nn.Tanh())
        self.out = nn.Linear(9, 1)

    def forward(self, x):
        return self.out(self.body(x))


saved = {}


def keep_sensitivity(module, grad_in, grad_out):
    saved["g"] = tuple(g.abs() for g in grad_in)
    return saved["g"]


model = Model()
model.out.register_full_backward_hook(keep_sensitivity)
opt = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(3):
    x = torch.randn(14, 5)
    loss = (model(x) - x.prod(1, keepdim=True)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
