import torch
import torch.nn as nn


class Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight, index):
        ctx.save_for_backward(index)
        ctx.rows = weight.shape[0]
        return weight[index]

    @staticmethod
    def backward(ctx, g):
        (index,) = ctx.saved_tensors
        grad_weight = g.new_zeros(ctx.rows, g.shape[-1])
        grad_weight[index] = g
        return grad_weight, None


torch.manual_seed(0)
table = nn.Parameter(torch.randn(10, 6))
head = nn.Linear(6, 2)
opt = torch.optim.Adam([table, *head.parameters()], lr=1e-2)
for _ in range(3):
    ids = torch.randint(0, 10, (32,))
    logits = head(Lookup.apply(table, ids))
    loss = nn.functional.cross_entropy(logits, (ids > 4).long())
    opt.zero_grad()
    loss.backward()
    opt.step()
