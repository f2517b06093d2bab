import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)

from torch.func import functional_call

model = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 1))
meta_opt = torch.optim.Adam(model.parameters(), lr=1e-3)


def adapt(params, x, y, lr=0.1):
    prediction = functional_call(model, params, (x,))
    inner_loss = F.mse_loss(prediction, y)
    grads = torch.autograd.grad(inner_loss, list(params.values()), create_graph=True)
    return {name: p - lr * g for (name, p), g in zip(params.items(), grads)}


for step in range(5):
    meta_opt.zero_grad()
    meta_loss = 0.0
    for task in range(3):
        phase = torch.rand(1) * 3
        x_support, x_query = torch.rand(10, 1) * 4 - 2, torch.rand(10, 1) * 4 - 2
        y_support, y_query = torch.sin(x_support + phase), torch.sin(x_query + phase)
        fast = adapt(dict(model.named_parameters()), x_support, y_support)
        fast = adapt(fast, x_support, y_support)
        query_loss = F.mse_loss(functional_call(model, fast, (x_query,)), y_query)
        meta_loss = meta_loss + query_loss
    meta_loss.backward()
    meta_opt.step()
